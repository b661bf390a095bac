//! The port [`Directory`]: leases, and by them who is where.

use std::time::Duration;

use async_trait::async_trait;
use heartline_protocol::{ConnectionId, NodeId, UserId};

use crate::lease::{Lease, LeaseKey, LiveConnection};

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

/// The directory could not be asked or did not answer in time.
#[derive(Debug, thiserror::Error)]
#[error("the directory is unavailable")]
pub struct DirectoryError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Leases, and by them who is where.
///
/// A lease that was neither renewed nor registered again within the policy's `lease` does not
/// exist any more for any method, whether or not a sweep has removed it. Time is the directory's
/// own, so that nodes with differing clocks agree.
#[async_trait]
pub trait Directory: Send + Sync + std::fmt::Debug {
    /// Decides admission, replacement and the per-user limit as one atomic step.
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

    /// Ends a lease. Ending one that does not exist, or was replaced, changes nothing.
    async fn unregister(&self, lease: &LeaseKey) -> Result<(), DirectoryError>;

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

    /// Removes up to `limit` leases that have run out, and says whose they were. Any node may
    /// call it; each lease is answered to exactly one caller.
    async fn sweep(&self, limit: usize) -> Result<Vec<LeaseKey>, DirectoryError>;
}
