//! The deadlines of a GraphQL socket: when it gets a Ping, and when it must end.
//!
//! Any received bytes show that the client is alive, and so does a pending write that makes
//! progress: a client that is behind is not read from.

use std::time::Duration;

use heartline_protocol::CloseReason;
use tokio::time::Instant;

use super::GraphQlConfig;

/// The deadlines of one socket.
#[derive(Debug)]
pub(super) struct Deadlines {
    config: GraphQlConfig,
    /// When `connection_init` is due; `None` once it came.
    init: Option<Instant>,
    /// When the connection reaches its age limit.
    age: Instant,
    /// When the token expires, if there is one.
    token: Option<Instant>,
    active_at: Instant,
    /// When the present silence was answered with a Ping.
    pinged_at: Option<Instant>,
    /// Since when the socket has accepted nothing, and how many bytes were pending then.
    blocked: Option<(Instant, usize)>,
}

/// The action that a passed deadline requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Ping,
    Close(CloseReason),
}

impl Deadlines {
    pub(super) fn new(config: GraphQlConfig, lifetime: Duration, now: Instant) -> Self {
        Self {
            config,
            init: Some(now + config.init_timeout),
            age: now + lifetime,
            token: None,
            active_at: now,
            pinged_at: None,
            blocked: None,
        }
    }

    /// Records that `connection_init` arrived.
    pub(super) fn init_received(&mut self) {
        self.init = None;
    }

    /// Records that the token was accepted, with its expiry.
    pub(super) fn token_expires(&mut self, at: Option<Instant>) {
        self.token = at;
    }

    /// Records that the client sent something.
    pub(super) fn record_activity(&mut self, now: Instant) {
        self.active_at = now;
        self.pinged_at = None;
    }

    /// Records a write: whether the socket is blocked, and how many bytes are still pending.
    pub(super) fn written(&mut self, is_blocked: bool, waiting: usize, now: Instant) {
        if self.blocked.is_some_and(|(_, before)| waiting < before) {
            self.record_activity(now);
        }
        self.blocked = match self.blocked {
            _ if !is_blocked => None,
            Some(blocked) if blocked.1 <= waiting => Some(blocked),
            _ => Some((now, waiting)),
        };
    }

    /// The next instant at which [`due`](Self::due) may return an action.
    pub(super) fn next(&self) -> Instant {
        let ping = self.pinged_at.unwrap_or(self.active_at) + self.config.ping_interval;
        let rest = [self.init, self.token, self.blocked_until()].into_iter().flatten();
        rest.fold(ping.min(self.age), Instant::min)
    }

    /// The action that is due, if any.
    pub(super) fn due(&mut self, now: Instant) -> Option<Due> {
        let is_over = |deadline: Option<Instant>| deadline.is_some_and(|deadline| now >= deadline);
        let gone = self.pinged_at.map(|pinged_at| pinged_at + self.config.ping_interval);
        for (deadline, reason) in [
            (self.init, CloseReason::AuthTimeout),
            (Some(self.age), CloseReason::MaxAge),
            (self.token, CloseReason::TokenExpired),
            (self.blocked_until(), CloseReason::SlowConsumer),
            (gone, CloseReason::HeartbeatTimeout),
        ] {
            if is_over(deadline) {
                return Some(Due::Close(reason));
            }
        }
        let is_silent = is_over(Some(self.active_at + self.config.ping_interval));
        (self.pinged_at.is_none() && is_silent).then(|| {
            self.pinged_at = Some(now);
            Due::Ping
        })
    }

    fn blocked_until(&self) -> Option<Instant> {
        self.blocked.map(|(since, _)| since + self.config.blocked_timeout)
    }
}

#[cfg(test)]
mod tests {
    use heartline_runtime::Clock;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn config() -> GraphQlConfig {
        GraphQlConfig {
            init_timeout: 3 * SECOND,
            ping_interval: 12 * SECOND,
            blocked_timeout: 10 * SECOND,
            ..GraphQlConfig::default()
        }
    }

    fn deadlines() -> (Deadlines, Instant) {
        let now = Clock::system().now();
        (Deadlines::new(config(), 3600 * SECOND, now), now)
    }

    /// Deadlines of a socket that was initialised at once.
    fn initialised() -> (Deadlines, Instant) {
        let (mut deadlines, now) = deadlines();
        deadlines.init_received();
        (deadlines, now)
    }

    fn close(reason: CloseReason) -> Option<Due> {
        Some(Due::Close(reason))
    }

    #[test]
    fn a_socket_without_a_connection_init_ends() {
        let (mut deadlines, start) = deadlines();
        assert_eq!(deadlines.next(), start + 3 * SECOND);
        assert_eq!(deadlines.due(start + 2 * SECOND), None);
        assert_eq!(deadlines.due(start + 3 * SECOND), close(CloseReason::AuthTimeout));
        deadlines.init_received();
        assert_eq!(deadlines.due(start + 3 * SECOND), None);
    }

    #[test]
    fn a_silent_client_is_pinged_once_and_then_closed() {
        let (mut deadlines, start) = initialised();
        assert_eq!(deadlines.next(), start + 12 * SECOND);
        assert_eq!(deadlines.due(start + 12 * SECOND), Some(Due::Ping));
        assert_eq!(deadlines.due(start + 13 * SECOND), None, "it has an interval to answer");
        assert_eq!(deadlines.next(), start + 24 * SECOND);
        assert_eq!(deadlines.due(start + 24 * SECOND), close(CloseReason::HeartbeatTimeout));
    }

    #[test]
    fn a_client_that_answers_late_is_pinged_late_and_has_the_whole_interval() {
        let (mut deadlines, start) = initialised();
        assert_eq!(deadlines.due(start + 40 * SECOND), Some(Due::Ping));
        assert_eq!(deadlines.due(start + 51 * SECOND), None);
        deadlines.record_activity(start + 51 * SECOND);
        assert_eq!(deadlines.due(start + 62 * SECOND), None);
        assert_eq!(deadlines.due(start + 63 * SECOND), Some(Due::Ping));
    }

    #[test]
    fn a_token_and_an_age_have_an_end() {
        let (mut deadlines, start) = initialised();
        deadlines.token_expires(Some(start + SECOND));
        assert_eq!(deadlines.next(), start + SECOND);
        assert_eq!(deadlines.due(start + SECOND), close(CloseReason::TokenExpired));
        assert_eq!(deadlines.due(start + 3600 * SECOND), close(CloseReason::MaxAge));
    }

    #[test]
    fn only_a_socket_that_accepts_nothing_at_all_is_closed() {
        let (mut deadlines, start) = initialised();
        deadlines.written(true, 1000, start);
        assert_eq!(deadlines.next(), start + 10 * SECOND);
        deadlines.written(true, 1200, start + 5 * SECOND);
        assert_eq!(deadlines.next(), start + 10 * SECOND, "more waits, and nothing was taken");
        deadlines.written(true, 900, start + 9 * SECOND);
        assert_eq!(deadlines.due(start + 12 * SECOND), None, "a write made progress");
        assert_eq!(deadlines.due(start + 19 * SECOND), close(CloseReason::SlowConsumer));
        deadlines.written(false, 0, start + 19 * SECOND);
        assert_eq!(deadlines.due(start + 20 * SECOND), None);
    }
}
