//! Detects a peer that has disconnected.
//!
//! Any frame shows that the peer is alive. After one interval of silence the server sends a Ping,
//! so that a client with throttled timers stays connected; after the timeout the connection ends.
//! If the server's own process was paused, the peer gets another Ping first.

use std::time::Duration;

use tokio::time::Instant;

use crate::config::Config;

/// A tick this late means that the process was paused.
pub(crate) const PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Liveness {
    last_heard: Instant,
    /// When the present silence was answered with a Ping.
    asked: Option<Instant>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Alive,
    Ask,
    Gone,
}

impl Liveness {
    pub(super) fn new(now: Instant) -> Self {
        Self { last_heard: now, asked: None }
    }

    pub(super) fn heard(&mut self, now: Instant) {
        self.last_heard = now;
        self.asked = None;
    }

    pub(super) fn deadline(&self, config: &Config) -> Instant {
        match self.asked {
            None => self.last_heard + config.heartbeat_interval,
            // The peer gets the rest of the timeout to answer, even if the Ping was late.
            Some(asked) => asked + (config.heartbeat_timeout - config.heartbeat_interval),
        }
    }

    pub(super) fn tick(&mut self, config: &Config, late: Duration, now: Instant) -> Verdict {
        if now < self.deadline(config) {
            return Verdict::Alive;
        }
        if self.asked.is_some() && late < PAUSE {
            return Verdict::Gone;
        }
        self.asked = Some(now);
        Verdict::Ask
    }
}
