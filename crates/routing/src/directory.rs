//! The directory: leases, and the routes, connections and presence that follow from them.
//!
//! Each caller has a port of its own: admission and renewal use [`Leases`], delivery [`Routes`],
//! operators and reconciliation [`Connections`], the presence plane [`PresenceStates`], and the
//! link between nodes [`Nodes`]. One engine implements all of them; a [`Directory`] is the handle
//! to it that a node is assembled with.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use heartline_protocol::{ConnectionId, NodeId, Timestamp, UserId};
use tokio::sync::broadcast;

use crate::lease::{Lease, LeaseKey, LiveConnection};
use crate::presence::{Change, PresenceState};

/// The rules of admission.
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

/// The decision about a new connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registration {
    /// The connection has a lease now.
    Admitted {
        /// The older connections that it replaced. Their leases are removed; their nodes must be
        /// made to close the sockets.
        replaced: Vec<LeaseKey>,
    },
    /// The connection has no lease.
    Refused(Refusal),
}

/// Why a connection got no lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The user has as many live connections as allowed.
    ConnectionLimit,
    /// A younger socket has replaced this one, which must close with `session_replaced`.
    Replaced,
}

/// A node that holds connections of some of the users asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The node.
    pub node_id: NodeId,
    /// The users that have a live chat connection there, each once.
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
    /// The planes that it runs, for example `gateway,ingest,fanout`.
    pub planes: String,
    /// When it started, by its own clock: for display only.
    pub started_at: Timestamp,
    /// How many connections it holds, leased or not.
    pub connections: usize,
}

/// A node whose announcement has not expired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveNode {
    /// Its announcement.
    pub record: NodeRecord,
    /// How long until the announcement expires unless it is renewed.
    pub remaining: Duration,
}

/// The directory did not answer in time, or returned an error.
#[derive(Debug, thiserror::Error)]
#[error("the directory is unavailable")]
pub struct DirectoryError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// How long the directory has not answered.
pub trait Answering: Send + Sync + std::fmt::Debug {
    /// How long the directory has not answered although it is called every second: zero while it
    /// answers, and always zero for one inside the process.
    fn silence(&self) -> Duration;
}

/// Grants, renews and ends leases.
///
/// A lease that was neither renewed nor registered again within the policy's `lease` does not
/// exist any more for any port of the directory, whether or not a sweep has removed it (except
/// that [`Routes`] may name the node until the sweep); its user goes offline when a sweep finds
/// it. Time is the directory's own, so that nodes with differing clocks agree.
#[async_trait]
pub trait Leases: Send + Sync + std::fmt::Debug {
    /// Decides admission, replacement and the per-user limit as one atomic step, and whether the
    /// user goes online by it.
    ///
    /// The younger socket (the smaller age) wins; a replaced lease is removed in the same step. A
    /// lease that is already held is renewed, and one that was lost is created again: neither is
    /// ever refused for a limit.
    async fn register(&self, lease: Lease, policy: Policy) -> Result<Registration, DirectoryError>;

    /// Extends leases, in one call for many. Returns those that are not held (any more), which
    /// the caller registers again if their sockets are still open.
    async fn renew(
        &self,
        leases: &[LeaseKey],
        duration: Duration,
    ) -> Result<Vec<LeaseKey>, DirectoryError>;

    /// Keeps the indexes of leases from expiring. Called for every lease every few minutes; returns
    /// those with a missing index, which the caller registers again.
    async fn extend(&self, leases: &[LeaseKey]) -> Result<Vec<LeaseKey>, DirectoryError>;

    /// Ends a lease: the connection is no longer found, counted or routed to. If it was the
    /// user's last, they stay online for `keep` longer, or go offline at once if that is zero.
    /// Ending one that does not exist, or was replaced, changes nothing.
    ///
    /// Returns the directory's time while it is rebuilding after a loss of its data and decides no
    /// transitions: the caller then records when the user was last seen.
    async fn unregister(
        &self,
        lease: &LeaseKey,
        keep: Duration,
    ) -> Result<Option<Timestamp>, DirectoryError>;

    /// Removes up to `limit` expired leases, decides which users go offline by it, and returns the
    /// removed leases. Any node may call it; each lease is returned to exactly one caller.
    async fn sweep(&self, limit: usize, policy: Policy) -> Result<Vec<LeaseKey>, DirectoryError>;
}

/// Finds the nodes that a push must be sent to.
#[async_trait]
pub trait Routes: Answering {
    /// The nodes besides `own` that hold live chat connections of these users, each with its
    /// users. The memory of the node `own` decides about its sockets. One call for all users.
    async fn routes(&self, user_ids: &[UserId], own: &NodeId)
    -> Result<Vec<Route>, DirectoryError>;
}

/// Lists live connections.
#[async_trait]
pub trait Connections: Send + Sync + std::fmt::Debug {
    /// The live connections of each user, in the order of `user_ids`; an offline user has none.
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
}

/// Returns which users are online, and publishes every transition.
#[async_trait]
pub trait PresenceStates: Answering {
    /// Whether users are online, in the order of `user_ids`. A user who never connected is offline.
    async fn presence(&self, user_ids: &[UserId]) -> Result<Vec<PresenceState>, DirectoryError>;

    /// Subscribes to every change from now on. A receiver that falls behind gets `Lagged`, which
    /// is a gap.
    fn changes(&self) -> broadcast::Receiver<Change>;
}

/// Lists the nodes of the cluster.
#[async_trait]
pub trait Nodes: Answering {
    /// Announces a node, or renews its announcement. Routes to a node count only while it lasts.
    async fn announce(&self, node: &NodeRecord, duration: Duration) -> Result<(), DirectoryError>;

    /// Ends a node's announcement.
    async fn withdraw(&self, node_id: &NodeId) -> Result<(), DirectoryError>;

    /// The nodes whose announcement has not expired.
    async fn nodes(&self) -> Result<Vec<LiveNode>, DirectoryError>;
}

/// An engine with every port of the directory.
pub trait DirectoryEngine: Leases + Routes + Connections + PresenceStates + Nodes {}

impl<E: Leases + Routes + Connections + PresenceStates + Nodes> DirectoryEngine for E {}

/// A handle to each port of one engine. Clones share the engine.
#[derive(Debug, Clone)]
pub struct Directory {
    /// For admission and renewal.
    pub leases: Arc<dyn Leases>,
    /// For delivery.
    pub routes: Arc<dyn Routes>,
    /// For operators and reconciliation.
    pub connections: Arc<dyn Connections>,
    /// For the presence plane.
    pub presence: Arc<dyn PresenceStates>,
    /// For the link between nodes.
    pub nodes: Arc<dyn Nodes>,
}

impl Directory {
    /// The ports of this engine.
    pub fn new<E: DirectoryEngine + 'static>(engine: Arc<E>) -> Self {
        Self {
            leases: Arc::clone(&engine) as Arc<dyn Leases>,
            routes: Arc::clone(&engine) as Arc<dyn Routes>,
            connections: Arc::clone(&engine) as Arc<dyn Connections>,
            presence: Arc::clone(&engine) as Arc<dyn PresenceStates>,
            nodes: engine,
        }
    }
}
