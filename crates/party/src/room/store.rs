//! The port to where a session's hot state is: a versioned map of fields with a log, one per session.
//!
//! A store knows nothing of queues, members or leaders. All it decides is which of two commits came
//! first, and that is enough for everything else to be decided once.

use std::fmt;
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

/// Where hot state is. Every call has a deadline of the store's own.
#[async_trait]
pub trait PartyStore: fmt::Debug + Send + Sync {
    /// A session; none if it is not here.
    async fn load(&self, session_id: &str) -> Result<Option<Stored>, PartyStoreError>;

    /// The entries that led from a revision to the present one, in order; none if some of them are
    /// not kept any more, or the session was restored since.
    async fn entries(
        &self,
        session_id: &str,
        after: Revision,
    ) -> Result<Option<Vec<Bytes>>, PartyStoreError>;

    /// Every entry that is kept of an incarnation, in order; those of the present one alone are.
    async fn log(&self, session_id: &str, incarnation: u64) -> Result<Vec<Bytes>, PartyStoreError>;

    /// Compares and sets. An error says nothing about whether it was done, and a conflict may be
    /// with this very commit, if an earlier call of it was late or was repeated on its way: whoever
    /// needs to know looks for the commit's id in the entries.
    async fn commit(&self, commit: Commit) -> Result<Committed, PartyStoreError>;

    /// What sessions are at, in the order in which they were named.
    async fn revisions(
        &self,
        session_ids: &[String],
    ) -> Result<Vec<Option<Revision>>, PartyStoreError>;

    /// Keeps sessions from being cleared away for want of use, and says that they have members.
    /// Answers those that are gone.
    async fn keep(&self, session_ids: &[String]) -> Result<Vec<String>, PartyStoreError>;

    /// Removes a session that is at this revision, with its log; answers whether it was.
    async fn remove(&self, session_id: &str, revision: Revision) -> Result<bool, PartyStoreError>;

    /// Sessions with members, those first whose last sign of life is oldest, at most so many. Some
    /// may have none any more.
    async fn active(&self, limit: usize) -> Result<Vec<String>, PartyStoreError>;

    /// Says that a session is not active, whatever the list says.
    async fn inactive(&self, session_id: &str) -> Result<(), PartyStoreError>;

    /// From when this answers, every commit to the session is told. Watching twice is watching once.
    async fn watch(&self, session_id: &str) -> Result<(), PartyStoreError>;

    /// Ends that.
    async fn unwatch(&self, session_id: &str);

    /// What is heard from now on.
    fn notices(&self) -> broadcast::Receiver<Notice>;

    /// Takes the lock under which a session is restored, for [`LOCK_LIFETIME`]; answers whether it
    /// was free.
    async fn lock(&self, session_id: &str, owner: &str) -> Result<bool, PartyStoreError>;

    /// Releases it if it is still this owner's.
    async fn unlock(&self, session_id: &str, owner: &str) -> Result<(), PartyStoreError>;

    /// Asks every node for its copy of a session.
    async fn ask(&self, session_id: &str) -> Result<(), PartyStoreError>;

    /// Puts a copy of a session forward. The newest is kept, for [`OFFER_LIFETIME`].
    async fn offer(&self, session_id: &str, copy: Stored) -> Result<(), PartyStoreError>;

    /// The newest copy that anybody has put forward.
    async fn offered(&self, session_id: &str) -> Result<Option<Stored>, PartyStoreError>;

    /// The time by the store's own clock, in milliseconds since 1970, so that nodes agree on who
    /// has been present longest.
    async fn now_ms(&self) -> Result<u64, PartyStoreError>;
}

/// The store did not answer, or not in time. Nothing is known of what was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the party store failed: {0}")]
pub struct PartyStoreError(pub String);
