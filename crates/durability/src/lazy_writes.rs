//! Lazy writes: watermarks and last-seen times.
//!
//! Both only rise and clients repeat them, so they are kept in memory, written together every few
//! seconds, and outside of the breaker: they never make a send fail.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use heartline_protocol::{ChatId, Timestamp, UserId};
use heartline_runtime::Map;
use tokio::sync::Notify;
use tracing::warn;

use crate::chats::Watermark;
use crate::metrics::Metrics;
use crate::store::{Chain, StoreError};

/// The time between two writes.
const WRITE_INTERVAL: Duration = Duration::from_secs(5);

/// Users with pending writes, at most. Beyond, writes of other users are dropped: a client
/// acknowledges again.
const USERS_MAX: usize = 50_000;

/// Chats with a pending watermark per user, at most.
const CHATS_PER_USER_MAX: usize = 1000;

/// The port for lazy writes.
#[async_trait]
pub trait LazyStore: Send + Sync + std::fmt::Debug {
    /// Raises watermarks, each clamped to its chat's head; one never falls. Users who are not
    /// members are ignored.
    async fn record_watermarks(&self, watermarks: Vec<Watermark>) -> Result<(), StoreError>;

    /// Raises the times at which users were last online; one never falls.
    async fn record_last_seen(&self, seen: Vec<(UserId, Timestamp)>) -> Result<(), StoreError>;
}

/// The pending writes of a node. Clones share them.
#[derive(Debug, Clone)]
pub struct LazyWrites {
    pending: Arc<Mutex<Map<UserId, Pending>>>,
    hurry: Arc<Notify>,
    metrics: Metrics,
}

#[derive(Debug, Default)]
struct Pending {
    acked: Map<ChatId, u64>,
    last_seen: Option<Timestamp>,
}

impl LazyWrites {
    /// No pending writes.
    pub fn new(metrics: Metrics) -> Self {
        Self { pending: Arc::default(), hurry: Arc::default(), metrics }
    }

    /// Adds a watermark.
    pub fn acknowledged(&self, user_id: &UserId, chat_id: ChatId, sequence: u64) {
        self.with(user_id, |pending| {
            let is_full = pending.acked.len() >= CHATS_PER_USER_MAX;
            if is_full && !pending.acked.contains_key(&chat_id) {
                return false;
            }
            let acked = pending.acked.entry(chat_id).or_default();
            *acked = sequence.max(*acked);
            true
        });
    }

    /// Adds a last-seen time, and schedules a write soon.
    pub fn left(&self, user_id: &UserId, at: Timestamp) {
        self.seen(user_id, at);
        self.hurry.notify_one();
    }

    /// The watermark of a user in a chat with this head: the pending one, or the stored one if that
    /// is higher.
    pub fn acked(&self, user_id: &UserId, chat_id: ChatId, head: u64, stored: u64) -> u64 {
        let pending = self.lock();
        let acked = pending.get(user_id).and_then(|pending| pending.acked.get(&chat_id));
        acked.map_or(stored, |&acked| acked.min(head).max(stored))
    }

    /// Writes for ever.
    pub async fn run(self, store: Arc<dyn LazyStore>) {
        loop {
            tokio::select! {
                // The interval first: a write that is due does not wait for more.
                biased;
                () = tokio::time::sleep(WRITE_INTERVAL) => {}
                () = self.hurry.notified() => {
                    // Users who disconnect together are written together.
                    tokio::time::sleep(WRITE_INTERVAL / 20).await;
                }
            }
            self.write(&*store).await;
        }
    }

    /// Writes all pending values. A value that fails stays pending, also if this future is dropped:
    /// a stopping node drops its tasks and then writes once more.
    pub async fn write(&self, store: &dyn LazyStore) {
        let mut taken = self.take_pending();
        if !taken.watermarks.is_empty() {
            match store.record_watermarks(taken.watermarks.clone()).await {
                Ok(()) => taken.watermarks.clear(),
                Err(error) => warn!(error = %Chain(&error), "writing watermarks failed"),
            }
        }
        if !taken.seen.is_empty() {
            match store.record_last_seen(taken.seen.clone()).await {
                Ok(()) => taken.seen.clear(),
                Err(error) => warn!(error = %Chain(&error), "writing last-seen times failed"),
            }
        }
    }

