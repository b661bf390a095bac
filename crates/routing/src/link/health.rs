//! Whether Redis carries what this node sends and brings what it is sent.
//!
//! Two proofs are needed: the directory answers (asked every second by the renewal of leases), and
//! a probe that the node publishes to its own channel comes back. The second one notices a
//! connection that is cut in one direction only.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// How old either proof may be.
pub const PROOF_AGE_MAX: Duration = Duration::from_secs(3);

/// How long Redis must have been out of reach before a node says that it is worse off than others:
/// a short cut is bridged by the direct links, and must not take the node out of rotation.
pub const WORSE_OFF_AGE: Duration = Duration::from_secs(10);

/// What is known of this node's own link to Redis.
#[derive(Debug)]
pub(super) struct Health {
    state: Mutex<State>,
    /// Whether a probe has ever come back: what is sent to the channel from then on is heard.
    is_subscribed: watch::Sender<bool>,
}

#[derive(Debug)]
struct State {
    echoed_at: Instant,
    is_healthy: bool,
}

impl Health {
    /// At the beginning nothing is proven, and nothing speaks against it.
    pub(super) fn new(now: Instant) -> Self {
        let state = Mutex::new(State { echoed_at: now, is_healthy: true });
        Self { state, is_subscribed: watch::Sender::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A probe came back.
    pub(super) fn echo(&self, now: Instant) {
        self.lock().echoed_at = now;
        self.is_subscribed
            .send_if_modified(|is_subscribed| !std::mem::replace(is_subscribed, true));
    }

    /// Waits until a probe has come back for the first time.
    pub(super) async fn subscribed(&self) {
        let mut is_subscribed = self.is_subscribed.subscribe();
        // The sender lives as long as this.
        let _ = is_subscribed.wait_for(|is_subscribed| *is_subscribed).await;
    }

    /// How old the older of the two proofs is.
    pub(super) fn proof_age(&self, now: Instant, silence: Duration) -> Duration {
        silence.max(now.saturating_duration_since(self.lock().echoed_at))
    }

    /// Judges anew. Answers the verdict if it is another than before.
    pub(super) fn judge(&self, now: Instant, silence: Duration) -> Option<bool> {
        let is_healthy = self.proof_age(now, silence) < PROOF_AGE_MAX;
        let mut state = self.lock();
        (std::mem::replace(&mut state.is_healthy, is_healthy) != is_healthy).then_some(is_healthy)
    }

    /// The last verdict.
    pub(super) fn is_healthy(&self) -> bool {
        self.lock().is_healthy
    }
}
