//! What is written by and by: how far users have acknowledged, and when they were last online.
//!
//! Both only rise and are repeated by nature, so they are kept in memory, written together every
//! few seconds, and outside of the breaker: they never make a send fail.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use heartline_protocol::{ChatId, Timestamp, UserId};
use tokio::sync::Notify;
use tracing::warn;

use crate::members::{Members, Watermark};
use crate::metrics::Metrics;
use crate::profiles::Profiles;
use crate::store::StoreError;

/// How often what is pending is written.
const WRITE_INTERVAL: Duration = Duration::from_secs(5);

/// Users whose facts may wait. Beyond, newer ones are not kept: a client acknowledges again.
const USERS_MAX: usize = 50_000;

/// Chats whose watermark may wait per user.
const CHATS_PER_USER_MAX: usize = 1000;

/// What waits to be written. Clones share it.
#[derive(Debug, Clone)]
pub struct LazyWrites {
    pending: Arc<Mutex<HashMap<UserId, Pending>>>,
    hurry: Arc<Notify>,
    metrics: Metrics,
}

#[derive(Debug, Default)]
struct Pending {
    acked: HashMap<ChatId, u64>,
    last_seen: Option<Timestamp>,
}

impl LazyWrites {
    /// Nothing pending.
    pub fn new(metrics: Metrics) -> Self {
        Self { pending: Arc::default(), hurry: Arc::default(), metrics }
    }

    /// Remembers how far a user has acknowledged a chat.
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

    /// Remembers when a user was last online, and has everything written soon.
    pub fn left(&self, user_id: &UserId, at: Timestamp) {
        self.seen(user_id, at);
        self.hurry.notify_one();
    }

    /// How far a user has acknowledged a chat, whose head this is, if so much of it is stored.
    pub fn acked(&self, user_id: &UserId, chat_id: ChatId, head: u64, stored: u64) -> u64 {
        let pending = self.lock();
        let acked = pending.get(user_id).and_then(|pending| pending.acked.get(&chat_id));
        acked.map_or(stored, |&acked| acked.min(head).max(stored))
    }

    /// Writes for ever.
    pub async fn run(self, members: Arc<dyn Members>, profiles: Arc<dyn Profiles>) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(WRITE_INTERVAL) => {}
                () = self.hurry.notified() => {
                    // Who leaves together is written together.
                    tokio::time::sleep(WRITE_INTERVAL / 20).await;
                }
            }
            self.write(&*members, &*profiles).await;
        }
    }

    /// Writes what is pending. What cannot be written waits for the next time, also if nobody waits
    /// for the end of this one: a node that stops drops what it is doing, and writes once more.
    pub async fn write(&self, members: &dyn Members, profiles: &dyn Profiles) {
        let watermarks = |watermarks| members.record_watermarks(watermarks);
        self.write_by(watermarks, |seen| profiles.record_last_seen(seen)).await;
    }

    async fn write_by<W, S>(
        &self,
        record_watermarks: impl FnOnce(Vec<Watermark>) -> W,
        record_last_seen: impl FnOnce(Vec<(UserId, Timestamp)>) -> S,
    ) where
        W: Future<Output = Result<(), StoreError>>,
        S: Future<Output = Result<(), StoreError>>,
    {
        let mut taken = self.take();
        if !taken.watermarks.is_empty() {
            match record_watermarks(taken.watermarks.clone()).await {
                Ok(()) => taken.watermarks.clear(),
                Err(error) => warn!(%error, "watermarks could not be written"),
            }
        }
        if !taken.seen.is_empty() {
            match record_last_seen(taken.seen.clone()).await {
                Ok(()) => taken.seen.clear(),
                Err(error) => warn!(%error, "last-seen times could not be written"),
            }
        }
    }

    fn take(&self) -> Taken<'_> {
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

    fn lock(&self) -> MutexGuard<'_, HashMap<UserId, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is being written. What is left of it when this is dropped waits again.
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
    async fn what_was_being_written_when_its_task_ended_is_written_by_the_next() {
        let ana: UserId = "ana".parse().unwrap();
        let at = Timestamp::from_unix_seconds(5);
        let watermark = Watermark { user_id: ana.clone(), chat_id: CHAT, last_acked_sequence: 3 };
        // The first write ends while the store has answered nothing, the second after one answer.
        for answers in [0, 1] {
            let permits = Semaphore::new(answers);
            let (watermarks, last_seen) = (Mutex::default(), Mutex::default());
            let writes = LazyWrites::new(Metrics::default());
            writes.acknowledged(&ana, CHAT, 3);
            writes.left(&ana, at);
            let write = || {
                let record_watermarks = |written| record(&permits, &watermarks, written);
                let record_last_seen = |written| record(&permits, &last_seen, written);
                writes.write_by(record_watermarks, record_last_seen)
            };
            let cut = timeout(Duration::ZERO, write()).await;
            assert!(cut.is_err(), "the store is slow");
            assert!(last_seen.lock().unwrap().is_empty());

            permits.add_permits(2);
            write().await;
            assert_eq!(*watermarks.lock().unwrap(), std::slice::from_ref(&watermark));
            assert_eq!(*last_seen.lock().unwrap(), [(ana.clone(), at)]);
        }
    }

    /// Keeps what is written, one call for each permit.
    async fn record<T>(
        permits: &Semaphore,
        kept: &Mutex<Vec<T>>,
        written: Vec<T>,
    ) -> Result<(), StoreError> {
        permits.acquire().await.unwrap().forget();
        kept.lock().unwrap().extend(written);
        Ok(())
    }
}
