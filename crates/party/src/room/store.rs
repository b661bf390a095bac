//! The ports to the store of live sessions: for each session a versioned map of fields with a log.
//!
//! A store knows nothing of queues, members or leaders. It only decides which of two commits came
//! first; everything else follows from that order. Its ports follow their callers: a room commits
//! through [`SessionStore`] and follows [`SessionWatch`], the sweep over all sessions uses
//! [`SessionActivity`], and nodes that share a store restore lost sessions by [`SessionRecovery`].

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::broadcast;

use crate::value::fields::Changes;
use crate::value::session::Session;

/// Which state of a session this is. After a loss the versions of the archived session may be met
/// again, but never together with their incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision {
    /// How often the session was restored after a loss.
    pub incarnation: u64,
    /// How many commits led here.
    pub version: u64,
}

impl Revision {
    /// The revision of a session.
    pub fn of(session: &Session) -> Self {
        Self { incarnation: session.incarnation, version: session.version }
    }
}

/// A session as a store holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Which state it is.
    pub revision: Revision,
    /// Every field.
    pub fields: Vec<(String, Vec<u8>)>,
}

/// One step: everything of it becomes true at once, or nothing.
#[derive(Debug, Clone)]
pub struct Commit {
    /// Whose.
    pub session_id: String,
    /// What the session must be at; none if it must not be there.
    pub expected: Option<Revision>,
    /// What it is at afterwards: one version more, or anything where nothing was there.
    pub revision: Revision,
    /// The fields that change.
    pub changes: Changes,
    /// The entry of the log, which is also told to every node that watches the session.
    pub entry: Bytes,
    /// Entries that the log keeps, this one included.
    pub entries_kept: usize,
    /// Whether the session has members afterwards.
    pub is_active: bool,
}

/// What a commit came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    /// It is stored and told.
    Done,
    /// The session is at this and not where it was expected, or is not there. Nothing was changed.
    Conflict(Option<Revision>),
}

/// What a node hears without asking.
#[derive(Debug, Clone)]
pub enum Notice {
    /// A session that it watches has changed. Its own commits are among these.
    Committed {
        /// Which.
        session_id: String,
        /// What it is at.
        revision: Revision,
        /// The entry of the log; none if it was too large to be told, and must be read.
        entry: Option<Bytes>,
    },
    /// A session is being restored after a loss: whoever has a copy of it offers that.
    Wanted {
        /// Which.
        session_id: String,
    },
    /// Something may have been missed: everything that is watched must be compared.
    Gap,
}

/// Notices that may wait for one listener. Who falls further behind has a gap.
pub const NOTICES_MAX: usize = 8192;

/// How long a lock is held at most.
pub const LOCK_LIFETIME: Duration = Duration::from_secs(10);

/// How long a copy that was put forward is kept: several may stop in turn, each until its lock has
/// lapsed, and whoever follows them still finds their copy.
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
    /// A store that only this node uses. A lost session is restored without asking anybody else.
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

    /// The revisions of sessions, in the order of the ids; none for a session that is not there.
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
    /// that they agree on which member has been present longest. It never goes back.
    async fn now_ms(&self) -> Result<u64, PartyStoreError>;
}

/// Coordination of the nodes that share a store, when a session was lost: one node at a time
/// restores it, from the newest copy that any node has.
#[async_trait]
pub trait SessionRecovery: fmt::Debug + Send + Sync {
    /// Takes the lock of a session for [`LOCK_LIFETIME`]; returns false if somebody holds it. After
    /// an error the lock may have been taken.
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

/// A call to the store failed, or was not answered in time. It may have been carried out.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the party store failed: {0}")]
pub struct PartyStoreError(#[source] Arc<dyn Error + Send + Sync>);

impl PartyStoreError {
    /// A failure with this cause.
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Arc::from(cause.into()))
    }
}
