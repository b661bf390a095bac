//! Who should hear: one encoding, one envelope per node.
//!
//! Fanout never sees a socket. It asks the store who belongs to a chat and the directory where
//! they are, and hands one envelope to each node; the node's own memory decides which sockets get
//! it.

pub mod consume;
mod audience;
mod dirty;
mod deliver;
pub mod presence;
pub mod push;
pub mod metrics;

pub use consume::Consumer;
pub use deliver::Fanout;
pub use metrics::Metrics;
pub use presence::PresenceFanout;
pub use push::{Push, PushError};
