//! The ports to the store of live sessions: for each session a versioned map of fields with a log.
//!
//! A store does not know queues, members or leaders: it only decides which of two commits came
//! first, and everything else follows from that order. Its ports follow their callers: a room
//! commits through [`SessionStore`] and follows [`SessionWatch`], the sweep over all sessions uses
//! [`SessionActivity`], and nodes that share a store restore lost sessions by [`SessionRecovery`].

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::broadcast;

use crate::value::fields::Changes;
use crate::value::session::PartySession;

/// The revision of a session. Versions may repeat after a loss, but never in the same incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision {
    /// The number of times that the session was restored after a loss.
    pub incarnation: u64,
    /// The number of commits.
    pub version: u64,
}

impl Revision {
    /// The revision of a session.
    pub fn of(session: &PartySession) -> Self {
        Self { incarnation: session.incarnation, version: session.version }
    }
}

/// A session as a store holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The revision.
    pub revision: Revision,
    /// All fields.
    pub fields: Vec<(String, Vec<u8>)>,
}

/// One commit, which is applied as a whole or not at all.
#[derive(Debug, Clone)]
pub struct Commit {
    /// The session's id.
    pub session_id: String,
    /// The revision that the session must have; none if it must not exist.
    pub expected: Option<Revision>,
    /// The revision after the commit: one version more, or any if the session did not exist.
    pub revision: Revision,
    /// The fields that change.
    pub changes: Changes,
    /// The entry of the log, which is also sent to every node that watches the session.
    pub entry: Bytes,
    /// The number of entries that the log keeps, this one included.
    pub entries_kept: usize,
    /// Whether the session has members afterwards.
    pub is_active: bool,
}

/// The result of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    /// The commit was applied, and notices were sent.
    Done,
    /// Nothing was changed: the session is at this revision instead, or does not exist.
    Conflict(Option<Revision>),
}

/// A message from the store to a node.
#[derive(Debug, Clone)]
pub enum Notice {
    /// A watched session has changed, by this node or another.
    Committed {
        /// The session's id.
        session_id: String,
        /// Its revision after the commit.
        revision: Revision,
        /// The entry of the log; none if it is too large for a notice and must be read.
        entry: Option<Bytes>,
    },
    /// A session is being restored after a loss: a node that has a copy offers it.
    Wanted {
        /// The session's id.
        session_id: String,
    },
    /// Notices may be missing: the node must compare every watched session.
    Gap,
}

/// The most buffered notices of one subscriber. A subscriber that falls further behind has a gap.
pub const NOTICES_MAX: usize = 8192;

/// The lifetime of a lock.
pub const LOCK_LIFETIME: Duration = Duration::from_secs(10);

/// The lifetime of an offered copy. Several nodes may die in turn while they hold the lock, and the
/// next holder still finds their copies.
pub const OFFER_LIFETIME: Duration = Duration::from_secs(60);

/// The store of live sessions, as the ports that it offers. Clones share them.
#[derive(Debug, Clone)]
pub struct PartyStore {
    /// The sessions themselves.
    pub sessions: Arc<dyn SessionStore>,
    /// Notices about changes of sessions.
    pub watch: Arc<dyn SessionWatch>,
    /// The list of sessions that have members.
    pub activity: Arc<dyn SessionActivity>,
    /// Coordination of nodes that share the store; none if this node is its only user.
    pub recovery: Option<Arc<dyn SessionRecovery>>,
}

impl PartyStore {
    /// A store that only this node uses. A lost session is restored without asking other nodes.
    pub fn of_one_node<S>(store: Arc<S>) -> Self
    where
        S: SessionStore + SessionWatch + SessionActivity + 'static,
    {
        let (sessions, watch) = (Arc::clone(&store), Arc::clone(&store));
        Self { sessions, watch, activity: store, recovery: None }
    }

    /// A store that several nodes share.
    pub fn shared<S>(store: Arc<S>) -> Self
    where
        S: SessionStore + SessionWatch + SessionActivity + SessionRecovery + 'static,
    {
        let recovery: Arc<dyn SessionRecovery> = Arc::clone(&store) as Arc<dyn SessionRecovery>;
        Self { recovery: Some(recovery), ..Self::of_one_node(store) }
    }

    /// Whether other nodes may have committed something that this node has not seen yet.
    pub fn is_shared(&self) -> bool {
        self.recovery.is_some()
    }
}

