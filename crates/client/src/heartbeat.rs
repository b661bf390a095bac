//! When to say "I am alive", and when the server is not.

use std::time::Duration;

use tokio::time::Instant;

/// A shorter advertised interval is a mistake of the server and would keep the client spinning.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// The heartbeats of one established connection.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    interval: Duration,
    timeout: Duration,
    next_at: Instant,
    /// When the oldest heartbeat was sent that nothing has followed from the server.
    unanswered_since: Option<Instant>,
}

impl Heartbeat {
    /// Heartbeats as the server advertised them.
    pub(crate) fn new(interval: Duration, timeout: Duration, now: Instant) -> Self {
        let interval = interval.max(INTERVAL_MIN);
        let timeout = timeout.max(interval);
        Self { interval, timeout, next_at: now + interval, unanswered_since: None }
    }

    /// When the next one is due.
    pub(crate) fn next_at(&self) -> Instant {
        self.next_at
    }

    /// One was sent.
    pub(crate) fn sent(&mut self, now: Instant) {
        self.next_at = now + self.interval;
        self.unanswered_since.get_or_insert(now);
    }

    /// Something came from the server: whatever it is, it is alive.
    pub(crate) fn heard(&mut self) {
        self.unanswered_since = None;
    }

    /// The client did not read for a while, because its application was busy. That silence was
    /// its own, so the wait for an answer begins anew.
    pub(crate) fn resumed(&mut self, now: Instant) {
        if let Some(since) = &mut self.unanswered_since {
            *since = now;
        }
    }

    /// When the server will count as dead, if nothing comes before.
    pub(crate) fn dead_at(&self) -> Option<Instant> {
        self.unanswered_since.map(|since| since + self.timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const INTERVAL: Duration = Duration::from_secs(5);
    const TIMEOUT: Duration = Duration::from_secs(10);

    #[test]
    fn silence_alone_is_no_death_only_an_unanswered_heartbeat_is() {
        let start = clock::now();
        let mut heartbeat = Heartbeat::new(INTERVAL, TIMEOUT, start);
        assert_eq!(heartbeat.dead_at(), None);
        assert_eq!(heartbeat.next_at(), start + INTERVAL);
        heartbeat.sent(start + INTERVAL);
        heartbeat.sent(start + 2 * INTERVAL);
        assert_eq!(heartbeat.dead_at(), Some(start + INTERVAL + TIMEOUT));
    }

    #[test]
    fn anything_heard_after_it_answers_a_heartbeat() {
        let start = clock::now();
        let mut heartbeat = Heartbeat::new(INTERVAL, TIMEOUT, start);
        heartbeat.sent(start + INTERVAL);
        heartbeat.heard();
        assert_eq!(heartbeat.dead_at(), None);
    }

    #[test]
    fn a_pause_of_the_client_is_not_held_against_the_server() {
        let start = clock::now();
        let mut heartbeat = Heartbeat::new(INTERVAL, TIMEOUT, start);
        heartbeat.resumed(start);
        assert_eq!(heartbeat.dead_at(), None);
        heartbeat.sent(start + INTERVAL);
        heartbeat.resumed(start + 20 * INTERVAL);
        assert_eq!(heartbeat.dead_at(), Some(start + 20 * INTERVAL + TIMEOUT));
    }

    #[test]
    fn an_interval_of_zero_does_not_spin() {
        let start = clock::now();
        let heartbeat = Heartbeat::new(Duration::ZERO, Duration::ZERO, start);
        assert_eq!(heartbeat.next_at(), start + INTERVAL_MIN);
    }
}
