//! A store and an archive in memory, which the nodes of a test share.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use heartline_protocol::UserId;
use heartline_runtime::{Clock, Map};
use tokio::sync::broadcast;
use tokio::time::sleep;

use crate::room::archive::{Archived, Discovered, PartyArchive, PartyArchiveError, SearchArea};
use crate::room::store::{
    Commit, Committed, NOTICES_MAX, Notice, PartyStoreError, Revision, SessionActivity,
    SessionRecovery, SessionStore, SessionWatch, Stored,
};
use crate::value::entry::Entry;
use crate::value::session::Status;

/// The error text of the store, which callers must not see.
pub(super) const SECRET: &str = "SELECT secret FROM engine";

#[derive(Debug)]
pub(super) struct MemoryStore {
    sessions: Mutex<Map<String, Held>>,
    /// The owner of the lock of each session.
    locks: Mutex<Map<String, String>>,
    /// The newest offered copies.
    offers: Mutex<Map<String, Stored>>,
    notices: broadcast::Sender<Notice>,
    is_down: AtomicBool,
    loss: Mutex<Option<Loss>>,
    /// The number of commits that another node still overtakes.
    overtaken: AtomicUsize,
    /// The sessions whose lifetime was extended, once for each call.
    kept: Mutex<Vec<String>>,
    /// The rooms that watch each session.
    watchers: Mutex<Map<String, usize>>,
}

/// A fault of the next commit or lock, which is applied nevertheless.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// The result of a commit is lost.
    Result,
    /// The result of a commit is lost, and every later call fails.
    ResultAndStore,
    /// The result of a commit is lost, and the log has dropped the commit.
    ResultAndLog,
    /// The result of a lock is lost.
    LockResult,
}

#[derive(Debug, Clone)]
pub(super) struct Held {
    revision: Revision,
    fields: BTreeMap<String, Vec<u8>>,
    entries: VecDeque<Bytes>,
}

impl MemoryStore {
    pub(super) fn new() -> Self {
        let notices = broadcast::Sender::new(NOTICES_MAX);
        let (sessions, locks, offers) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (is_down, loss, overtaken) =
            (AtomicBool::new(false), Mutex::default(), AtomicUsize::new(0));
        let (kept, watchers) = (Mutex::default(), Mutex::default());
        Self { sessions, locks, offers, notices, is_down, loss, overtaken, kept, watchers }
    }

    /// Loses every session.
    pub(super) fn flush(&self) {
        self.sessions.lock().unwrap().clear();
    }

    /// A copy of all sessions.
    pub(super) fn saved(&self) -> Map<String, Held> {
        self.sessions.lock().unwrap().clone()
    }

    /// Replaces all sessions by a copy.
    pub(super) fn restore(&self, saved: Map<String, Held>) {
        *self.sessions.lock().unwrap() = saved;
    }

    pub(super) fn lose(&self, loss: Loss) {
        *self.loss.lock().unwrap() = Some(loss);
    }

    pub(super) fn fail(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::SeqCst);
    }

    /// The number of nodes that have subscribed to notices.
    pub(super) fn subscribers(&self) -> usize {
        self.notices.receiver_count()
    }

    /// Lets another node commit before each of the next commits.
    pub(super) fn overtake(&self, commits: usize) {
        self.overtaken.store(commits, Ordering::SeqCst);
    }

    /// The number of commits that another node still overtakes.
    pub(super) fn overtaken(&self) -> usize {
        self.overtaken.load(Ordering::SeqCst)
    }

    /// The number of times that the lifetime of a session was extended.
    pub(super) fn kept(&self, session_id: &str) -> usize {
        self.kept.lock().unwrap().iter().filter(|kept| *kept == session_id).count()
    }

    /// The number of rooms that watch a session.
    pub(super) fn watchers(&self, session_id: &str) -> usize {
        self.watchers.lock().unwrap().get(session_id).copied().unwrap_or_default()
    }

    fn is_overtaken(&self) -> bool {
        let next = |left: usize| left.checked_sub(1);
        self.overtaken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).is_ok()
    }

    fn open(&self) -> Result<MutexGuard<'_, Map<String, Held>>, PartyStoreError> {
        if self.is_down.load(Ordering::SeqCst) {
            return Err(PartyStoreError::new(SECRET));
        }
        Ok(self.sessions.lock().unwrap())
    }
}

impl Held {
    /// Appends a commit of another node that changes nothing.
    fn append_empty(&mut self) {
        self.revision.version += 1;
        let version = self.revision.version;
        let commit_id = format!("other-{version}");
        let entry = Entry { commit_id, version, facts: Vec::new(), remembered: Vec::new() };
        self.entries.push_back(entry.to_log_json().into());
    }
}

