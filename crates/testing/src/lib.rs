//! Nodes, clients and faults for tests. Only ever a dev-dependency.
//!
//! A test binary names the program that it tests (`Binary`) and starts it as a `Server`: a real
//! process with its own files. Tests use HTTP (`Response`), raw sockets (`Socket`), clients of
//! party sessions (`party::PartyClient`), and a proxy that simulates a network fault (`Proxy`).
//! Nothing is retried, and every wait has a deadline (`PATIENCE`). These are behind the feature
//! `nodes`.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue should panic at that line")]

pub mod lives;
pub mod source;

#[cfg(feature = "nodes")]
mod nodes;

#[cfg(feature = "nodes")]
pub use nodes::*;
