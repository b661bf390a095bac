//! Detects when every chat has reached the head that it had when the connection began.

use std::collections::HashMap;

use heartline_protocol::ChatId;

/// The progress of one connection.
#[derive(Debug, Default)]
pub(crate) struct CatchUp {
    /// The chats that are behind, with the sequence that each must reach.
    behind: HashMap<ChatId, u64>,
    phase: Phase,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The manifest is being read, so more chats may be added.
    #[default]
    Reading,
    /// The manifest is complete.
    Complete,
    /// The application was notified.
    Announced,
}

impl CatchUp {
    /// The manifest lists a chat with its head.
    pub(crate) fn expect(&mut self, chat_id: ChatId, head: u64, reached: u64) {
        if self.phase == Phase::Reading && reached < head {
            self.behind.insert(chat_id, head);
        }
    }

    /// The manifest was read completely.
    pub(crate) fn manifest_complete(&mut self) {
        if self.phase == Phase::Reading {
            self.phase = Phase::Complete;
        }
    }

    /// A chat was delivered up to this sequence.
    pub(crate) fn reached(&mut self, chat_id: ChatId, reached: u64) {
        if self.behind.get(&chat_id).is_some_and(|head| *head <= reached) {
            self.behind.remove(&chat_id);
        }
    }

    /// The user is no longer a member of the chat.
    pub(crate) fn remove(&mut self, chat_id: ChatId) {
        self.behind.remove(&chat_id);
    }

    /// Whether every chat has just caught up; true once.
    pub(crate) fn announce(&mut self) -> bool {
        let arrived = self.phase == Phase::Complete && self.behind.is_empty();
        if arrived {
            self.phase = Phase::Announced;
        }
        arrived
    }
}

#[cfg(test)]
mod tests {
    use ulid::Ulid;

    use super::*;

    const CHAT: ChatId = ChatId(Ulid(1));
    const OTHER: ChatId = ChatId(Ulid(2));

    #[test]
    fn the_end_is_announced_once_when_every_chat_has_caught_up() {
        let mut catch_up = CatchUp::default();
        catch_up.expect(CHAT, 5, 3);
        catch_up.expect(OTHER, 5, 5);
        catch_up.reached(CHAT, 5);
        assert!(!catch_up.announce(), "the manifest is not complete");
        catch_up.manifest_complete();
        assert!(catch_up.announce());
        assert!(!catch_up.announce());
    }

    #[test]
    fn a_chat_that_is_behind_delays_the_end_until_it_catches_up_or_is_removed() {
        let mut catch_up = CatchUp::default();
        catch_up.expect(CHAT, 5, 3);
        catch_up.expect(OTHER, 9, 0);
        catch_up.manifest_complete();
        catch_up.reached(CHAT, 4);
        assert!(!catch_up.announce());
        catch_up.reached(CHAT, 6);
        assert!(!catch_up.announce());
        catch_up.remove(OTHER);
        assert!(catch_up.announce());
    }
}
