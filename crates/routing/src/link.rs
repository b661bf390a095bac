//! The port [`NodeLink`]: an envelope to one node.
//!
//! Fanout and the gateway never see each other; they meet here. The sender names a node, the
//! receiving node's own memory decides which of its sockets get the frame.
//!
//! A single node has a [`LocalLink`]. Many have a [`ClusterLink`], which writes envelopes into
//! [`Parcel`]s, gives them to a [`Carrier`] and takes what comes at its [`Reception`].

mod envelope;
mod local;
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
pub use metrics::{LinkMetrics, ReasonLabel, Transport, TransportLabel, TransportMetrics};
pub use numbering::{Arrival, Departures, PROMISE_TIME, Received};
pub use parcel::{Arrived, Content, PARCEL_BYTES_MAX, Parcel, ParcelError, Status};
pub use peers::{PEER_MEMORY, PeerStatus, STATUS_AGE_MAX};
pub use reception::{INBOX_ENVELOPES, InboxEnded, Reception};
pub use wire::Malformed;

use async_trait::async_trait;
use heartline_protocol::NodeId;

/// Why an envelope did not leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The receiver's queue is full: the envelope is lost, and whoever it concerns must be told.
    #[error("the node's queue is full")]
    Full,
    /// There is no such node, or it has stopped.
    #[error("the node is not there")]
    Gone,
}

/// Carries envelopes between nodes, in order from one sender to one receiver.
#[async_trait]
pub trait NodeLink: Send + Sync + std::fmt::Debug {
    /// Stop 11 of the life of a message: sent across. Waits for room in the link's own bounded
    /// queue, but never for the receiver to act.
    async fn send(&self, node_id: &NodeId, envelope: Envelope) -> Result<(), LinkError>;

    /// The other nodes that are known: where a broadcast goes when nobody can say where users
    /// are. It includes nodes that were seen lately and may be gone.
    fn peers(&self) -> Vec<NodeId>;

    /// The other nodes whose connections are not to be found in the directory at present, because
    /// it does not hear them: they must be sent everything.
    fn cut_off(&self) -> Vec<NodeId>;
}
