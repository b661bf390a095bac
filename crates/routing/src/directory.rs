//! The port [`Directory`]: leases, and by them who is where.

use std::time::Duration;

use async_trait::async_trait;
use heartline_protocol::{ConnectionId, NodeId, Timestamp, UserId};
use tokio::sync::broadcast;

use crate::lease::{Lease, LeaseKey, LiveConnection};
use crate::presence::{Change, PresenceState};

/// Who may be connected at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// True: a new connection replaces every older one of its user and kind, on any node.
    /// False: only the one of the same device.
    pub single_session: bool,
    /// Live connections that a user may have.
    pub connections_per_user: usize,
    /// How long a lease lasts without renewal.
    pub lease: Duration,
    /// How long a user stays online after the last lease, in case they come back.
    pub offline_linger: Duration,
}

/// The one decision about a new connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registration {
    /// It holds a lease now.
    Admitted {
        /// The older connections whose place it took. Their leases are gone already; their nodes
        /// must be told to close the sockets.
        replaced: Vec<LeaseKey>,
    },
    /// It holds none.
    Refused(Refusal),
}

/// Why a connection got no lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The user has as many live connections as allowed.
    ConnectionLimit,
    /// A younger socket holds the place that this one claims; it must close `session_replaced`.
    Replaced,
}

/// A node that holds connections of some of the users asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The node.
    pub node_id: NodeId,
    /// Which of the users have a live chat connection there, each once.
    pub user_ids: Vec<UserId>,
    /// How many such connections they have there.
    pub connections: usize,
}

/// A node as it announces itself. Its id is `<name>-<boot suffix>`: a restarted node is another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// The node.
    pub node_id: NodeId,
    /// Where other nodes reach it directly, as `host:port`; none on a single node.
    pub address: Option<String>,
    /// What it runs, for example `gateway,ingest,fanout`.
    pub planes: String,
    /// When it started, by its own clock: only people read it.
    pub started_at: Timestamp,
    /// How many connections it holds, leased or not.
    pub connections: usize,
}

/// A node that has announced itself lately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveNode {
    /// What it says of itself.
    pub record: NodeRecord,
    /// How long that still counts unless it is said again.
    pub remaining: Duration,
}

/// The directory could not be asked or did not answer in time.
#[derive(Debug, thiserror::Error)]
#[error("the directory is unavailable")]
pub struct DirectoryError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Leases, and by them who is where and who is online.
///
/// A lease that was neither renewed nor registered again within the policy's `lease` does not
/// exist any more for any method, whether or not a sweep has removed it; its user goes offline
/// when a sweep finds it. Time is the directory's own, so that nodes with differing clocks agree.
#[async_trait]
pub trait Directory: Send + Sync + std::fmt::Debug {
    /// Decides admission, replacement and the per-user limit as one atomic step, and whether the
    /// user comes online by it.
    ///
    /// The younger socket (the smaller age) wins a place; a replaced lease is removed in the same
    /// step. A lease that is already held is renewed, and one that was lost is made again: neither
    /// is ever refused for a limit.
    async fn register(&self, lease: Lease, policy: Policy) -> Result<Registration, DirectoryError>;

    /// Extends leases, in one call for many. Answers those that are not held (any more), which
    /// the caller registers again if their sockets are still open.
    async fn renew(
        &self,
        leases: &[LeaseKey],
        duration: Duration,
    ) -> Result<Vec<LeaseKey>, DirectoryError>;

    /// Keeps what is stored beside the leases from being cleared away as garbage. Called for
    /// every lease every few minutes; answers those of which something is missing, which the
    /// caller registers again.
    async fn extend(&self, leases: &[LeaseKey]) -> Result<Vec<LeaseKey>, DirectoryError>;

    /// Ends a lease: the connection is no longer found, counted or routed to. If it was the
    /// user's last, they stay online for `keep` longer, or go offline at once if that is zero.
    /// Ending one that does not exist, or was replaced, changes nothing.
    ///
    /// Answers the directory's time while it decides nothing, because it lost what it knew and is
    /// being told again: no transition will say when the user was last seen, so the caller records it.
    async fn unregister(
        &self,
        lease: &LeaseKey,
        keep: Duration,
    ) -> Result<Option<Timestamp>, DirectoryError>;

    /// Where else to send a push: the nodes besides `own`, whose own memory decides there, that
    /// hold live chat connections of these users, each with its users. One call for all.
    async fn routes(&self, user_ids: &[UserId], own: &NodeId)
    -> Result<Vec<Route>, DirectoryError>;

    /// The live connections of each user, in the order asked, with none for who is offline.
    async fn by_user(
        &self,
        user_ids: &[UserId],
    ) -> Result<Vec<Vec<LiveConnection>>, DirectoryError>;

    /// The live connections on a node.
    async fn by_node(&self, node_id: &NodeId) -> Result<Vec<LiveConnection>, DirectoryError>;

    /// The live connection of this id, if there is one.
    async fn by_connection(
        &self,
        connection_id: ConnectionId,
    ) -> Result<Option<LiveConnection>, DirectoryError>;

    /// Removes up to `limit` leases that have run out, decides who goes offline by it, and says
    /// whose leases they were. Any node may call it; each lease is answered to exactly one caller.
    async fn sweep(&self, limit: usize, policy: Policy) -> Result<Vec<LeaseKey>, DirectoryError>;

    /// Whether users are online, in the order asked. Who was never here is offline.
    async fn presence(&self, user_ids: &[UserId]) -> Result<Vec<PresenceState>, DirectoryError>;

    /// What changes from now on. A listener that falls behind gets `Lagged`, which is a gap.
    fn changes(&self) -> broadcast::Receiver<Change>;

    /// Announces a node, or that it is still there. Routes to a node count only while it is.
    async fn announce(&self, node: &NodeRecord, duration: Duration) -> Result<(), DirectoryError>;

    /// Ends that.
    async fn withdraw(&self, node_id: &NodeId) -> Result<(), DirectoryError>;

    /// The nodes that are there.
    async fn nodes(&self) -> Result<Vec<LiveNode>, DirectoryError>;

    /// How long the directory has not answered although it is asked every second: zero while all
    /// is well, and always for one in the process itself.
    fn silence(&self) -> Duration;
}
