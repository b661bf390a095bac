//! The ports [`Carrier`] and [`DirectCarrier`], which send parcels.

use std::time::Duration;

use async_trait::async_trait;
use heartline_protocol::NodeId;

use super::LinkError;
use super::parcel::Parcel;

/// How long a parcel waits for room in a full queue before it is refused. After such a timeout,
/// parcels are refused at once until the queue moves, so that a stalled node does not slow others.
pub const ROOM_TIME: Duration = Duration::from_millis(100);

/// Returned parcels that may be queued for the other transport.
pub const RETURNS_MAX: usize = 2048;

/// A parcel that a carrier did not accept.
#[derive(Debug)]
pub struct Refused {
    /// Why the parcel was not accepted.
    pub error: LinkError,
    /// The parcel, which may be sent on the other transport.
    pub parcel: Parcel,
}

/// A parcel that a carrier accepted and that was not sent, or perhaps not: it may be sent on the
/// other transport, and the receiver detects a repeat by its number.
#[derive(Debug)]
pub struct Returned {
    /// The node that it is for.
    pub receiver: NodeId,
    /// The parcel.
    pub parcel: Parcel,
}

/// Carries parcels to other nodes on one transport.
///
/// A carrier numbers parcels as it sends them, per receiver. A number that was used and whose
/// parcel did not arrive is a gap for the receiver; so a carrier that drops an accepted parcel uses
/// a number for it, unless it returns the parcel.
#[async_trait]
pub trait Carrier: Send + Sync + std::fmt::Debug {
    /// Accepts a parcel for a node. Waits for room at most [`ROOM_TIME`], and never for the
    /// receiver.
    async fn carry(
        &self,
        receiver: &NodeId,
        address: Option<&str>,
        parcel: Parcel,
    ) -> Result<(), Refused>;

    /// The last number that was used for this receiver, 0 if none was.
    fn last_number(&self, receiver: &NodeId) -> u64;

    /// Uses a number for a parcel that no carrier accepted, so that the receiver detects a gap.
    fn lose(&self, receiver: &NodeId);

    /// Releases everything that is held for a node that is not known any more.
    fn forget(&self, receiver: &NodeId);
}

/// The state of the direct link to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Not known yet.
    Unknown,
    /// Parcels arrive.
    Connected,
    /// The node cannot be reached at present.
    Unreachable,
    /// No node listens at its address any more, or another node does.
    Gone,
}

/// Carries parcels from node to node, so that it works while the broker and the directory are down.
#[async_trait]
pub trait DirectCarrier: Carrier {
    /// Asks which node listens at an address.
    async fn who_is_at(&self, address: &str) -> Result<NodeId, LinkError>;

    /// The state of the link to a node.
    fn reach(&self, node_id: &NodeId) -> Reach;
}
