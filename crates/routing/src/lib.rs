//! Who is where: leases, routes and links between nodes.
//!
//! A lease is the one truth about a live connection. The [`Directory`] holds the leases, the
//! [`NodeLink`] carries envelopes to the node that a lease names, and [`renewal`] keeps a node's
//! own leases alive.

pub mod clock;
pub mod contract;
pub mod directory;
pub mod lease;
pub mod link;
pub mod memory;
pub mod renewal;

pub use clock::Clock;
pub use directory::{Directory, DirectoryError, Policy, Refusal, Registration, Route};
pub use lease::{Lease, LeaseKey, LeaseKind, LiveConnection, shard_of};
pub use link::{Delivery, Envelope, LinkError, LocalLink, NodeLink};
pub use memory::MemoryDirectory;
