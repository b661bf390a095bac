//! Nodes, clients and faults for tests. Only ever a dev-dependency.
//!
//! A test binary says which program it tests (`Binary`) and starts it as a `Server`: a real process
//! with files of its own. Tests speak to it over HTTP (`Answer`), over raw sockets (`Socket`) or as
//! members of a party (`party::Guest`), and put a network between that can fail (`Proxy`). Nothing
//! is retried, and every wait has an end (`PATIENCE`). All of that is behind the feature `nodes`.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

pub mod lives;
pub mod source;

#[cfg(feature = "nodes")]
mod nodes;

#[cfg(feature = "nodes")]
pub use nodes::*;
