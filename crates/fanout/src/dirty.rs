//! Chats whose members may have missed messages because they could not be read.

use heartline_protocol::ChatId;
use heartline_runtime::Set;

/// Chats that are recorded one by one; beyond, all chats are dirty.
const CHATS_MAX: usize = 1000;

/// The chats whose members must sync once the store answers again.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    chats: Set<ChatId>,
    is_everything: bool,
}

impl Dirty {
    pub(crate) fn insert(&mut self, chat_id: ChatId) {
        if self.chats.len() < CHATS_MAX {
            self.chats.insert(chat_id);
        } else if !self.chats.contains(&chat_id) {
            self.is_everything = true;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.chats.len()
    }

    /// Any one of the chats.
    pub(crate) fn next(&self) -> Option<ChatId> {
        self.chats.iter().next().copied()
    }

    pub(crate) fn remove(&mut self, chat_id: ChatId) {
        self.chats.remove(&chat_id);
    }

    /// Whether all chats are dirty; if so, clears the list.
    pub(crate) fn take_everything(&mut self) -> bool {
        let is_everything = std::mem::take(&mut self.is_everything);
        if is_everything {
            self.chats.clear();
        }
        is_everything
    }
}

#[cfg(test)]
mod tests {
    use ulid::Ulid;

    use super::*;

    #[test]
    fn too_many_dirty_chats_are_all_chats() {
        let mut dirty = Dirty::default();
        for number in 0..CHATS_MAX {
            dirty.insert(ChatId(Ulid(number as u128)));
        }
        dirty.insert(ChatId(Ulid(0)));
        assert!(!dirty.take_everything());
        dirty.insert(ChatId(Ulid(u128::MAX)));
        assert!(dirty.take_everything());
        assert_eq!((dirty.len(), dirty.next()), (0, None));
        assert!(!dirty.take_everything());
    }
}
