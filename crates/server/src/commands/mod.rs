//! What `heartline` can be told to do.

pub mod config;
pub mod connect;
pub mod doctor;
pub mod repair;
pub mod serve;
pub mod store;
pub mod token;
