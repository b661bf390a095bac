//! A message to send.

use heartline_protocol::limits::{CONTENT_BYTES_MAX, CONTENT_TYPE_BYTES_MAX};
use heartline_protocol::server_frame::{Message, MessageAck};
use heartline_protocol::{ChatId, ClientMessageId, DEFAULT_CONTENT_TYPE, UserId};
use heartline_runtime::Random;

/// A message before it is acknowledged. Its id is the same in every attempt, so an application that
/// stores its drafts may send them again after a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// The chat that receives the message.
    pub chat_id: ChatId,
    /// The message's id, the same in every attempt.
    pub client_message_id: ClientMessageId,
    /// The content: 1 to 4096 bytes.
    pub content: String,
    /// The type of the content; `text/plain` if absent.
    pub content_type: Option<String>,
}

/// The reason why a message was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The outbox is full; try again after a `Sent`.
    #[error("the outbox is full: try again when a message was sent")]
    Full,
    /// The content is empty or over its limit.
    #[error("content must have 1 to {CONTENT_BYTES_MAX} bytes")]
    InvalidContent,
    /// The content type is empty or over its limit.
    #[error("content_type must have 1 to {CONTENT_TYPE_BYTES_MAX} bytes")]
    InvalidContentType,
    /// A message with this id is queued in this chat already.
    #[error("a message with this client_message_id is queued already")]
    AlreadyQueued,
    /// The client has stopped; the last event has the reason.
    #[error("the client has stopped")]
    Stopped,
}

impl Draft {
    /// A message with a new id. The id is random, so that it never repeats, not even after a
    /// restart of the application.
    pub fn new(chat_id: ChatId, content: impl Into<String>) -> Self {
        Self::with_random(Random::system(), chat_id, content)
    }

    /// Like [`Draft::new`] with an id from this random source.
    pub fn with_random(random: Random, chat_id: ChatId, content: impl Into<String>) -> Self {
        let client_message_id = format!("{:032x}", random.draw::<u128>())
            .parse()
            .expect("32 hexadecimal digits are a valid id");
        Self { chat_id, client_message_id, content: content.into(), content_type: None }
    }

    /// Checks the limits of the server.
    pub(crate) fn check(&self) -> Result<(), SendError> {
        if !(1..=CONTENT_BYTES_MAX).contains(&self.content.len()) {
            return Err(SendError::InvalidContent);
        }
        let content_type_length = self.content_type.as_ref().map_or(1, String::len);
        if !(1..=CONTENT_TYPE_BYTES_MAX).contains(&content_type_length) {
            return Err(SendError::InvalidContentType);
        }
        Ok(())
    }

    /// The bytes that count against the limit of the outbox.
    pub(crate) fn bytes(&self) -> usize {
        let content_type_length = self.content_type.as_ref().map_or(0, String::len);
        self.content.len() + content_type_length + self.client_message_id.as_str().len()
    }

    /// The message as the other members receive it, given its ack.
    pub(crate) fn into_message(self, ack: &MessageAck, sender_id: UserId) -> Message {
        Message {
            chat_id: self.chat_id,
            sequence: ack.sequence,
            message_id: ack.message_id,
            sender_id,
            client_message_id: self.client_message_id,
            content: self.content,
            content_type: self.content_type.unwrap_or_else(|| DEFAULT_CONTENT_TYPE.to_owned()),
            created_at: ack.created_at,
            deleted: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use ulid::Ulid;

    use super::*;

    #[test]
    fn content_and_type_are_checked_against_the_limits() {
        let mut draft = Draft::new(ChatId(Ulid(1)), "é".repeat(CONTENT_BYTES_MAX / 2));
        assert_eq!(draft.check(), Ok(()));
        draft.content.push('x');
        assert_eq!(draft.check(), Err(SendError::InvalidContent));
        draft.content.clear();
        assert_eq!(draft.check(), Err(SendError::InvalidContent));
        draft.content.push('x');
        for (length, is_valid) in [(0, false), (1, true), (64, true), (65, false)] {
            draft.content_type = Some("x".repeat(length));
            assert_eq!(draft.check().is_ok(), is_valid, "{length}");
        }
    }

    #[test]
    fn two_drafts_never_share_an_id() {
        let chat_id = ChatId(Ulid(1));
        let ids = [Draft::new(chat_id, "a"), Draft::new(chat_id, "a")].map(|d| d.client_message_id);
        assert_ne!(ids[0], ids[1]);
    }
}
