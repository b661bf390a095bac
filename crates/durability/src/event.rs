//! [`Event`]: a committed change to be delivered to users, and its JSON form.
//!
//! Inside a process an event is passed as it is. A bus between processes carries the JSON form,
//! which other systems read too: `docs/events.md` documents it, and a test compares the two.

mod json;

use std::sync::Arc;

use heartline_protocol::server_frame::{Chat, ChatChange, Message};
use heartline_protocol::{ChatId, ConnectionId, Timestamp, UserId};

pub use self::json::{Decoded, EVENT_VERSION, EventFormatError};

/// A committed change. Plain data: it contains nothing that only one process understands.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A message was stored.
    Message(Stored),
    /// A chat was created or changed.
    ChatChanged {
        /// The kind of change.
        change: ChatChange,
        /// The chat after the change, which its members receive.
        chat: Arc<Chat>,
        /// Users who were members before the change and are not any more. They are notified without
        /// the chat.
        removed: Vec<UserId>,
        /// The version of the chat's membership after the change.
        members_version: u64,
    },
}

/// A stored message with the data that its delivery needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// The message as the store holds it.
    pub message: Arc<Message>,
    /// The version of the chat's membership at the commit, or a later one.
    pub members_version: u64,
    /// The connection that sent the message, which gets an acknowledgement instead of a push.
    pub origin: Option<ConnectionId>,
    /// When the node that stored the message learned of the commit, by its wall clock. None when
    /// the message is published late: by the relay, or by a repeated send.
    pub committed_at: Option<Timestamp>,
}

impl Event {
    /// The chat that the event belongs to. A bus keeps the order of the events of one chat.
    pub fn chat_id(&self) -> ChatId {
        match self {
            Self::Message(stored) => stored.message.chat_id,
            Self::ChatChanged { chat, .. } => chat.chat_id,
        }
    }
}

#[cfg(test)]
mod tests;
