//! Parses the Rust source of the wire format, for the generated files.

pub mod attributes;
pub mod constants;
pub mod types;
