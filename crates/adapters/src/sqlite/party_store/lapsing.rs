//! Things that are kept for some seconds: the locks of those who restore sessions, and copies that
//! were put forward.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// Things by session that are kept for some seconds.
#[derive(Debug)]
pub(super) struct Lapsing<T> {
    lifetime: Duration,
    things: HashMap<String, (T, Instant)>,
}

impl<T> Lapsing<T> {
    /// Nothing yet; each is kept for so long.
    pub(super) fn new(lifetime: Duration) -> Self {
        Self { lifetime, things: HashMap::new() }
    }

    /// What is kept of a session.
    pub(super) fn get(&mut self, session_id: &str, now: Instant) -> Option<&T> {
        self.things.retain(|_, (_, until)| *until > now);
        self.things.get(session_id).map(|(thing, _)| thing)
    }

    /// Keeps something from now on.
    pub(super) fn put(&mut self, session_id: &str, thing: T, now: Instant) {
        self.things.insert(session_id.to_owned(), (thing, now + self.lifetime));
    }

    /// Keeps it no more.
    pub(super) fn remove(&mut self, session_id: &str) {
        self.things.remove(session_id);
    }
}
