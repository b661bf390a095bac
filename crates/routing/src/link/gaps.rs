//! Gaps in the parcels from other nodes.
//!
//! The content of a lost parcel is unknown, so every connection of the node must sync. That is
//! expensive, so gaps within a second cause one resync.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// The shortest time from one resync to the next.
const RESYNC_INTERVAL: Duration = Duration::from_secs(1);

/// The gaps that this node has detected.
#[derive(Debug)]
pub(super) struct Gaps {
    state: Mutex<State>,
    count: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    is_pending: bool,
    resynced_at: Option<Instant>,
}

impl Gaps {
    pub(super) fn new() -> Self {
        Self { state: Mutex::default(), count: watch::Sender::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a gap.
    pub(super) fn note(&self) {
        self.lock().is_pending = true;
        self.count.send_modify(|count| *count += 1);
    }

    /// Whether connections must sync now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let state = self.lock();
        let is_due = state.resynced_at.is_none_or(|at| now - at >= RESYNC_INTERVAL);
        state.is_pending && is_due
    }

    /// Records that connections were made to sync after every gap so far.
    pub(super) fn resynced(&self, now: Instant) {
        *self.lock() = State { is_pending: false, resynced_at: Some(now) };
    }

    /// How many gaps were detected so far.
    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }
}
