//! The ports [`NodeLink`], which carries an envelope to one node, and [`LocalSockets`].
//!
//! Fanout and the gateway do not depend on each other; they meet here. The sender names a node, and
//! the receiving node selects its own sockets.
//!
//! A single node has a [`LocalLink`], several in one process have [`MemoryLinks`]. Nodes of a
//! cluster have a [`ClusterLink`], which writes envelopes into [`Parcel`]s, gives them to a
//! [`Carrier`] and receives others at its [`Reception`].

mod envelope;
mod local;
mod memory;
mod wire;
mod codec;
mod parcel;
mod numbering;
mod carrier;
mod peers;
mod health;
mod gaps;
mod reception;
mod cluster;
mod metrics;

pub use carrier::{Carrier, DirectCarrier, RETURNS_MAX, ROOM_TIME, Reach, Refused, Returned};
pub use cluster::{ClusterLink, ClusterParts};
pub use envelope::{Delivery, Envelope, PresenceNews, ResyncReason};
pub use health::{PROOF_AGE_MAX, WORSE_OFF_AGE};
pub use local::{LOCAL_QUEUE_ENVELOPES, LocalLink};
pub use memory::{MemoryLink, MemoryLinks};
pub use metrics::{LinkMetrics, ReasonLabel, Transport, TransportLabel, TransportMetrics};
pub use numbering::{Arrival, Departures, PROMISE_TIME, Received};
pub use parcel::{Arrived, Content, PARCEL_BYTES_MAX, Parcel, ParcelError, Status};
pub use peers::{PEER_MEMORY, PeerStatus, STATUS_AGE_MAX};
pub use reception::{INBOX_ENVELOPES, InboxEnded, Reception};
pub use wire::Malformed;

use async_trait::async_trait;
use bytes::Bytes;
use heartline_protocol::{NodeId, UserId};

/// Why an envelope was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// There is no room for the envelope in the queue to the node, or it is too large: it is
    /// dropped, and its recipients must sync.
    #[error("the queue to the node is full")]
    Full,
    /// There is no such node, or it has stopped.
    #[error("no such node")]
    Gone,
}

/// Carries envelopes between nodes, in order from one sender to one receiver.
#[async_trait]
pub trait NodeLink: Send + Sync + std::fmt::Debug {
    /// Sends an envelope to a node. Waits for room in the link's own bounded
    /// queue, but never for the receiver to act.
    async fn send(&self, node_id: &NodeId, envelope: Envelope) -> Result<(), LinkError>;

    /// The other known nodes: the receivers of a broadcast while routes cannot be read. Nodes
    /// that were seen lately and may have stopped are included.
    fn peers(&self) -> Vec<NodeId>;

    /// The other nodes whose connections the directory does not list at present, because it does
    /// not reach them: they must be sent everything.
    fn cut_off(&self) -> Vec<NodeId>;
}

/// The sockets of this node, for a caller that needs to know how many a push was queued for.
#[async_trait]
pub trait LocalSockets: Send + Sync + std::fmt::Debug {
    /// Queues one frame, as JSON text, for every chat socket that these users have on this node,
    /// and returns for how many.
    async fn push(&self, user_ids: &[UserId], frame: &Bytes) -> usize;
}

/// The sockets of a node that accepts none.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSockets;

#[async_trait]
impl LocalSockets for NoSockets {
    async fn push(&self, _user_ids: &[UserId], _frame: &Bytes) -> usize {
        0
    }
}
