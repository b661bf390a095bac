//! Acknowledges delivered messages, several with one frame.

use std::collections::BTreeMap;
use std::time::Duration;

use heartline_protocol::ChatId;
use heartline_protocol::client_frame::Ack;
use tokio::time::Instant;

/// The number of delivered messages of a chat after which an ack is sent at once.
const MESSAGES_MAX: u64 = 10;
/// The longest delay between the delivery of a message and its ack.
const DELAY_MAX: Duration = Duration::from_secs(5);

/// The messages that were delivered to the application and not yet acknowledged to the server.
#[derive(Debug, Default)]
pub(crate) struct Acks {
    chats: BTreeMap<ChatId, Unacked>,
}

#[derive(Debug)]
struct Unacked {
    /// Every message up to this sequence was delivered.
    sequence: u64,
    /// The number of messages delivered since the last ack.
    messages: u64,
    /// When the first of those messages was delivered.
    since: Instant,
}

impl Acks {
    /// A message, and every message before it, was delivered.
    pub(crate) fn delivered(&mut self, chat_id: ChatId, sequence: u64, now: Instant) {
        let unacked =
            self.chats.entry(chat_id).or_insert(Unacked { sequence, messages: 0, since: now });
        unacked.sequence = unacked.sequence.max(sequence);
        unacked.messages += 1;
    }

    /// Compares the watermark of the server with the delivered sequence. An ack can be lost with
    /// its connection, so a lower watermark is acknowledged again.
    pub(crate) fn reconcile(
        &mut self,
        chat_id: ChatId,
        watermark: u64,
        delivered: u64,
        now: Instant,
    ) {
        if watermark < delivered {
            self.delivered(chat_id, delivered, now);
        }
    }

    /// The user is no longer a member.
    pub(crate) fn remove(&mut self, chat_id: ChatId) {
        self.chats.remove(&chat_id);
    }

    /// When the next ack is due.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        self.chats.values().map(Unacked::due_at).min()
    }

    /// The ack to send now.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Ack> {
        let (&chat_id, unacked) = self.chats.iter().min_by_key(|(_, unacked)| unacked.due_at())?;
        if unacked.due_at() > now {
            return None;
        }
        let last_acked_sequence = self.chats.remove(&chat_id)?.sequence;
        Some(Ack { chat_id, last_acked_sequence })
    }

    /// All outstanding acks, due or not.
    pub(crate) fn take_all(&mut self) -> Vec<Ack> {
        let chats = std::mem::take(&mut self.chats).into_iter();
        chats.map(|(chat_id, u)| Ack { chat_id, last_acked_sequence: u.sequence }).collect()
    }
}

impl Unacked {
    fn due_at(&self) -> Instant {
        if self.messages >= MESSAGES_MAX { self.since } else { self.since + DELAY_MAX }
    }
}

#[cfg(test)]
mod tests {
    use ulid::Ulid;

    use super::*;
    use crate::clock;

    const CHAT: ChatId = ChatId(Ulid(1));
    const OTHER: ChatId = ChatId(Ulid(2));

    #[test]
    fn ten_messages_are_acknowledged_at_once_with_one_ack() {
        let now = clock::now();
        let mut acks = Acks::default();
        for sequence in 1..=9 {
            acks.delivered(CHAT, sequence, now);
        }
        assert_eq!(acks.next(now), None);
        acks.delivered(CHAT, 10, now);
        assert_eq!(acks.next(now), Some(Ack { chat_id: CHAT, last_acked_sequence: 10 }));
        assert_eq!((acks.next(now), acks.due_at()), (None, None));
    }

    #[test]
    fn a_single_message_is_acknowledged_after_five_seconds() {
        let now = clock::now();
        let mut acks = Acks::default();
        acks.delivered(CHAT, 3, now);
        acks.delivered(CHAT, 4, now + Duration::from_secs(4));
        assert_eq!(acks.due_at(), Some(now + DELAY_MAX));
        let ack = Some(Ack { chat_id: CHAT, last_acked_sequence: 4 });
        assert_eq!(acks.next(now + DELAY_MAX), ack);
    }

    #[test]
    fn a_lower_watermark_of_the_server_is_acknowledged_again() {
        let now = clock::now();
        let mut acks = Acks::default();
        acks.reconcile(CHAT, 7, 7, now);
        acks.reconcile(OTHER, 3, 7, now);
        assert_eq!(acks.take_all(), [Ack { chat_id: OTHER, last_acked_sequence: 7 }]);
    }

    #[test]
    fn a_removed_chat_is_not_acknowledged() {
        let mut acks = Acks::default();
        acks.delivered(CHAT, 1, clock::now());
        acks.remove(CHAT);
        assert_eq!(acks.take_all(), []);
    }
}
