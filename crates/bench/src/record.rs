//! What one device heard of its chat: each message must come once, and in the order of the chat.

use std::sync::atomic::{AtomicU64, Ordering};

use heartline_protocol::ChatId;

/// What stands before the chat in a message.
const CHAT_MARKER: &[u8] = br#"{"type":"message","chat_id":""#;
/// What stands between the chat and the number.
const SEQUENCE_MARKER: &[u8] = br#"","sequence":"#;

/// How far a device has heard its chat. Only the reader of its connection writes it.
#[derive(Debug)]
pub(super) struct Record {
    chat_id: String,
    /// Messages that came in order and without a gap, from the first one on.
    heard: AtomicU64,
    /// Messages that came twice, after a gap, out of order or of another chat.
    strays: AtomicU64,
}

impl Record {
    /// Nothing heard as yet of a chat that is empty.
    pub(super) fn new(chat_id: ChatId) -> Self {
        let nothing = || AtomicU64::new(0);
        Self { chat_id: chat_id.to_string(), heard: nothing(), strays: nothing() }
    }

    /// Takes note of the delivery that begins so.
    pub(super) fn hear(&self, head: &[u8]) {
        let due = self.heard() + 1;
        if self.sequence(head) == Some(due) {
            self.heard.store(due, Ordering::Relaxed);
        } else {
            self.strays.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many messages it heard in order.
    pub(super) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// What is wrong with it if the chat has so many messages; nothing if it heard each of them
    /// once and in order.
    pub(super) fn fault(&self, head_sequence: u64) -> Option<String> {
        let (heard, strays) = (self.heard(), self.strays.load(Ordering::Relaxed));
        let is_whole = heard == head_sequence && strays == 0;
        let fault = || format!("{heard} of {head_sequence} in order, and {strays} others");
        (!is_whole).then(fault)
    }

    /// The number of a message of its own chat.
    fn sequence(&self, head: &[u8]) -> Option<u64> {
        let rest = head.strip_prefix(CHAT_MARKER)?.strip_prefix(self.chat_id.as_bytes())?;
        let rest = rest.strip_prefix(SEQUENCE_MARKER)?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use heartline_protocol::server_frame::Message;
    use heartline_protocol::{MessageId, ServerFrame, Timestamp, encode_server};
    use ulid::Ulid;

    use super::*;

    fn message(chat: u128, sequence: u64) -> String {
        let frame = ServerFrame::Message(Message {
            chat_id: ChatId(Ulid(chat)),
            sequence,
            message_id: MessageId(Ulid(2)),
            sender_id: "bench-1".parse().unwrap(),
            client_message_id: "n".parse().unwrap(),
            content: "content".to_owned(),
            content_type: "text/plain".to_owned(),
            created_at: Timestamp { unix_ms: 0 },
            deleted: false,
        });
        encode_server(&frame, Timestamp { unix_ms: 0 })
    }

    fn after(messages: &[(u128, u64)]) -> Record {
        let record = Record::new(ChatId(Ulid(7)));
        for (chat, sequence) in messages {
            record.hear(message(*chat, *sequence).as_bytes());
        }
        record
    }

    #[test]
    fn whoever_heard_all_in_order_is_without_fault() {
        assert_eq!(after(&[]).fault(0), None);
        assert_eq!(after(&[(7, 1), (7, 2), (7, 3)]).fault(3), None);
    }

    #[test]
    fn a_loss_a_repetition_a_swap_and_a_message_of_others_are_faults() {
        let cases: [(&[(u128, u64)], &str); 5] = [
            (&[(7, 1), (7, 2)], "2 of 3 in order, and 0 others"),
            (&[(7, 1), (7, 3)], "1 of 3 in order, and 1 others"),
            (&[(7, 1), (7, 2), (7, 2), (7, 3)], "3 of 3 in order, and 1 others"),
            (&[(7, 2), (7, 1), (7, 3)], "1 of 3 in order, and 2 others"),
            (&[(7, 1), (7, 2), (8, 3), (7, 3)], "3 of 3 in order, and 1 others"),
        ];
        for (messages, fault) in cases {
            assert_eq!(after(messages).fault(3).as_deref(), Some(fault), "{messages:?}");
        }
    }
}
