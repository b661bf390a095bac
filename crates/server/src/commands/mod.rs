//! What `heartline` can be told to do.

pub mod config;
pub mod connect;
pub mod serve;
pub mod token;
