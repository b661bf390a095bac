//! The cache of sessions: bounded in bytes, evicts unused ones.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use heartline_party::{Commit, Revision, Stored};
use tokio::time::Instant;

/// The most bytes of all sessions in memory. Beyond it the least recently used are evicted; the
/// file has them.
const BYTES_MAX: usize = 256 * 1024 * 1024;

/// The bytes after an eviction, so that not every commit evicts.
const BYTES_LEFT: usize = BYTES_MAX / 8 * 7;

/// A session with its log. Readers share its values.
#[derive(Debug, Clone)]
pub(super) struct CachedSession {
    /// The revision of the session.
    pub(super) revision: Revision,
    /// All fields.
    pub(super) fields: BTreeMap<String, Bytes>,
    /// The newest entries with their revisions, the oldest first.
    pub(super) entries: VecDeque<(Revision, Bytes)>,
}

impl CachedSession {
    /// The session as the port returns it.
    pub(super) fn stored(&self) -> Stored {
        let field = |(name, value): (&String, &Bytes)| (name.clone(), value.to_vec());
        Stored { revision: self.revision, fields: self.fields.iter().map(field).collect() }
    }

    /// The entries that led here from a revision, if all are kept.
    pub(super) fn entries_after(&self, after: Revision) -> Option<Vec<Bytes>> {
        if after.incarnation != self.revision.incarnation {
            return None;
        }
        let missing = self.revision.version.checked_sub(after.version)?;
        let first = self.entries.len().checked_sub(usize::try_from(missing).ok()?)?;
        let led = self.entries.range(first..);
        let is_whole = led
            .clone()
            .zip(after.version + 1..)
            .all(|((revision, _), version)| *revision == Revision { version, ..after });
        is_whole.then(|| led.map(|(_, entry)| entry.clone()).collect())
    }

    /// The entries that are kept of an incarnation, if it is the present one.
    pub(super) fn log(&self, incarnation: u64) -> Vec<Bytes> {
        let is_of = |revision: &Revision| revision.incarnation == incarnation;
        let entries = self.entries.iter().filter(|(revision, _)| is_of(revision));
        entries.filter(|_| is_of(&self.revision)).map(|(_, entry)| entry.clone()).collect()
    }

    /// The session that a first commit creates.
    fn created_by(commit: &Commit) -> Self {
        let (fields, entries) = (BTreeMap::new(), VecDeque::new());
        let mut session = Self { revision: commit.revision, fields, entries };
        session.apply(commit);
        session
    }

    fn apply(&mut self, commit: &Commit) {
        self.revision = commit.revision;
        for name in &commit.changes.remove {
            self.fields.remove(name);
        }
        for (name, value) in &commit.changes.set {
            self.fields.insert(name.clone(), Bytes::copy_from_slice(value));
        }
        self.entries.push_back((commit.revision, commit.entry.clone()));
        let beyond = self.entries.len().saturating_sub(commit.entries_kept);
        self.entries.drain(..beyond);
    }

    fn size_bytes(&self) -> usize {
        let fields = self.fields.iter().map(|(name, value)| name.len() + value.len());
        let entries = self.entries.iter().map(|(_, entry)| entry.len());
        fields.sum::<usize>() + entries.sum::<usize>()
    }
}

/// All sessions in memory.
#[derive(Debug, Default)]
pub(super) struct SessionCache {
    sessions: BTreeMap<String, Held>,
    bytes: usize,
}

#[derive(Debug)]
struct Held {
    session: Arc<CachedSession>,
    bytes: usize,
    used_at: Instant,
}

impl SessionCache {
    /// A session, marked as used now.
    pub(super) fn get(&mut self, session_id: &str, now: Instant) -> Option<&Arc<CachedSession>> {
        let held = self.sessions.get_mut(session_id)?;
        held.used_at = now;
        Some(&held.session)
    }

    /// Adds a session.
    pub(super) fn install(&mut self, session_id: &str, session: Arc<CachedSession>, now: Instant) {
        self.forget(session_id);
        let bytes = session_id.len() + session.size_bytes();
        self.bytes += bytes;
        self.sessions.insert(session_id.to_owned(), Held { session, bytes, used_at: now });
        if self.bytes > BYTES_MAX {
            self.make_room();
        }
    }

    /// Applies a commit that is in the file. A session that is not cached, or is at another
    /// revision, is read again on its next use.
    pub(super) fn commit(&mut self, commit: &Commit, now: Instant) {
        let session_id = &commit.session_id;
        let held = self.forget(session_id);
        let session = match (commit.expected, held) {
            (None, _) => Arc::new(CachedSession::created_by(commit)),
            (Some(expected), Some(mut session)) if session.revision == expected => {
                Arc::make_mut(&mut session).apply(commit);
                session
            }
            (Some(_), _) => return,
        };
        self.install(session_id, session, now);
    }

    /// Evicts a session.
    pub(super) fn forget(&mut self, session_id: &str) -> Option<Arc<CachedSession>> {
        let held = self.sessions.remove(session_id)?;
        self.bytes -= held.bytes;
        Some(held.session)
    }

    /// Evicts sessions that were not used for this time, and returns their ids.
    pub(super) fn forget_unused(&mut self, now: Instant, ttl: Duration) -> Vec<String> {
        let is_unused = |held: &Held| now.duration_since(held.used_at) >= ttl;
        let unused = self.sessions.iter().filter(|(_, held)| is_unused(held));
        let unused: Vec<String> = unused.map(|(session_id, _)| session_id.clone()).collect();
        for session_id in &unused {
            self.forget(session_id);
        }
        unused
    }

    fn make_room(&mut self) {
        let by_use = self.sessions.iter().map(|(session_id, held)| (held.used_at, session_id));
        let mut by_use: Vec<_> = by_use.map(|(at, id)| (at, id.clone())).collect();
        by_use.sort_unstable();
        for (_, session_id) in by_use {
            if self.bytes <= BYTES_LEFT {
                return;
            }
            self.forget(&session_id);
        }
    }
}