#[async_trait]
impl SessionStore for MemoryStore {
    async fn load(&self, session_id: &str) -> Result<Option<Stored>, PartyStoreError> {
        let sessions = self.open()?;
        Ok(sessions.get(session_id).map(|held| Stored {
            revision: held.revision,
            fields: held.fields.clone().into_iter().collect(),
        }))
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, PartyStoreError> {
        let mut sessions = self.open()?;
        if let Some(held) = sessions.get_mut(&commit.session_id).filter(|_| self.is_overtaken()) {
            held.append_empty();
        }
        let found = sessions.get(&commit.session_id).map(|held| held.revision);
        if found != commit.expected {
            return Ok(Committed::Conflict(found));
        }
        let held = sessions.entry(commit.session_id.clone()).or_insert_with(|| Held {
            revision: commit.revision,
            fields: BTreeMap::new(),
            entries: VecDeque::new(),
        });
        held.revision = commit.revision;
        held.fields.extend(commit.changes.set);
        commit.changes.remove.iter().for_each(|field| drop(held.fields.remove(field)));
        held.entries.push_back(commit.entry.clone());
        while held.entries.len() > commit.entries_kept {
            held.entries.pop_front();
        }
        let loss = self.loss.lock().unwrap().take_if(|loss| *loss != Loss::LockResult);
        if loss == Some(Loss::ResultAndLog) {
            held.entries.clear();
        }
        let (session_id, revision) = (commit.session_id, commit.revision);
        let entry = Some(commit.entry);
        let _ = self.notices.send(Notice::Committed { session_id, revision, entry });
        match loss {
            None => return Ok(Committed::Done),
            Some(Loss::ResultAndStore) => self.fail(true),
            Some(Loss::Result | Loss::ResultAndLog | Loss::LockResult) => {}
        }
        Err(PartyStoreError::new(SECRET))
    }

    async fn entries(
        &self,
        session_id: &str,
        after: Revision,
    ) -> Result<Option<Vec<Bytes>>, PartyStoreError> {
        let sessions = self.open()?;
        let Some(held) = sessions.get(session_id) else { return Ok(None) };
        let missed = held.revision.version.checked_sub(after.version).map(|count| count as usize);
        let is_kept = held.revision.incarnation == after.incarnation;
        let missed = missed.filter(|count| is_kept && *count <= held.entries.len());
        let from = |count| held.entries.len() - count;
        Ok(missed.map(|count| held.entries.iter().skip(from(count)).cloned().collect()))
    }

    async fn log(&self, session_id: &str, incarnation: u64) -> Result<Vec<Bytes>, PartyStoreError> {
        let sessions = self.open()?;
        let held = sessions.get(session_id).filter(|it| it.revision.incarnation == incarnation);
        Ok(held.map(|held| held.entries.iter().cloned().collect()).unwrap_or_default())
    }

    async fn revisions(
        &self,
        session_ids: &[String],
    ) -> Result<Vec<Option<Revision>>, PartyStoreError> {
        let sessions = self.open()?;
        let revision = |id| sessions.get(id).map(|held| held.revision);
        Ok(session_ids.iter().map(revision).collect())
    }

    async fn remove(&self, session_id: &str, _: Revision) -> Result<bool, PartyStoreError> {
        Ok(self.open()?.remove(session_id).is_some())
    }
}

#[async_trait]
impl SessionWatch for MemoryStore {
    async fn watch(&self, session_id: &str) -> Result<(), PartyStoreError> {
        drop(self.open()?);
        *self.watchers.lock().unwrap().entry(session_id.to_owned()).or_default() += 1;
        Ok(())
    }

    async fn unwatch(&self, session_id: &str) {
        if let Some(watchers) = self.watchers.lock().unwrap().get_mut(session_id) {
            *watchers = watchers.saturating_sub(1);
        }
    }

    fn notices(&self) -> broadcast::Receiver<Notice> {
        self.notices.subscribe()
    }
}

#[async_trait]
impl SessionActivity for MemoryStore {
    async fn keep(&self, session_ids: &[String]) -> Result<Vec<String>, PartyStoreError> {
        drop(self.open()?);
        self.kept.lock().unwrap().extend_from_slice(session_ids);
        Ok(Vec::new())
    }

    async fn active(&self, _limit: usize) -> Result<Vec<String>, PartyStoreError> {
        self.open().map(|_| Vec::new())
    }

