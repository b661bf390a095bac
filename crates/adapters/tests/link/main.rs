//! Nodes that are linked over real sockets and a real Redis, and what happens when parts of that
//! fail.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod harness;
mod directory;
mod healthy;
mod redis_down;
mod one_node_cut;
mod direct_only;
