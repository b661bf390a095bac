//! What was announced and must be recorded, by and by.
//!
//! Recording is lazy: a number that is recorded late is announced again after a crash, and
//! delivery drops what it has had.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use heartline_protocol::ChatId;
use tracing::warn;

use crate::log::{ChatLog, Published};
use crate::ranges::Ranges;

/// How often what was announced is recorded: well before the relay would take it for lost.
const RECORD_INTERVAL: Duration = Duration::from_millis(500);

/// Chats that may wait to be recorded. Beyond, what is not remembered is announced again.
const CHATS_MAX: usize = 100_000;

/// What was announced since it was last recorded. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Publications {
    pending: Arc<Mutex<HashMap<ChatId, Ranges>>>,
}

impl Publications {
    /// Remembers that messages were announced.
    pub fn published(&self, range: Published) {
        let mut pending = self.lock();
        if pending.len() < CHATS_MAX || pending.contains_key(&range.chat_id) {
            pending.entry(range.chat_id).or_default().insert(range.first, range.last);
        }
    }

    /// Records what is pending; what could not be recorded waits for the next time.
    pub async fn record(&self, log: &dyn ChatLog) {
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
        if let Err(error) = log.record_published(ranges.clone()).await {
            warn!(%error, "what was announced could not be recorded");
            ranges.into_iter().for_each(|range| self.published(range));
        }
    }

    /// Records for ever.
    pub async fn run(self, log: Arc<dyn ChatLog>) {
        let mut ticks = tokio::time::interval(RECORD_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.record(&*log).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ChatId, Ranges>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
