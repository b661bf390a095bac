//! The outside world: one module per vendor or remote service.
//!
//! Each module implements a port that a plane owns. No plane knows that this crate exists; only
//! the server, which puts the parts together, does.

#[cfg(test)]
mod append_all;
pub mod direct;
mod document;
mod geography;
pub mod jwks;
pub mod postgres;
pub mod redis;
mod parcel_queue;
pub mod sqlite;

pub use jwks::{HttpJwks, JwksUrlError};
