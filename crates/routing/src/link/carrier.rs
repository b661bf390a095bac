//! The ports [`Carrier`] and [`DirectCarrier`]: how parcels leave this node.

use std::time::Duration;

use async_trait::async_trait;
use heartline_protocol::NodeId;

use super::LinkError;
use super::parcel::Parcel;

/// How long a full queue may take to move before a parcel is refused. Once it has not moved for so
/// long, parcels are refused at once until it does, so that one stalled node slows nobody down.
pub const ROOM_TIME: Duration = Duration::from_millis(100);

/// Parcels that may wait to be sent again another way.
pub const RETURNS_MAX: usize = 2048;

/// A parcel that was not taken.
#[derive(Debug)]
pub struct Refused {
    /// Why.
    pub error: LinkError,
    /// The parcel, which may go another way.
    pub parcel: Parcel,
}

/// A parcel that was taken and did not leave, or perhaps did not: it may go another way, and the
/// receiver knows a repeat by the number.
#[derive(Debug)]
pub struct Returned {
    /// For whom it is.
    pub receiver: NodeId,
    /// The parcel.
    pub parcel: Parcel,
}

/// Carries parcels to other nodes on one transport.
///
/// A carrier numbers parcels as they leave it, per receiver. Every number that it has used and
/// whose parcel did not arrive shows at the receiver as a gap; so a carrier that must drop a
/// parcel that it has taken uses a number up for it, unless it gives the parcel back.
#[async_trait]
pub trait Carrier: Send + Sync + std::fmt::Debug {
    /// Takes a parcel for a node. Waits for room at most [`ROOM_TIME`], and never for the receiver.
    async fn carry(
        &self,
        receiver: &NodeId,
        address: Option<&str>,
        parcel: Parcel,
    ) -> Result<(), Refused>;

    /// The last number that was used for this receiver, 0 if none was.
    fn last_number(&self, receiver: &NodeId) -> u64;

    /// Uses a number up for a parcel that no carrier took, so that the receiver sees a gap.
    fn lose(&self, receiver: &NodeId);

    /// Lets go of everything that is kept for a node that is not known any more.
    fn forget(&self, receiver: &NodeId);
}

/// What the direct link to a node looks like from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// It is not known yet.
    Unknown,
    /// What is sent arrives.
    Connected,
    /// It is not reached at present.
    Unreachable,
    /// Nobody listens at its address any more, or another node does.
    Gone,
}

/// Carries parcels without anything in between, so that it works whatever else is down.
#[async_trait]
pub trait DirectCarrier: Carrier {
    /// Which node answers at an address.
    async fn who_is_at(&self, address: &str) -> Result<NodeId, LinkError>;

    /// What the link to a node looks like.
    fn reach(&self, node_id: &NodeId) -> Reach;
}
