//! Counts the pending sends, in each chat and on the node.

use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use heartline_protocol::ChatId;
use heartline_runtime::Map;

use super::IngestLimits;

/// The numbers of pending sends, with their limits.
#[derive(Debug)]
pub(super) struct PendingSends {
    limits: IngestLimits,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    total: usize,
    chats: Map<ChatId, usize>,
}

/// One pending send; dropping it ends the count.
#[derive(Debug)]
pub(super) struct PendingSend {
    all: Arc<PendingSends>,
    chat_id: ChatId,
}

impl PendingSends {
    pub(super) fn new(limits: IngestLimits) -> Self {
        Self { limits, counts: Mutex::default() }
    }

    /// Adds a send in this chat, unless a limit is reached.
    pub(super) fn add(self: &Arc<Self>, chat_id: ChatId) -> Option<PendingSend> {
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
        Some(PendingSend { all: Arc::clone(self), chat_id })
    }

    #[cfg(test)]
    pub(super) fn total(&self) -> usize {
        self.lock().total
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PendingSend {
    fn drop(&mut self) {
        let mut counts = self.all.lock();
        counts.total -= 1;
        if let Entry::Occupied(mut chat) = counts.chats.entry(self.chat_id) {
            *chat.get_mut() -= 1;
            if *chat.get() == 0 {
                chat.remove();
            }
        }
    }
}
