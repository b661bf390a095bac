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

/// Ranges of one chat that may wait, each for the hole before it to be announced by somebody.
const RANGES_PER_CHAT_MAX: usize = 16;

/// What was announced since it was last recorded. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Publications {
    pending: Arc<Mutex<HashMap<ChatId, Ranges>>>,
}

/// Ranges, ascending and apart from each other.
type Ranges = Vec<(u64, u64)>;

impl Publications {
    /// Remembers that messages were announced.
    pub fn published(&self, range: Published) {
        let mut pending = self.lock();
        if pending.len() < CHATS_MAX || pending.contains_key(&range.chat_id) {
            join(pending.entry(range.chat_id).or_default(), (range.first, range.last));
        }
    }

    /// Records what is pending; what the store cannot take yet waits for the next time.
    pub async fn record(&self, log: &dyn ChatLog) {
        let pending = std::mem::take(&mut *self.lock());
        let of_chat = |(chat_id, ranges): (ChatId, Ranges)| {
            ranges.into_iter().map(move |(first, last)| Published { chat_id, first, last })
        };
        let ranges: Vec<Published> = pending.into_iter().flat_map(of_chat).collect();
        if ranges.is_empty() {
            return;
        }
        match log.record_published(ranges).await {
            Ok(untaken) => untaken.into_iter().for_each(|range| self.published(range)),
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

    fn lock(&self) -> MutexGuard<'_, HashMap<ChatId, Ranges>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds a range, joined with those that it touches. The highest give way when there are too many:
/// they are announced again.
fn join(ranges: &mut Ranges, (mut first, mut last): (u64, u64)) {
    ranges.retain(|&(held_first, held_last)| {
        let touches = first <= held_last + 1 && held_first <= last + 1;
        if touches {
            (first, last) = (first.min(held_first), last.max(held_last));
        }
        !touches
    });
    let place = ranges.partition_point(|held| held.0 < first);
    ranges.insert(place, (first, last));
    ranges.truncate(RANGES_PER_CHAT_MAX);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined_and_holes_are_kept() {
        let mut ranges = Ranges::new();
        for sequence in [3, 4, 5, 4, 2, 9, 8, 20] {
            join(&mut ranges, (sequence, sequence));
        }
        assert_eq!(ranges, [(2, 5), (8, 9), (20, 20)]);
        join(&mut ranges, (6, 7));
        assert_eq!(ranges, [(2, 9), (20, 20)]);
        join(&mut ranges, (1, 30));
        assert_eq!(ranges, [(1, 30)]);
    }

    #[test]
    fn only_so_many_ranges_wait() {
        let mut ranges = Ranges::new();
        for number in 0..100 {
            join(&mut ranges, (number * 2, number * 2));
        }
        assert_eq!(ranges.len(), RANGES_PER_CHAT_MAX);
        assert_eq!(ranges[0], (0, 0));
    }
}
