//! The Rust source of the wire, for files that are written from it.

pub mod attributes;
pub mod constants;
pub mod types;
