//! Delivery: turns events into envelopes, one per node, encoded once.
//!
//! Fanout never uses a socket: it reads a chat's members from the store and their routes from the
//! directory, and sends one envelope to each node; that node selects its connections.

pub mod audiences;
#[cfg(any(test, feature = "contract"))]
pub mod contract;
pub mod consume;
mod audience_cache;
mod dirty;
mod deliver;
pub mod presence;
pub mod push;
pub mod typing;
pub mod metrics;

pub use audiences::{Audience, Audiences};
pub use consume::Consumer;
pub use deliver::Fanout;
pub use metrics::Metrics;
pub use presence::PresenceFanout;
pub use push::{Push, PushError};
pub use typing::{TypingFanout, TypingQueue, TypingReceiver};
