//! The live sessions of a file in memory: cached sessions, the list of active ones, and watchers.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use heartline_party::{Commit, Committed, NOTICES_MAX, Notice, Revision};
use heartline_runtime::Clock;
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::file::Found;
use super::session_cache::{CachedSession, SessionCache};

/// The longest interval between sweeps for unused sessions; at most a quarter of their lifetime.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// The live sessions of a file, shared by every [`SqlitePartyStore`](super::SqlitePartyStore) of
/// it.
#[derive(Debug)]
pub(in crate::sqlite) struct LiveSessions {
    clock: Clock,
    session_ttl: Duration,
    newest_ms: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    cache: SessionCache,
    /// Sessions with members, each with the time of its last activity. The file has the same list.
    active: BTreeMap<String, u64>,
    watchers: BTreeMap<u64, Registered>,
    next_watcher: u64,
    swept_at: Instant,
}

/// A watcher as the sessions see it.
#[derive(Debug)]
struct Registered {
    watched: HashSet<String>,
    notices: broadcast::Sender<Notice>,
}

impl LiveSessions {
    /// The live sessions of a file, with the list of active ones that was read from it.
    pub(super) fn new(clock: Clock, session_ttl: Duration, found: Found) -> Self {
        let state = State {
            cache: SessionCache::default(),
            active: found.active,
            watchers: BTreeMap::new(),
            next_watcher: 0,
            swept_at: clock.now(),
        };
        let newest_ms = AtomicU64::new(found.newest_ms);
        Self { clock, session_ttl, newest_ms, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time, which never goes back.
    pub(super) fn now_ms(&self) -> u64 {
        let wall = self.clock.wall().unix_ms;
        self.newest_ms.fetch_max(wall, Ordering::Relaxed).max(wall)
    }

    /// A session in memory.
    pub(super) fn session(&self, session_id: &str) -> Option<Arc<CachedSession>> {
        self.state().cache.get(session_id, self.clock.now()).cloned()
    }

    /// The revisions of sessions in memory.
    pub(super) fn revisions(&self, session_ids: &[String]) -> Vec<Option<Revision>> {
        let now = self.clock.now();
        let mut state = self.state();
        let revision = |session_id: &String| Some(state.cache.get(session_id, now)?.revision);
        session_ids.iter().map(revision).collect()
    }

    /// Caches a session that was read from the file. Called on the writer's thread.
    pub(super) fn install(&self, session_id: &str, session: Option<&Arc<CachedSession>>) {
        let mut state = self.state();
        match session {
            Some(session) => state.cache.install(session_id, Arc::clone(session), self.clock.now()),
            None => drop(state.cache.forget(session_id)),
        }
    }

    /// Applies a committed change to the cache, and notifies watchers. Called on the writer's
    /// thread.
    pub(super) fn committed(&self, commit: &Commit, result: Committed, now_ms: u64) {
        let session_id = &commit.session_id;
        let now = self.clock.now();
        let mut state = self.state();
        if let Committed::Conflict(found) = result {
            // The file wins if an operator has changed it by hand.
            if state.cache.get(session_id, now).map(|session| session.revision) != found {
                state.cache.forget(session_id);
            }
            return;
        }
        state.cache.commit(commit, now);
        if commit.is_active {
            state.active.insert(session_id.clone(), now_ms);
        } else {
            state.active.remove(session_id);
        }
        let watchers = state.watchers_of(session_id);
        // Notices are sent without the lock. They stay in order, because only the writer's thread
        // sends them.
        drop(state);
        for notices in watchers {
            // Sending fails only if nobody has subscribed.
            let _ = notices.send(Notice::Committed {
                session_id: session_id.clone(),
                revision: commit.revision,
                entry: Some(commit.entry.clone()),
            });
        }
    }

    /// Removes a session that was removed from the file. Called on the writer's thread.
    pub(super) fn removed(&self, session_id: &str) {
        let mut state = self.state();
        state.cache.forget(session_id);
        state.active.remove(session_id);
    }

    /// Records activity of sessions, and returns those that are not listed as active.
    pub(super) fn keep(&self, session_ids: &[String], now_ms: u64) -> Vec<String> {
        let now = self.clock.now();
        let mut state = self.state();
        let mut unknown = Vec::new();
        for session_id in session_ids {
            state.cache.get(session_id, now);
            match state.active.get_mut(session_id) {
                Some(alive_at) => *alive_at = now_ms,
                None => unknown.push(session_id.clone()),
            }
        }
        unknown
    }

    /// Lists sessions as active, as in the file. Called on the writer's thread.
    pub(super) fn kept(&self, session_ids: &[String], now_ms: u64) {
        let alive = session_ids.iter().map(|session_id| (session_id.clone(), now_ms));
        self.state().active.extend(alive);
    }

    /// Removes a session from the active list, as in the file. Called on the writer's thread.
    pub(super) fn inactive(&self, session_id: &str) {
        self.state().active.remove(session_id);
    }

    /// Active sessions, those with the oldest activity first.
    pub(super) fn active(&self, limit: usize) -> Vec<String> {
        let mut by_life: Vec<(u64, String)> = {
            let state = self.state();
            state.active.iter().map(|(session_id, at)| (*at, session_id.clone())).collect()
        };
        by_life.sort_unstable();
        by_life.into_iter().take(limit).map(|(_, session_id)| session_id).collect()
    }

    /// Evicts unused sessions from the cache, if the interval has passed.
    pub(super) fn sweep(&self) -> Vec<String> {
        let now = self.clock.now();
        let mut state = self.state();
        if now.duration_since(state.swept_at) < SWEEP_INTERVAL.min(self.session_ttl / 4) {
            return Vec::new();
        }
        state.swept_at = now;
        state.cache.forget_unused(now, self.session_ttl)
    }

    /// Registers a watcher for one node.
    pub(super) fn register(self: Arc<Self>) -> Watcher {
        let notices = broadcast::Sender::new(NOTICES_MAX);
        let mut state = self.state();
        let number = state.next_watcher;
        state.next_watcher += 1;
        let registered = Registered { watched: HashSet::new(), notices: notices.clone() };
        state.watchers.insert(number, registered);
        drop(state);
        Watcher { live: self, number, notices }
    }
}

impl State {
    /// The channels of the nodes that watch a session.
    fn watchers_of(&self, session_id: &str) -> Vec<broadcast::Sender<Notice>> {
        let watchers = self.watchers.values().filter(|it| it.watched.contains(session_id));
        watchers.map(|watcher| watcher.notices.clone()).collect()
    }
}

/// The sessions that one node watches, until it is dropped.
#[derive(Debug)]
pub(super) struct Watcher {
    live: Arc<LiveSessions>,
    number: u64,
    notices: broadcast::Sender<Notice>,
}

impl Watcher {
    /// Every later commit to the session gives a notice.
    pub(super) fn watch(&self, session_id: &str) {
        if let Some(registered) = self.live.state().watchers.get_mut(&self.number) {
            registered.watched.insert(session_id.to_owned());
        }
    }

    /// No later commit to the session gives a notice.
    pub(super) fn unwatch(&self, session_id: &str) {
        if let Some(registered) = self.live.state().watchers.get_mut(&self.number) {
            registered.watched.remove(session_id);
        }
    }

    /// Subscribes to the notices that follow.
    pub(super) fn notices(&self) -> broadcast::Receiver<Notice> {
        self.notices.subscribe()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.live.state().watchers.remove(&self.number);
    }
}
