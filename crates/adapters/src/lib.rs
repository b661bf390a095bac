//! Implementations of the ports: one module per vendor or remote service.
//!
//! Each module implements ports of a plane. No plane depends on this crate; only the server does.

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
