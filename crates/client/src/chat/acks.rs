//! Telling the server how far the application has come, without a frame for every message.

use std::collections::BTreeMap;
use std::time::Duration;

use heartline_protocol::ChatId;
use heartline_protocol::client_frame::Ack;
use tokio::time::Instant;

/// An ack goes out at the latest when so many messages of a chat were handed over…
const MESSAGES_MAX: u64 = 10;
/// …or when the first of them was handed over that long ago.
const DELAY_MAX: Duration = Duration::from_secs(5);

/// What was handed to the application and not yet told to the server.
#[derive(Debug, Default)]
pub(crate) struct Receipts {
    chats: BTreeMap<ChatId, Untold>,
}

#[derive(Debug)]
struct Untold {
    /// Everything up to here was handed over.
    sequence: u64,
    /// How many messages that is since the last ack.
    messages: u64,
    /// When the first of them was handed over.
    since: Instant,
}

impl Receipts {
    /// A message was handed over, and everything before it.
    pub(crate) fn handed_over(&mut self, chat_id: ChatId, sequence: u64, now: Instant) {
        let untold =
            self.chats.entry(chat_id).or_insert(Untold { sequence, messages: 0, since: now });
        untold.sequence = untold.sequence.max(sequence);
        untold.messages += 1;
    }

    /// The server says how far it knows this user to be. An ack can be lost with its connection,
    /// so a server that knows less than this device is told again.
    pub(crate) fn server_knows(&mut self, chat_id: ChatId, known: u64, handed: u64, now: Instant) {
        if known < handed {
            self.handed_over(chat_id, handed, now);
        }
    }

    /// The user is no longer a member.
    pub(crate) fn forget(&mut self, chat_id: ChatId) {
        self.chats.remove(&chat_id);
    }

    /// When the next ack is due, if one is.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        self.chats.values().map(Untold::due_at).min()
    }

    /// The ack to send now.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Ack> {
        let (&chat_id, untold) = self.chats.iter().min_by_key(|(_, untold)| untold.due_at())?;
        if untold.due_at() > now {
            return None;
        }
        let last_acked_sequence = self.chats.remove(&chat_id)?.sequence;
        Some(Ack { chat_id, last_acked_sequence })
    }

    /// Everything that the server does not know yet, due or not.
    pub(crate) fn take_all(&mut self) -> Vec<Ack> {
        let chats = std::mem::take(&mut self.chats).into_iter();
        chats.map(|(chat_id, u)| Ack { chat_id, last_acked_sequence: u.sequence }).collect()
    }
}

impl Untold {
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
    fn ten_messages_make_one_ack_at_once() {
        let now = clock::now();
        let mut receipts = Receipts::default();
        for sequence in 1..=9 {
            receipts.handed_over(CHAT, sequence, now);
        }
        assert_eq!(receipts.next(now), None);
        receipts.handed_over(CHAT, 10, now);
        assert_eq!(receipts.next(now), Some(Ack { chat_id: CHAT, last_acked_sequence: 10 }));
        assert_eq!((receipts.next(now), receipts.due_at()), (None, None));
    }

    #[test]
    fn a_single_message_waits_five_seconds_for_company() {
        let now = clock::now();
        let mut receipts = Receipts::default();
        receipts.handed_over(CHAT, 3, now);
        receipts.handed_over(CHAT, 4, now + Duration::from_secs(4));
        assert_eq!(receipts.due_at(), Some(now + DELAY_MAX));
        let ack = Some(Ack { chat_id: CHAT, last_acked_sequence: 4 });
        assert_eq!(receipts.next(now + DELAY_MAX), ack);
    }

    #[test]
    fn a_server_that_knows_less_is_told_again() {
        let now = clock::now();
        let mut receipts = Receipts::default();
        receipts.server_knows(CHAT, 7, 7, now);
        receipts.server_knows(OTHER, 3, 7, now);
        assert_eq!(receipts.take_all(), [Ack { chat_id: OTHER, last_acked_sequence: 7 }]);
    }

    #[test]
    fn a_forgotten_chat_is_not_acknowledged() {
        let mut receipts = Receipts::default();
        receipts.handed_over(CHAT, 1, clock::now());
        receipts.forget(CHAT);
        assert_eq!(receipts.take_all(), []);
    }
}
