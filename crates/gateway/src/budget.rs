//! The memory that all outboxes and unanswered GraphQL requests of a node may use together.

use std::sync::atomic::{AtomicU64, Ordering};

use heartline_protocol::limits::OUTBOX_MEMORY_REFUSE_PERCENT;
use tokio::sync::Notify;

/// Bytes in all outboxes, and their limit. A frame that several outboxes share counts once in each,
/// so the figure is an upper bound.
#[derive(Debug)]
pub struct Budget {
    capacity: u64,
    used: AtomicU64,
    exceeded: Notify,
}

impl Budget {
    /// A budget of this many bytes.
    pub fn new(capacity: u64) -> Self {
        Self { capacity, used: AtomicU64::new(0), exceeded: Notify::new() }
    }

    /// Records that one outbox now holds `after` bytes instead of `before`.
    pub(crate) fn change(&self, before: usize, after: usize) {
        if after > before {
            let grown = (after - before) as u64;
            let used = self.used.fetch_add(grown, Ordering::Relaxed) + grown;
            if used > self.capacity {
                self.exceeded.notify_one();
            }
        } else if before > after {
            self.used.fetch_sub((before - after) as u64, Ordering::Relaxed);
        }
    }

    /// Bytes in all outboxes.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes that all outboxes may hold.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The use above which new sockets are refused.
    pub fn refuse_above(&self) -> u64 {
        self.capacity / 100 * OUTBOX_MEMORY_REFUSE_PERCENT as u64
    }

    /// Waits until the budget is exceeded.
    pub(crate) async fn exceeded(&self) {
        self.exceeded.notified().await;
    }
}
