//! Who should hear: one encoding, one envelope per node.
//!
//! Fanout never sees a socket. It asks the directory where the receivers are and hands one
//! envelope to each node; the node's own memory decides which sockets get it.

pub mod push;

pub use push::{Fanout, Push, PushError};
