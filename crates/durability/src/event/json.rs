//! The JSON form of events, version 1.

use std::borrow::Cow;
use std::sync::Arc;

use heartline_protocol::server_frame::{Chat, ChatChange, Message};
use heartline_protocol::{ChatId, ClientMessageId, ConnectionId, MessageId, Timestamp, UserId};
use serde::{Deserialize, Serialize};

use super::{Event, Stored};

/// The version of the format. Only a change that an older reader would misunderstand raises it; new
/// fields and new types of events do not.
pub const EVENT_VERSION: u64 = 1;

const MESSAGE: &str = "message";
const CHAT_CHANGED: &str = "chat_changed";

/// A decoded event.
#[derive(Debug, Clone, PartialEq)]
pub enum Decoded {
    /// An event that this version knows.
    Event(Event),
    /// An event of a type that this version does not know. A reader skips it.
    Unknown {
        /// The type of the event.
        kind: String,
    },
}

/// Bytes that are no event of a known version.
#[derive(Debug, thiserror::Error)]
pub enum EventFormatError {
    /// The bytes are not JSON, or a field is missing or of the wrong type.
    #[error("the event is malformed")]
    Malformed(#[from] serde_json::Error),
    /// The event has a version that this reader does not understand.
    #[error("the event has version {0}; this reader understands version {EVENT_VERSION}")]
    Version(u64),
}

/// The fields that every event has.
#[derive(Deserialize)]
struct Head {
    v: u64,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Serialize, Deserialize)]
struct MessageJson<'event> {
    v: u64,
    #[serde(rename = "type")]
    kind: Cow<'event, str>,
    chat_id: ChatId,
    sequence: u64,
    message_id: MessageId,
    sender_id: Cow<'event, UserId>,
    client_message_id: Cow<'event, ClientMessageId>,
    content: Cow<'event, str>,
    content_type: Cow<'event, str>,
    created_at: Timestamp,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    deleted: bool,
    members_version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<ConnectionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    committed_at: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
struct ChatChangedJson<'event> {
    v: u64,
    #[serde(rename = "type")]
    kind: Cow<'event, str>,
    chat_id: ChatId,
    change: ChatChange,
    chat: Cow<'event, Chat>,
    removed: Cow<'event, [UserId]>,
    members_version: u64,
}

impl Event {
    /// The event as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        let json = match self {
            Self::Message(stored) => serde_json::to_vec(&MessageJson::from(stored)),
            Self::ChatChanged { change, chat, removed, members_version } => {
                serde_json::to_vec(&ChatChangedJson {
                    v: EVENT_VERSION,
                    kind: CHAT_CHANGED.into(),
                    chat_id: chat.chat_id,
                    change: *change,
                    chat: Cow::Borrowed(chat),
                    removed: Cow::Borrowed(removed),
                    members_version: *members_version,
                })
            }
        };
        json.expect("an event has only string keys")
    }

    /// Reads an event. Fields that this version does not know are ignored.
    ///
    /// # Errors
    /// The bytes are no event, or one of another version.
    pub fn from_json(json: &[u8]) -> Result<Decoded, EventFormatError> {
        let Head { v, kind } = serde_json::from_slice(json)?;
        if v != EVENT_VERSION {
            return Err(EventFormatError::Version(v));
        }
        Ok(match kind.as_str() {
            MESSAGE => {
                let message: MessageJson<'_> = serde_json::from_slice(json)?;
                Decoded::Event(Self::Message(message.into()))
            }
            CHAT_CHANGED => {
                let changed: ChatChangedJson<'_> = serde_json::from_slice(json)?;
                Decoded::Event(Self::ChatChanged {
                    change: changed.change,
                    chat: Arc::new(changed.chat.into_owned()),
                    removed: changed.removed.into_owned(),
                    members_version: changed.members_version,
                })
            }
            _ => Decoded::Unknown { kind },
        })
    }
}

impl<'event> From<&'event Stored> for MessageJson<'event> {
    fn from(stored: &'event Stored) -> Self {
        let message = &*stored.message;
        Self {
            v: EVENT_VERSION,
            kind: MESSAGE.into(),
            chat_id: message.chat_id,
            sequence: message.sequence,
            message_id: message.message_id,
            sender_id: Cow::Borrowed(&message.sender_id),
            client_message_id: Cow::Borrowed(&message.client_message_id),
            content: message.content.as_str().into(),
            content_type: message.content_type.as_str().into(),
            created_at: message.created_at,
            deleted: message.deleted,
            members_version: stored.members_version,
            origin: stored.origin,
            committed_at: stored.committed_at,
        }
    }
}

impl From<MessageJson<'_>> for Stored {
    fn from(json: MessageJson<'_>) -> Self {
        let message = Message {
            chat_id: json.chat_id,
            sequence: json.sequence,
            message_id: json.message_id,
            sender_id: json.sender_id.into_owned(),
            client_message_id: json.client_message_id.into_owned(),
            content: json.content.into_owned(),
            content_type: json.content_type.into_owned(),
            created_at: json.created_at,
            deleted: json.deleted,
        };
        Self {
            message: Arc::new(message),
            members_version: json.members_version,
            origin: json.origin,
            committed_at: json.committed_at,
        }
    }
}
