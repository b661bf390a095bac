//! What `heartline` can be told to do.

pub mod config;
//C pub mod connect;
pub mod serve;
pub mod token;
