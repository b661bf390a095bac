//! Published messages that are not recorded as published yet.
//!
//! Recording is lazy: a message that is recorded late may be published again after a crash, and
//! delivery drops the repeat.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use heartline_protocol::ChatId;
use heartline_runtime::Map;
use tracing::warn;

use crate::announcements::{Announcements, Published};
use crate::ranges::Ranges;
use crate::store::Chain;

/// The interval of records: well below the age at which the relay publishes again.
const RECORD_INTERVAL: Duration = Duration::from_millis(500);

/// Chats with pending records, at most. Beyond, messages of other chats stay unrecorded, and the
/// relay publishes them again.
const CHATS_MAX: usize = 100_000;

/// Published messages to be recorded. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Publications {
    pending: Arc<Mutex<Map<ChatId, Ranges>>>,
}

impl Publications {
    /// Adds published messages.
    pub fn published(&self, range: Published) {
        let mut pending = self.lock();
        if pending.len() < CHATS_MAX || pending.contains_key(&range.chat_id) {
            pending.entry(range.chat_id).or_default().insert(range.first, range.last);
        }
    }

    /// Records all pending messages. A record that fails stays pending.
    pub async fn record(&self, store: &dyn Announcements) {
        let pending = std::mem::take(&mut *self.lock());
        let of_chat = |(chat_id, ranges): (&ChatId, &Ranges)| {
            let chat_id = *chat_id;
            let range = move |(first, last)| Published { chat_id, first, last };
            ranges.iter().map(range).collect::<Vec<_>>()
        };
        let ranges: Vec<Published> = pending.iter().flat_map(of_chat).collect();
        if ranges.is_empty() {
            return;
        }
        if let Err(error) = store.record_published(ranges.clone()).await {
            warn!(error = %Chain(&error), "recording published messages failed");
            ranges.into_iter().for_each(|range| self.published(range));
        }
    }

    /// Records for ever.
    pub async fn run(self, store: Arc<dyn Announcements>) {
        let mut ticks = tokio::time::interval(RECORD_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.record(&*store).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Map<ChatId, Ranges>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
