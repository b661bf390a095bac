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
    active_at: Instant,
    /// When the present silence was answered with a Ping.
    pinged_at: Option<Instant>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Alive,
    Ping,
    TimedOut,
}

impl Liveness {
    pub(super) fn new(now: Instant) -> Self {
        Self { active_at: now, pinged_at: None }
    }

    pub(super) fn record_activity(&mut self, now: Instant) {
        self.active_at = now;
        self.pinged_at = None;
    }

    pub(super) fn deadline(&self, config: &Config) -> Instant {
        match self.pinged_at {
            None => self.active_at + config.heartbeat_interval,
            // The peer gets the rest of the timeout to answer, even if the Ping was late.
            Some(pinged_at) => pinged_at + (config.heartbeat_timeout - config.heartbeat_interval),
        }
    }

    pub(super) fn tick(&mut self, config: &Config, late: Duration, now: Instant) -> Verdict {
        if now < self.deadline(config) {
            return Verdict::Alive;
        }
        if self.pinged_at.is_some() && late < PAUSE {
            return Verdict::TimedOut;
        }
        self.pinged_at = Some(now);
        Verdict::Ping
    }
}
