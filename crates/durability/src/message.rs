//! A message before and after it is stored.

use std::sync::Arc;

use heartline_protocol::server_frame::Message;
use heartline_protocol::{ChatId, ClientMessageId, ConnectionId, UserId};

pub use heartline_protocol::DEFAULT_CONTENT_TYPE;

/// A message to be stored. Its form was validated where it entered.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMessage {
    /// The chat.
    pub chat_id: ChatId,
    /// The sender.
    pub sender_id: UserId,
    /// The sender's id for the message, the same in every retry.
    pub client_message_id: ClientMessageId,
    /// The content.
    pub content: String,
    /// The type of the content.
    pub content_type: String,
    /// The connection that sent the message, to which it is not pushed; none for REST.
    pub origin: Option<ConnectionId>,
}

/// Proof that a message is stored: an acknowledgement is built from this and from nothing else.
#[derive(Debug, Clone, PartialEq)]
pub struct Receipt {
    /// The message as it is stored.
    pub message: Arc<Message>,
    /// Whether an earlier attempt had stored it.
    pub duplicate: bool,
}