    fn take_pending(&self) -> Taken<'_> {
        let pending = std::mem::take(&mut *self.lock());
        let mut taken = Taken { writes: self, watermarks: Vec::new(), seen: Vec::new() };
        for (user_id, Pending { acked, last_seen }) in pending {
            taken.seen.extend(last_seen.map(|at| (user_id.clone(), at)));
            let watermarks = acked.into_iter().map(|(chat_id, last_acked_sequence)| Watermark {
                user_id: user_id.clone(),
                chat_id,
                last_acked_sequence,
            });
            taken.watermarks.extend(watermarks);
        }
        taken
    }

    fn seen(&self, user_id: &UserId, at: Timestamp) {
        self.with(user_id, |pending| {
            pending.last_seen = pending.last_seen.max(Some(at));
            true
        });
    }

    fn with(&self, user_id: &UserId, change: impl FnOnce(&mut Pending) -> bool) {
        let mut users = self.lock();
        let has_room = users.len() < USERS_MAX || users.contains_key(user_id);
        let is_kept = has_room && change(users.entry(user_id.clone()).or_default());
        if !is_kept {
            self.metrics.lazy_writes_dropped.inc();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Map<UserId, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes in progress. Those that are left when this is dropped are pending again.
struct Taken<'writes> {
    writes: &'writes LazyWrites,
    watermarks: Vec<Watermark>,
    seen: Vec<(UserId, Timestamp)>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        for Watermark { user_id, chat_id, last_acked_sequence } in self.watermarks.drain(..) {
            self.writes.acknowledged(&user_id, chat_id, last_acked_sequence);
        }
        for (user_id, at) in self.seen.drain(..) {
            self.writes.seen(&user_id, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;
    use tokio::time::timeout;
    use ulid::Ulid;

    use super::*;

    const CHAT: ChatId = ChatId(Ulid(7));

    #[tokio::test]
    async fn an_interrupted_write_is_repeated_by_the_next() {
        let ana: UserId = "ana".parse().unwrap();
        let at = Timestamp::from_unix_seconds(5);
        let watermark = Watermark { user_id: ana.clone(), chat_id: CHAT, last_acked_sequence: 3 };
        // The first write ends before any call of the store returned, the second after one.
        for answers in [0, 1] {
            let store = SlowStore {
                permits: Semaphore::new(answers),
                watermarks: Mutex::default(),
                last_seen: Mutex::default(),
            };
            let writes = LazyWrites::new(Metrics::default());
            writes.acknowledged(&ana, CHAT, 3);
            writes.left(&ana, at);
            let cut = timeout(Duration::ZERO, writes.write(&store)).await;
            assert!(cut.is_err(), "the store is slow");
            assert!(store.last_seen.lock().unwrap().is_empty());

            store.permits.add_permits(2);
            writes.write(&store).await;
            assert_eq!(*store.watermarks.lock().unwrap(), std::slice::from_ref(&watermark));
            assert_eq!(*store.last_seen.lock().unwrap(), [(ana.clone(), at)]);
        }
    }

    /// Keeps written values; each call waits for a permit.
    #[derive(Debug)]
    struct SlowStore {
        permits: Semaphore,
        watermarks: Mutex<Vec<Watermark>>,
        last_seen: Mutex<Vec<(UserId, Timestamp)>>,
    }

    #[async_trait]
    impl LazyStore for SlowStore {
        async fn record_watermarks(&self, watermarks: Vec<Watermark>) -> Result<(), StoreError> {
            self.permits.acquire().await.unwrap().forget();
            self.watermarks.lock().unwrap().extend(watermarks);
            Ok(())
        }

        async fn record_last_seen(&self, seen: Vec<(UserId, Timestamp)>) -> Result<(), StoreError> {
            self.permits.acquire().await.unwrap().forget();
            self.last_seen.lock().unwrap().extend(seen);
            Ok(())
        }
    }
}
