//! The task that receives every transition that any node decides.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use heartline_runtime::{Clock, Supervisor};
use tokio::time::Instant;
use tracing::info;

use super::subscribe;
use crate::redis::changes::Changes;
use crate::redis::client::RedisClient;
use crate::redis::keys::Keys;
use crate::redis::subscription::{Event, Subscription};

/// A message that makes the listener panic, so that a test can prove that it is restarted.
#[cfg(test)]
pub(in crate::redis) const PLANTED_PANIC: &[u8] = b"planted panic";

/// Receives transitions for a directory. A listener that panics is restarted; until it has
/// subscribed again the directory counts as silent, and its watchers get a gap.
#[derive(Debug)]
pub struct PresenceListener {
    pub(super) parts: ListenerParts,
    /// The subscription with which the directory was opened.
    pub(super) first: Subscription,
}

/// The parts that a listener needs again when it is restarted.
#[derive(Debug)]
pub(super) struct ListenerParts {
    pub(super) client: RedisClient,
    pub(super) keys: Keys,
    pub(super) clock: Clock,
    pub(super) changes: Arc<Changes>,
    pub(super) listening: Arc<Listening>,
}

impl PresenceListener {
    /// Receives for ever.
    pub async fn run(self) {
        let Self { parts, first } = self;
        let mut first = Some(first);
        let restarts = parts.client.counters().listener_restarts.clone();
        let supervisor = Supervisor::new("presence listener", parts.clock, restarts);
        supervisor.run(|| parts.listen(first.take())).await;
    }
}

impl ListenerParts {
    async fn listen(&self, subscription: Option<Subscription>) {
        let _interruption = Interruption { listening: &self.listening, clock: self.clock };
        let mut subscription = match subscription {
            Some(subscription) => subscription,
            None => {
                let mut subscription = subscribe(&self.client, &self.keys);
                subscription.established().await;
                self.changes.gap();
                info!("presence listener recovered");
                subscription
            }
        };
        self.listening.resume();
        loop {
            match subscription.next().await {
                Event::Message(message) => {
                    #[cfg(test)]
                    assert!(message.payload != PLANTED_PANIC, "planted by a test");
                    self.changes.report(&String::from_utf8_lossy(&message.payload));
                }
                Event::Lost => self.changes.gap(),
            }
        }
    }
}

/// Whether the listener receives transitions.
#[derive(Debug, Default)]
pub(super) struct Listening {
    interrupted_at: Mutex<Option<Instant>>,
}

impl Listening {
    /// How long no transitions were received; zero while they are.
    pub(super) fn interrupted_for(&self, now: Instant) -> Duration {
        let interrupted_at = *self.lock();
        interrupted_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at))
    }

    fn interrupt(&self, now: Instant) {
        self.lock().get_or_insert(now);
    }

    fn resume(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.interrupted_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks the listener as interrupted when its future is dropped, also by a panic.
struct Interruption<'a> {
    listening: &'a Listening,
    clock: Clock,
}

impl Drop for Interruption<'_> {
    fn drop(&mut self) {
        self.listening.interrupt(self.clock.now());
    }
}