    async fn inactive(&self, _session_id: &str) -> Result<(), PartyStoreError> {
        self.open().map(|_| ())
    }

    async fn now_ms(&self) -> Result<u64, PartyStoreError> {
        self.open().map(|_| Clock::system().wall().unix_ms)
    }
}

#[async_trait]
impl SessionRecovery for MemoryStore {
    async fn lock(&self, session_id: &str, owner: &str) -> Result<bool, PartyStoreError> {
        drop(self.open()?);
        let mut locks = self.locks.lock().unwrap();
        let holder = locks.entry(session_id.to_owned()).or_insert_with(|| owner.to_owned());
        if self.loss.lock().unwrap().take_if(|loss| *loss == Loss::LockResult).is_some() {
            return Err(PartyStoreError::new(SECRET));
        }
        Ok(holder == owner)
    }

    async fn unlock(&self, session_id: &str, owner: &str) -> Result<(), PartyStoreError> {
        drop(self.open()?);
        self.locks.lock().unwrap().retain(|id, holder| id != session_id || holder != owner);
        Ok(())
    }

    async fn ask(&self, session_id: &str) -> Result<(), PartyStoreError> {
        drop(self.open()?);
        let _ = self.notices.send(Notice::Wanted { session_id: session_id.to_owned() });
        Ok(())
    }

    async fn offer(&self, session_id: &str, copy: Stored) -> Result<(), PartyStoreError> {
        drop(self.open()?);
        let mut offers = self.offers.lock().unwrap();
        let offered = offers.entry(session_id.to_owned()).or_insert_with(|| copy.clone());
        if offered.revision < copy.revision {
            *offered = copy;
        }
        Ok(())
    }

    async fn offered(&self, session_id: &str) -> Result<Option<Stored>, PartyStoreError> {
        drop(self.open()?);
        Ok(self.offers.lock().unwrap().get(session_id).cloned())
    }
}

#[derive(Debug, Default)]
pub(super) struct MemoryArchive {
    sessions: Mutex<BTreeMap<String, Archived>>,
    is_down: AtomicBool,
    /// The delay of the next read.
    delay: Mutex<Duration>,
}

impl MemoryArchive {
    pub(super) fn fail(&self) {
        self.is_down.store(true, Ordering::SeqCst);
    }

    /// Delays the next read.
    pub(super) fn delay(&self, delay: Duration) {
        *self.delay.lock().unwrap() = delay;
    }

    fn open(&self) -> Result<MutexGuard<'_, BTreeMap<String, Archived>>, PartyArchiveError> {
        if self.is_down.load(Ordering::SeqCst) {
            return Err(PartyArchiveError::new(SECRET));
        }
        Ok(self.sessions.lock().unwrap())
    }
}

fn discovered(archived: &Archived) -> Discovered {
    Discovered {
        session_id: archived.session_id.clone(),
        status: archived.status,
        details: archived.details.clone(),
        members: archived.members,
        distance_metres: None,
    }
}

#[async_trait]
impl PartyArchive for MemoryArchive {
    async fn put(&self, sessions: Vec<Archived>) -> Result<(), PartyArchiveError> {
        let mut all = self.open()?;
        for mut session in sessions {
            let known = all.remove(&session.session_id);
            session.participants.extend(known.into_iter().flat_map(|known| known.participants));
            session.participants.sort_by(|one, other| one.as_str().cmp(other.as_str()));
            session.participants.dedup();
            all.insert(session.session_id.clone(), session);
        }
        Ok(())
    }

    async fn get(&self, session_id: &str) -> Result<Option<Archived>, PartyArchiveError> {
        let delay = std::mem::take(&mut *self.delay.lock().unwrap());
        sleep(delay).await;
        Ok(self.open()?.get(session_id).cloned())
    }

    async fn nearby(
        &self,
        _circle: SearchArea,
        _limit: usize,
    ) -> Result<Vec<Discovered>, PartyArchiveError> {
        let all = self.open()?;
        Ok(all.values().filter(|found| found.details.discoverable).map(discovered).collect())
    }

    async fn of_account(
        &self,
        account: &UserId,
        _limit: usize,
    ) -> Result<Vec<Discovered>, PartyArchiveError> {
        let is_theirs = |found: &&Archived| {
            let is_creator = found.details.creator.as_ref() == Some(account);
            found.status != Status::Ended && (is_creator || found.participants.contains(account))
        };
        Ok(self.open()?.values().filter(is_theirs).map(discovered).collect())
    }

    async fn idle(&self, _before_ms: u64, _limit: usize) -> Result<Vec<String>, PartyArchiveError> {
        Ok(Vec::new())
    }
}
