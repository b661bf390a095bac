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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_lapses_and_may_be_put_again() {
        let (start, lifetime) = (heartline_routing::Clock::system().now(), Duration::from_secs(10));
        let mut kept = Lapsing::new(lifetime);
        kept.put("a", 1, start);
        assert_eq!(kept.get("a", start + lifetime - Duration::from_millis(1)), Some(&1));
        assert_eq!(kept.get("a", start + lifetime), None);
        kept.put("a", 2, start + lifetime);
        assert_eq!(kept.get("a", start + lifetime), Some(&2));
        kept.remove("a");
        assert_eq!(kept.get("a", start + lifetime), None);
    }
}
