//! Things that are kept for ten seconds: the locks of those who restore sessions, and copies that
//! were put forward.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// How long each is kept.
const LIFETIME: Duration = Duration::from_secs(10);

/// Things by session that are kept for ten seconds.
#[derive(Debug)]
pub(super) struct Lapsing<T>(HashMap<String, (T, Instant)>);

impl<T> Default for Lapsing<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> Lapsing<T> {
    /// What is kept of a session.
    pub(super) fn get(&mut self, session_id: &str, now: Instant) -> Option<&T> {
        self.0.retain(|_, (_, until)| *until > now);
        self.0.get(session_id).map(|(thing, _)| thing)
    }

    /// Keeps something from now on.
    pub(super) fn put(&mut self, session_id: &str, thing: T, now: Instant) {
        self.0.insert(session_id.to_owned(), (thing, now + LIFETIME));
    }

    /// Keeps it no more.
    pub(super) fn remove(&mut self, session_id: &str) {
        self.0.remove(session_id);
    }
}
