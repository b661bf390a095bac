//! A message before and after it is stored.

use std::sync::Arc;

use heartline_protocol::server_frame::Message;
use heartline_protocol::{ChatId, ClientMessageId, ConnectionId, UserId};

pub use heartline_protocol::DEFAULT_CONTENT_TYPE;

/// A message that somebody wants stored. Its form was checked where it entered.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMessage {
    /// Where to.
    pub chat_id: ChatId,
    /// Who sends it.
    pub sender_id: UserId,
    /// The sender's own name for it, the same in every retry.
    pub client_message_id: ClientMessageId,
    /// What is said.
    pub content: String,
    /// What kind of content it is.
    pub content_type: String,
    /// The connection it came by, which is not told again; none for REST.
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
