//! Live party sessions of a single node: a cache in memory, written through to the file.
//!
//! The file is the source of truth: a commit is compared with it and written to it in the writer's
//! transaction, together with other waiting writes; only a committed change is applied to the cache
//! and sent to watchers. All of that happens on the writer's thread in the order of the commits, so
//! the cache is never ahead of the file, notices are in order, and a caller that has gone loses
//! nothing.

mod file;
mod live_sessions;
mod session_cache;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use heartline_durability::StoreError;
use heartline_party::{
    Commit, Committed, Notice, PartyStoreError, Revision, SessionActivity, SessionStore,
    SessionWatch, Stored,
};
use tokio::sync::broadcast;
use tokio::time::timeout;
use tracing::warn;

pub(super) use live_sessions::LiveSessions;

use super::SqliteStore;
use super::write_transaction::WriteTransaction;
use live_sessions::Watcher;
use session_cache::CachedSession;

/// The default time for which an unused session stays in memory.
pub const SESSION_TTL: Duration = Duration::from_secs(4 * 60 * 60);

/// How long a call may take, including the wait for the writer.
const DEADLINE: Duration = Duration::from_secs(5);

/// The party sessions of a store for one node. Several nodes of one process share the sessions, and
/// each is notified of the sessions that it watches.
#[derive(Debug)]
pub struct SqlitePartyStore {
    store: SqliteStore,
    live: Arc<LiveSessions>,
    watcher: Watcher,
}

impl SqlitePartyStore {
    /// Opens the sessions of a store. The first caller decides how long unused sessions stay in
    /// memory. A full or damaged file does not stop a node from starting: later calls return the
    /// error.
    pub async fn open(store: &SqliteStore, session_ttl: Duration) -> Self {
        let live = match store.0.party.get() {
            Some(live) => Arc::clone(live),
            None => {
                let now_ms = store.0.clock.wall().unix_ms;
                let clear = move |transaction: &mut WriteTransaction<'_>| {
                    file::clear_logs(transaction.connection, now_ms, session_ttl)
                };
                if let Err(error) = within(store.0.writer.write(clear)).await {
                    warn!(%error, "the logs of old party sessions were not cleared away");
                }
                let found = within(store.0.readers.read(file::found)).await;
                let found = found.unwrap_or_else(|error| {
                    warn!(%error, "party sessions with members could not be listed");
                    file::Found::default()
                });
                let live = || Arc::new(LiveSessions::new(store.0.clock, session_ttl, found));
                Arc::clone(store.0.party.get_or_init(live))
            }
        };
        let watcher = Arc::clone(&live).register();
        Self { store: store.clone(), live, watcher }
    }

    /// Whether a session is in memory.
    #[cfg(test)]
    pub(super) fn is_in_memory(&self, session_id: &str) -> bool {
        self.live.session(session_id).is_some()
    }

    /// Runs a function in a transaction, and applies its result to memory once it is committed.
    async fn write<T, F, Then>(&self, function: F, then: Then) -> Result<T, PartyStoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut WriteTransaction<'_>) -> rusqlite::Result<T> + Send + 'static,
        Then: FnOnce(&LiveSessions, &T) + Send + 'static,
    {
        let live = Arc::clone(&self.live);
        let then = move |result: &T| then(&live, result);
        within(self.store.0.writer.write_then(function, then)).await
    }

    /// A session from memory, or else from the file, which caches it again. The writer's thread
    /// reads the file, so that no commit comes in between.
    async fn session(
        &self,
        session_id: &str,
    ) -> Result<Option<Arc<CachedSession>>, PartyStoreError> {
        if let Some(session) = self.live.session(session_id) {
            return Ok(Some(session));
        }
        let (id, installed) = (session_id.to_owned(), session_id.to_owned());
        let read =
            move |transaction: &mut WriteTransaction<'_>| file::load(transaction.connection, &id);
        self.write(read, move |live, session| live.install(&installed, session.as_ref())).await
    }

    /// Evicts unused sessions from memory, and deletes their logs: a client that comes back later
    /// starts from the whole session.
    async fn sweep(&self) -> Result<(), PartyStoreError> {
        let gone = self.live.sweep();
        if gone.is_empty() {
            return Ok(());
        }
        let forget = move |transaction: &mut WriteTransaction<'_>| {
            file::forget_entries(transaction.connection, &gone)
        };
        self.write(forget, |_, ()| {}).await
    }
}

