mod contract;
mod faults;
mod model;
mod obstacles;
mod pages_read;
mod recovery;
mod scratch;
