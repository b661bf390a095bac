//! The commands of `heartline`, one file each.

pub mod config;
pub mod connect;
pub mod doctor;
pub mod repair;
pub mod serve;
pub mod store;
pub mod token;
