//! What the nodes of one process share: sessions in memory, who has members, who listens.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use heartline_party::{
    Commit, Committed, LOCK_LIFETIME, NOTICES_MAX, Notice, OFFER_LIFETIME, Revision, Stored,
};
use heartline_routing::Clock;
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::file::Found;
use super::hot::{HotSession, HotSessions};
use super::lapsing::Lapsing;

/// Sessions are looked through for unused ones this often at most, or four times in their time.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// What the nodes of one process share.
#[derive(Debug)]
pub(in crate::sqlite) struct Hub {
    clock: Clock,
    session_ttl: Duration,
    newest_ms: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    hot: HotSessions,
    /// Sessions with members, and their last sign of life. The file says the same of who is here.
    active: HashMap<String, u64>,
    listeners: Vec<Weak<Listener>>,
    locks: Lapsing<String>,
    offers: Lapsing<Arc<Stored>>,
    swept_at: Instant,
}

impl Hub {
    /// The hub of a file in which this was found.
    pub(super) fn new(clock: Clock, session_ttl: Duration, found: Found) -> Self {
        let state = State {
            hot: HotSessions::default(),
            active: found.active,
            listeners: Vec::new(),
            locks: Lapsing::new(LOCK_LIFETIME),
            offers: Lapsing::new(OFFER_LIFETIME),
            swept_at: clock.now(),
        };
        let newest_ms = AtomicU64::new(found.newest_ms);
        Self { clock, session_ttl, newest_ms, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time, which never falls, whatever the machine's clock does.
    pub(super) fn now_ms(&self) -> u64 {
        let wall = self.clock.wall().unix_ms;
        self.newest_ms.fetch_max(wall, Ordering::Relaxed).max(wall)
    }

    /// A session in memory.
    pub(super) fn session(&self, session_id: &str) -> Option<Arc<HotSession>> {
        self.state().hot.get(session_id, self.clock.now()).cloned()
    }

    /// What sessions in memory are at.
    pub(super) fn revisions(&self, session_ids: &[String]) -> Vec<Option<Revision>> {
        let now = self.clock.now();
        let mut state = self.state();
        let revision = |session_id: &String| Some(state.hot.get(session_id, now)?.revision);
        session_ids.iter().map(revision).collect()
    }

    /// Takes over what was read from the file. On the writer's thread.
    pub(super) fn install(&self, session_id: &str, session: Option<&Arc<HotSession>>) {
        let mut state = self.state();
        match session {
            Some(session) => state.hot.install(session_id, Arc::clone(session), self.clock.now()),
            None => drop(state.hot.forget(session_id)),
        }
    }

    /// Takes over what a commit came to, and tells those who watch. On the writer's thread.
    pub(super) fn committed(&self, commit: &Commit, answer: Committed, now_ms: u64) {
        let session_id = &commit.session_id;
        let now = self.clock.now();
        let mut state = self.state();
        if let Committed::Conflict(found) = answer {
            // If somebody has changed the file by hand, memory must not insist.
            if state.hot.get(session_id, now).map(|session| session.revision) != found {
                state.hot.forget(session_id);
            }
            return;
        }
        state.hot.commit(commit, now);
        if commit.is_active {
            state.active.insert(session_id.clone(), now_ms);
        } else {
            state.active.remove(session_id);
        }
        state.tell(|listener| listener.watches(session_id), &|| Notice::Committed {
            session_id: session_id.clone(),
            revision: commit.revision,
            entry: Some(commit.entry.clone()),
        });
    }

    /// A session is gone from the file. On the writer's thread.
    pub(super) fn removed(&self, session_id: &str) {
        let mut state = self.state();
        state.hot.forget(session_id);
        state.active.remove(session_id);
    }

    /// Notes a sign of life of sessions, and answers those that are not known to have members.
    pub(super) fn keep(&self, session_ids: &[String], now_ms: u64) -> Vec<String> {
        let now = self.clock.now();
        let mut state = self.state();
        let mut unknown = Vec::new();
        for session_id in session_ids {
            state.hot.get(session_id, now);
            match state.active.get_mut(session_id) {
                Some(alive_at) => *alive_at = now_ms,
                None => unknown.push(session_id.clone()),
            }
        }
        unknown
    }

    /// These have members, as the file now says. On the writer's thread.
    pub(super) fn kept(&self, session_ids: &[String], now_ms: u64) {
        let alive = session_ids.iter().map(|session_id| (session_id.clone(), now_ms));
        self.state().active.extend(alive);
    }

    /// A session has no members, as the file now says. On the writer's thread.
    pub(super) fn inactive(&self, session_id: &str) {
        self.state().active.remove(session_id);
    }

    /// Sessions with members, those first whose last sign of life is oldest.
    pub(super) fn active(&self, limit: usize) -> Vec<String> {
        let mut by_life: Vec<(u64, String)> = {
            let state = self.state();
            state.active.iter().map(|(session_id, at)| (*at, session_id.clone())).collect()
        };
        by_life.sort_unstable();
        by_life.into_iter().take(limit).map(|(_, session_id)| session_id).collect()
    }

    /// Lets sessions go that nobody has used for long, if it is time to look for such.
    pub(super) fn sweep(&self) -> Vec<String> {
        let now = self.clock.now();
        let mut state = self.state();
        if now.duration_since(state.swept_at) < SWEEP_INTERVAL.min(self.session_ttl / 4) {
            return Vec::new();
        }
        state.swept_at = now;
        state.hot.forget_unused(now, self.session_ttl)
    }

    /// Takes a lock, if it is free.
    pub(super) fn lock(&self, session_id: &str, owner: &str) -> bool {
        let now = self.clock.now();
        let mut state = self.state();
        let is_free = state.locks.get(session_id, now).is_none();
        if is_free {
            state.locks.put(session_id, owner.to_owned(), now);
        }
        is_free
    }

    /// Releases a lock, if it is this owner's.
    pub(super) fn unlock(&self, session_id: &str, owner: &str) {
        let now = self.clock.now();
        let mut state = self.state();
        if state.locks.get(session_id, now).is_some_and(|held_by| held_by == owner) {
            state.locks.remove(session_id);
        }
    }

    /// Asks every node for its copy.
    pub(super) fn ask(&self, session_id: &str) {
        let wanted = || Notice::Wanted { session_id: session_id.to_owned() };
        self.state().tell(|_| true, &wanted);
    }

    /// Keeps a copy that was put forward, if there is no newer one.
    pub(super) fn offer(&self, session_id: &str, copy: Stored) {
        let now = self.clock.now();
        let mut state = self.state();
        let held = state.offers.get(session_id, now).map(|held| held.revision);
        if held.is_none_or(|held| held < copy.revision) {
            state.offers.put(session_id, Arc::new(copy), now);
        }
    }

    /// The copy that was put forward.
    pub(super) fn offered(&self, session_id: &str) -> Option<Arc<Stored>> {
        self.state().offers.get(session_id, self.clock.now()).cloned()
    }

    /// Another listener.
    pub(super) fn listen(&self) -> Arc<Listener> {
        let (notices, _) = broadcast::channel(NOTICES_MAX);
        let listener = Arc::new(Listener { watched: Mutex::default(), notices });
        let mut state = self.state();
        state.listeners.retain(|listener| listener.strong_count() > 0);
        state.listeners.push(Arc::downgrade(&listener));
        listener
    }
}

impl State {
    fn tell(&self, whom: impl Fn(&Listener) -> bool, notice: &dyn Fn() -> Notice) {
        let listeners = self.listeners.iter().filter_map(Weak::upgrade);
        for listener in listeners.filter(|listener| whom(listener)) {
            // It fails only if nobody listens.
            let _ = listener.notices.send(notice());
        }
    }
}

/// What one node listens to.
#[derive(Debug)]
pub(super) struct Listener {
    watched: Mutex<HashSet<String>>,
    notices: broadcast::Sender<Notice>,
}

impl Listener {
    fn watched(&self) -> MutexGuard<'_, HashSet<String>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watches(&self, session_id: &str) -> bool {
        self.watched().contains(session_id)
    }

    /// Every later commit is told.
    pub(super) fn watch(&self, session_id: &str) {
        self.watched().insert(session_id.to_owned());
    }

    /// No later one is.
    pub(super) fn unwatch(&self, session_id: &str) {
        self.watched().remove(session_id);
    }

    /// What is told from now on.
    pub(super) fn notices(&self) -> broadcast::Receiver<Notice> {
        self.notices.subscribe()
    }
}
