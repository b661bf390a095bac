//! How many sends are under way, in each chat and altogether.

use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use heartline_protocol::ChatId;
use heartline_runtime::Map;

use super::IngestLimits;

/// Counts the sends under way.
#[derive(Debug)]
pub(super) struct Places {
    limits: IngestLimits,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    total: usize,
    chats: Map<ChatId, usize>,
}

/// A send's place among those under way, given up when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    chat_id: ChatId,
}

impl Places {
    pub(super) fn new(limits: IngestLimits) -> Self {
        Self { limits, counts: Mutex::default() }
    }

    /// A place for one more send in this chat, if there is one.
    pub(super) fn take(self: &Arc<Self>, chat_id: ChatId) -> Option<Place> {
        let mut counts = self.lock();
        if counts.total >= self.limits.per_node {
            return None;
        }
        let chat = counts.chats.entry(chat_id).or_default();
        if *chat >= self.limits.per_chat {
            return None;
        }
        *chat += 1;
        counts.total += 1;
        Some(Place { places: Arc::clone(self), chat_id })
    }

    #[cfg(test)]
    pub(super) fn total(&self) -> usize {
        self.lock().total
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.places.lock();
        counts.total -= 1;
        if let Entry::Occupied(mut chat) = counts.chats.entry(self.chat_id) {
            *chat.get_mut() -= 1;
            if *chat.get() == 0 {
                chat.remove();
            }
        }
    }
}