#[async_trait]
impl SessionStore for SqlitePartyStore {
    async fn load(&self, session_id: &str) -> Result<Option<Stored>, PartyStoreError> {
        Ok(self.session(session_id).await?.map(|session| session.stored()))
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, PartyStoreError> {
        let now_ms = self.live.now_ms();
        let commit = Arc::new(commit);
        let written = Arc::clone(&commit);
        let write = move |transaction: &mut WriteTransaction<'_>| {
            file::commit(transaction.connection, &written, now_ms)
        };
        let then =
            move |live: &LiveSessions, answer: &Committed| live.committed(&commit, *answer, now_ms);
        self.write(write, then).await
    }

    async fn entries(
        &self,
        session_id: &str,
        after: Revision,
    ) -> Result<Option<Vec<Bytes>>, PartyStoreError> {
        Ok(self.session(session_id).await?.and_then(|session| session.entries_after(after)))
    }

    async fn log(&self, session_id: &str, incarnation: u64) -> Result<Vec<Bytes>, PartyStoreError> {
        let session = self.session(session_id).await?;
        Ok(session.map(|session| session.log(incarnation)).unwrap_or_default())
    }

    async fn revisions(
        &self,
        session_ids: &[String],
    ) -> Result<Vec<Option<Revision>>, PartyStoreError> {
        let mut revisions = self.live.revisions(session_ids);
        let is_missing = |index: &usize| revisions[*index].is_none();
        let missing: Vec<usize> = (0..session_ids.len()).filter(is_missing).collect();
        if missing.is_empty() {
            return Ok(revisions);
        }
        let ids: Vec<String> = missing.iter().map(|index| session_ids[*index].clone()).collect();
        let read = move |connection: &_| file::revisions(connection, &ids);
        let found = within(self.store.0.readers.read(read)).await?;
        for (index, revision) in missing.into_iter().zip(found) {
            revisions[index] = revision;
        }
        Ok(revisions)
    }

    async fn remove(&self, session_id: &str, revision: Revision) -> Result<bool, PartyStoreError> {
        let (id, removed_id) = (session_id.to_owned(), session_id.to_owned());
        let write = move |transaction: &mut WriteTransaction<'_>| {
            file::remove(transaction.connection, &id, revision)
        };
        let then = move |live: &LiveSessions, was_removed: &bool| {
            if *was_removed {
                live.removed(&removed_id);
            }
        };
        self.write(write, then).await
    }
}

#[async_trait]
impl SessionWatch for SqlitePartyStore {
    async fn watch(&self, session_id: &str) -> Result<(), PartyStoreError> {
        self.watcher.watch(session_id);
        Ok(())
    }

    async fn unwatch(&self, session_id: &str) {
        self.watcher.unwatch(session_id);
    }

    fn notices(&self) -> broadcast::Receiver<Notice> {
        self.watcher.notices()
    }
}

#[async_trait]
impl SessionActivity for SqlitePartyStore {
    async fn keep(&self, session_ids: &[String]) -> Result<Vec<String>, PartyStoreError> {
        let now_ms = self.live.now_ms();
        let unknown = self.live.keep(session_ids, now_ms);
        self.sweep().await?;
        if unknown.is_empty() {
            return Ok(Vec::new());
        }
        let asked = unknown.clone();
        let write = move |transaction: &mut WriteTransaction<'_>| {
            file::keep(transaction.connection, &asked, now_ms)
        };
        let then = move |live: &LiveSessions, kept: &Vec<String>| live.kept(kept, now_ms);
        let kept = self.write(write, then).await?;
        Ok(unknown.into_iter().filter(|session_id| !kept.contains(session_id)).collect())
    }

    async fn active(&self, limit: usize) -> Result<Vec<String>, PartyStoreError> {
        Ok(self.live.active(limit))
    }

    async fn inactive(&self, session_id: &str) -> Result<(), PartyStoreError> {
        let (id, inactive_id) = (session_id.to_owned(), session_id.to_owned());
        let write = move |transaction: &mut WriteTransaction<'_>| {
            file::inactive(transaction.connection, &id)
        };
        self.write(write, move |live, ()| live.inactive(&inactive_id)).await
    }

    async fn now_ms(&self) -> Result<u64, PartyStoreError> {
        Ok(self.live.now_ms())
    }
}

/// Waits for a call to the store, at most until the deadline.
async fn within<T>(
    answer: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, PartyStoreError> {
    let answer = timeout(DEADLINE, answer).await.map_err(PartyStoreError::new)?;
    answer.map_err(PartyStoreError::new)
}
