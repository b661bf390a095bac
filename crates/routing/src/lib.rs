//! Leases, routes, presence and the links between nodes.
//!
//! A lease is the source of truth about a live connection. The [`Directory`] holds the leases, the
//! [`NodeLink`] carries envelopes to the node that a lease names, and [`renewal`] renews a node's
//! own leases.

#[cfg(any(test, feature = "contract"))]
pub mod contract;
pub mod directory;
mod episode;
pub mod lease;
pub mod link;
pub mod memory;
pub mod metrics;
pub mod planes;
pub mod presence;
pub mod rate;
pub mod renewal;

pub use directory::{
    Answering, Connections, Directory, DirectoryEngine, DirectoryError, Leases, LiveNode,
    NodeRecord, Nodes, Policy, PresenceStates, Refusal, Registration, Route, Routes,
};
pub use lease::{Lease, LeaseKey, LeaseKind, LiveConnection, shard_of};
pub use link::{
    Delivery, Envelope, LinkError, LocalLink, LocalSockets, NoSockets, NodeLink, PresenceNews,
    ResyncReason,
};
pub use memory::MemoryDirectory;
pub use metrics::RoutingMetrics;
pub use planes::{InvalidPlanes, Plane, Planes};
pub use presence::{Change, PresenceState, Transition};
