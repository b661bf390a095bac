//! Whether the broker carries parcels from and to this node.
//!
//! Two proofs are needed: the directory answers (the renewal of leases asks it every second), and
//! a probe that the node sends to itself through the broker arrives. The second proof detects a
//! connection that is cut in one direction only.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// How old either proof may be.
pub const PROOF_AGE_MAX: Duration = Duration::from_secs(3);

/// How long the broker must have been unreachable before a node reports that clients are better off
/// elsewhere: direct links bridge a short interruption, which must not take the node out of
/// rotation.
pub const WORSE_OFF_AGE: Duration = Duration::from_secs(10);

/// The state of this node's own link to the broker.
#[derive(Debug)]
pub(super) struct Health {
    state: Mutex<State>,
    /// Whether a probe has ever arrived: afterwards every parcel to this node does.
    is_subscribed: watch::Sender<bool>,
}

#[derive(Debug)]
struct State {
    echoed_at: Instant,
    is_healthy: bool,
    changed_at: Instant,
}

/// A change of the broker link's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HealthChange {
    /// The new state.
    pub(super) is_healthy: bool,
    /// How long the old state lasted.
    pub(super) after: Duration,
}

impl Health {
    /// A link that counts as healthy until a proof is overdue.
    pub(super) fn new(now: Instant) -> Self {
        let state = Mutex::new(State { echoed_at: now, is_healthy: true, changed_at: now });
        Self { state, is_subscribed: watch::Sender::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a probe of this node to itself arrived.
    pub(super) fn echo(&self, now: Instant) {
        self.lock().echoed_at = now;
        self.is_subscribed
            .send_if_modified(|is_subscribed| !std::mem::replace(is_subscribed, true));
    }

    /// Waits until a probe has arrived for the first time.
    pub(super) async fn subscribed(&self) {
        let mut is_subscribed = self.is_subscribed.subscribe();
        // The sender is dropped together with this value.
        let _ = is_subscribed.wait_for(|is_subscribed| *is_subscribed).await;
    }

    /// The age of the older of the two proofs.
    pub(super) fn proof_age(&self, now: Instant, silence: Duration) -> Duration {
        silence.max(now.saturating_duration_since(self.lock().echoed_at))
    }

    /// Evaluates the proofs. Returns the new state if it has changed.
    pub(super) fn evaluate(&self, now: Instant, silence: Duration) -> Option<HealthChange> {
        let is_healthy = self.proof_age(now, silence) < PROOF_AGE_MAX;
        let mut state = self.lock();
        if state.is_healthy == is_healthy {
            return None;
        }
        state.is_healthy = is_healthy;
        let since = std::mem::replace(&mut state.changed_at, now);
        Some(HealthChange { is_healthy, after: now.saturating_duration_since(since) })
    }

    /// The state at the last evaluation.
    pub(super) fn is_healthy(&self) -> bool {
        self.lock().is_healthy
    }
}
