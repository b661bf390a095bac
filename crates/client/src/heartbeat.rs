//! When to send a heartbeat, and when the server counts as lost.

use std::time::Duration;

use tokio::time::Instant;

/// The shortest interval. A shorter one from the server would keep the client busy.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// The heartbeats of one established connection.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    interval: Duration,
    timeout: Duration,
    next_at: Instant,
    /// When the first heartbeat was sent after which nothing arrived from the server.
    unanswered_since: Option<Instant>,
}

impl Heartbeat {
    /// Heartbeats with the interval and timeout that the server sent.
    pub(crate) fn new(interval: Duration, timeout: Duration, now: Instant) -> Self {
        let interval = interval.max(INTERVAL_MIN);
        let timeout = timeout.max(interval);
        Self { interval, timeout, next_at: now + interval, unanswered_since: None }
    }

    /// When the next heartbeat is due.
    pub(crate) fn next_at(&self) -> Instant {
        self.next_at
    }

    /// A heartbeat was sent.
    pub(crate) fn sent(&mut self, now: Instant) {
        self.next_at = now + self.interval;
        self.unanswered_since.get_or_insert(now);
    }

    /// The server sent a message of any kind.
    pub(crate) fn received(&mut self) {
        self.unanswered_since = None;
    }

    /// Reading resumes after the application was busy. The server is not responsible for that
    /// silence, so the timeout starts again.
    pub(crate) fn reading_resumed(&mut self, now: Instant) {
        if let Some(since) = &mut self.unanswered_since {
            *since = now;
        }
    }

    /// When the server counts as lost unless it sends something.
    pub(crate) fn timeout_at(&self) -> Option<Instant> {
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
    fn the_timeout_starts_with_an_unanswered_heartbeat() {
        let start = clock::now();
        let mut heartbeat = Heartbeat::new(INTERVAL, TIMEOUT, start);
        assert_eq!(heartbeat.timeout_at(), None);
        assert_eq!(heartbeat.next_at(), start + INTERVAL);
        heartbeat.sent(start + INTERVAL);
        heartbeat.sent(start + 2 * INTERVAL);
        assert_eq!(heartbeat.timeout_at(), Some(start + INTERVAL + TIMEOUT));
    }

    #[test]
    fn any_message_after_a_heartbeat_ends_the_timeout() {
        let start = clock::now();
        let mut heartbeat = Heartbeat::new(INTERVAL, TIMEOUT, start);
        heartbeat.sent(start + INTERVAL);
        heartbeat.received();
        assert_eq!(heartbeat.timeout_at(), None);
    }

    #[test]
    fn the_timeout_starts_again_when_reading_resumes() {
        let start = clock::now();
        let mut heartbeat = Heartbeat::new(INTERVAL, TIMEOUT, start);
        heartbeat.reading_resumed(start);
        assert_eq!(heartbeat.timeout_at(), None);
        heartbeat.sent(start + INTERVAL);
        heartbeat.reading_resumed(start + 20 * INTERVAL);
        assert_eq!(heartbeat.timeout_at(), Some(start + 20 * INTERVAL + TIMEOUT));
    }

    #[test]
    fn an_interval_of_zero_is_raised() {
        let start = clock::now();
        let heartbeat = Heartbeat::new(Duration::ZERO, Duration::ZERO, start);
        assert_eq!(heartbeat.next_at(), start + INTERVAL_MIN);
    }
}
