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

/// How often what was announced is recorded: well before the relay would take it for lost.
const RECORD_INTERVAL: Duration = Duration::from_millis(500);

/// Chats that may wait to be recorded. Beyond, what is not remembered is announced again.
const CHATS_MAX: usize = 100_000;

/// What was announced since it was last recorded. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Publications {
    pending: Arc<Mutex<HashMap<ChatId, (u64, u64)>>>,
}

impl Publications {
    /// Remembers that messages were announced.
    pub fn published(&self, range: Published) {
        let mut pending = self.lock();
        if pending.len() < CHATS_MAX || pending.contains_key(&range.chat_id) {
            join(&mut pending, range);
        }
    }

    /// Records what is pending; what the store cannot take yet waits for the next time.
    pub async fn record(&self, log: &dyn ChatLog) {
        let ranges: Vec<Published> = {
            let mut pending = self.lock();
            let ranges = pending.drain();
            ranges.map(|(chat_id, (first, last))| Published { chat_id, first, last }).collect()
        };
        if ranges.is_empty() {
            return;
        }
        match log.record_published(ranges).await {
            Ok(untaken) => {
                // A hole before them means that somebody else still has to announce it. The relay
                // announces the whole of what is missing, so nothing needs to be kept here.
                tracing::debug!(chats = untaken.len(), "announced ranges with a hole before them");
            }
            Err(error) => warn!(%error, "what was announced could not be recorded"),
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

    fn lock(&self) -> MutexGuard<'_, HashMap<ChatId, (u64, u64)>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Joins a range to what is pending where they touch; else the newer one stands, and the hole
/// between them is announced again.
fn join(pending: &mut HashMap<ChatId, (u64, u64)>, range: Published) {
    let Published { chat_id, first, last } = range;
    pending
        .entry(chat_id)
        .and_modify(|held| {
            let touches = first <= held.1 + 1 && last + 1 >= held.0;
            *held = if touches { (held.0.min(first), held.1.max(last)) } else { (first, last) };
        })
        .or_insert((first, last));
}

#[cfg(test)]
mod tests {
    use ulid::Ulid;

    use super::*;

    #[test]
    fn neighbours_are_joined_and_a_hole_is_not_passed_over() {
        let publications = Publications::default();
        let chat_id = ChatId(Ulid(1));
        for sequence in [3, 4, 5, 4, 2] {
            publications.published(Published { chat_id, first: sequence, last: sequence });
        }
        assert_eq!(publications.lock()[&chat_id], (2, 5));
        publications.published(Published { chat_id, first: 9, last: 9 });
        assert_eq!(publications.lock()[&chat_id], (9, 9));
    }
}