/// Sessions and their logs. Every call has a deadline of the store's own.
#[async_trait]
pub trait SessionStore: fmt::Debug + Send + Sync {
    /// Reads a session; none if the store does not have it.
    async fn load(&self, session_id: &str) -> Result<Option<Stored>, PartyStoreError>;

    /// Compares and sets: the commit is applied as a whole if the session is at `expected`, and
    /// not at all otherwise. After an error the commit may have been applied. A conflict may be
    /// with this very commit, if an earlier call of it was late or was repeated on its way: a
    /// caller that needs to know looks for the commit's id in the entries.
    async fn commit(&self, commit: Commit) -> Result<Committed, PartyStoreError>;

    /// The entries that led from a revision to the present one, in order; none if some of them are
    /// no longer kept, or if the session was restored since.
    async fn entries(
        &self,
        session_id: &str,
        after: Revision,
    ) -> Result<Option<Vec<Bytes>>, PartyStoreError>;

    /// Every kept entry of an incarnation, in order; empty if it is not the present incarnation.
    async fn log(&self, session_id: &str, incarnation: u64) -> Result<Vec<Bytes>, PartyStoreError>;

    /// The revisions of sessions, in the order of the ids; none for a session that does not exist.
    async fn revisions(
        &self,
        session_ids: &[String],
    ) -> Result<Vec<Option<Revision>>, PartyStoreError>;

    /// Removes a session that is at this revision, with its log; returns whether it did.
    async fn remove(&self, session_id: &str, revision: Revision) -> Result<bool, PartyStoreError>;
}

/// Notices about changes of sessions, to one node.
#[async_trait]
pub trait SessionWatch: fmt::Debug + Send + Sync {
    /// Watches a session: every commit after the return of this call gives a notice, in the order
    /// of the commits, or a [`Notice::Gap`] in its place. Watching twice is watching once.
    async fn watch(&self, session_id: &str) -> Result<(), PartyStoreError>;

    /// Stops watching a session.
    async fn unwatch(&self, session_id: &str);

    /// Subscribes to the notices that follow.
    fn notices(&self) -> broadcast::Receiver<Notice>;
}

/// The list of sessions that have members, and the store's clock by which they are compared.
#[async_trait]
pub trait SessionActivity: fmt::Debug + Send + Sync {
    /// Extends the lifetime of sessions and lists them as active. Returns those that are gone.
    async fn keep(&self, session_ids: &[String]) -> Result<Vec<String>, PartyStoreError>;

    /// At most `limit` active sessions, ordered by their last sign of life, the oldest first. Some
    /// of them may have no members any more.
    async fn active(&self, limit: usize) -> Result<Vec<String>, PartyStoreError>;

    /// Removes a session from the list of active ones.
    async fn inactive(&self, session_id: &str) -> Result<(), PartyStoreError>;

    /// The time by the store's clock, in milliseconds since 1970. All nodes read the same clock, so
    /// that they agree on which member has been present longest. The clock never goes back.
    async fn now_ms(&self) -> Result<u64, PartyStoreError>;
}

/// Coordination of the nodes that share a store, when a session was lost: one node at a time
/// restores it, from the newest copy that any node has.
#[async_trait]
pub trait SessionRecovery: fmt::Debug + Send + Sync {
    /// Acquires the lock of a session for [`LOCK_LIFETIME`]; returns false if it is held. After an
    /// error the lock may have been acquired.
    async fn lock(&self, session_id: &str, owner: &str) -> Result<bool, PartyStoreError>;

    /// Releases the lock if this owner holds it.
    async fn unlock(&self, session_id: &str, owner: &str) -> Result<(), PartyStoreError>;

    /// Asks every node for its copy of a session, by [`Notice::Wanted`].
    async fn ask(&self, session_id: &str) -> Result<(), PartyStoreError>;

    /// Offers a copy of a session. The store keeps the newest for [`OFFER_LIFETIME`].
    async fn offer(&self, session_id: &str, copy: Stored) -> Result<(), PartyStoreError>;

    /// The newest copy that was offered.
    async fn offered(&self, session_id: &str) -> Result<Option<Stored>, PartyStoreError>;
}

/// A call to the store failed or timed out. The store may have performed it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the party store failed: {0}")]
pub struct PartyStoreError(#[source] Arc<dyn Error + Send + Sync>);

impl PartyStoreError {
    /// A failure with this cause.
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Arc::from(cause.into()))
    }
}
