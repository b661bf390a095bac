//! Losses between nodes, told to whom they may concern.
//!
//! Nobody knows what was in a lost parcel, so all connections of the node are told to sync. That
//! is dear, so losses that come together are told together.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// The shortest time from one telling to the next.
const TELL_INTERVAL: Duration = Duration::from_secs(1);

/// The losses that this node has noticed.
#[derive(Debug)]
pub(super) struct Gaps {
    state: Mutex<State>,
    count: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    is_pending: bool,
    told_at: Option<Instant>,
}

impl Gaps {
    pub(super) fn new() -> Self {
        Self { state: Mutex::default(), count: watch::Sender::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something was lost.
    pub(super) fn note(&self) {
        self.lock().is_pending = true;
        self.count.send_modify(|count| *count += 1);
    }

    /// Whether connections must be told now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let state = self.lock();
        let is_rested = state.told_at.is_none_or(|told_at| now - told_at >= TELL_INTERVAL);
        state.is_pending && is_rested
    }

    /// Connections were told of everything that was noted before.
    pub(super) fn told(&self, now: Instant) {
        *self.lock() = State { is_pending: false, told_at: Some(now) };
    }

    /// How many losses were noticed so far, for whoever must act at each change.
    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }
}
