//! Checks that one device receives each message of its chat once and in order.

use std::sync::atomic::{AtomicU64, Ordering};

use heartline_protocol::ChatId;

/// The bytes before the chat id in a message.
const CHAT_MARKER: &[u8] = br#"{"type":"message","chat_id":""#;
/// The bytes between the chat id and the sequence.
const SEQUENCE_MARKER: &[u8] = br#"","sequence":"#;

/// The messages that a device has received of its chat. Only the reader of its connection writes.
#[derive(Debug)]
pub(super) struct OrderCheck {
    chat_id: String,
    /// Messages that arrived in order and without a gap, from the first one on.
    in_order: AtomicU64,
    /// Messages that were repeated, after a gap, out of order or of another chat.
    unexpected: AtomicU64,
}

impl OrderCheck {
    /// A check of a chat that is empty.
    pub(super) fn new(chat_id: ChatId) -> Self {
        let zero = || AtomicU64::new(0);
        Self { chat_id: chat_id.to_string(), in_order: zero(), unexpected: zero() }
    }

    /// Counts the delivery that begins with these bytes.
    pub(super) fn receive(&self, head: &[u8]) {
        let due = self.in_order() + 1;
        if self.sequence(head) == Some(due) {
            self.in_order.store(due, Ordering::Relaxed);
        } else {
            self.unexpected.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The number of messages that arrived in order.
    fn in_order(&self) -> u64 {
        self.in_order.load(Ordering::Relaxed)
    }

    /// Describes the difference from a chat with this head sequence; none if the device received
    /// each message once and in order.
    pub(super) fn fault(&self, head_sequence: u64) -> Option<String> {
        let (in_order, unexpected) = (self.in_order(), self.unexpected.load(Ordering::Relaxed));
        let is_complete = in_order == head_sequence && unexpected == 0;
        let fault = || format!("{in_order} of {head_sequence} in order, {unexpected} others");
        (!is_complete).then(fault)
    }

    /// The sequence of a message of this chat.
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

    fn after(messages: &[(u128, u64)]) -> OrderCheck {
        let check = OrderCheck::new(ChatId(Ulid(7)));
        for (chat, sequence) in messages {
            check.receive(message(*chat, *sequence).as_bytes());
        }
        check
    }

    #[test]
    fn a_device_that_received_all_messages_in_order_has_no_fault() {
        assert_eq!(after(&[]).fault(0), None);
        assert_eq!(after(&[(7, 1), (7, 2), (7, 3)]).fault(3), None);
    }

    #[test]
    fn a_lost_repeated_reordered_or_foreign_message_is_a_fault() {
        let cases: [(&[(u128, u64)], &str); 5] = [
            (&[(7, 1), (7, 2)], "2 of 3 in order, 0 others"),
            (&[(7, 1), (7, 3)], "1 of 3 in order, 1 others"),
            (&[(7, 1), (7, 2), (7, 2), (7, 3)], "3 of 3 in order, 1 others"),
            (&[(7, 2), (7, 1), (7, 3)], "1 of 3 in order, 2 others"),
            (&[(7, 1), (7, 2), (8, 3), (7, 3)], "3 of 3 in order, 1 others"),
        ];
        for (messages, fault) in cases {
            assert_eq!(after(messages).fault(3).as_deref(), Some(fault), "{messages:?}");
        }
    }
}
