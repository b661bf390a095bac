//! The frames that a client may send.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{ChatId, ClientMessageId, DeviceId, RequestId, UserId};

/// A frame from a client. On the wire it is a flat JSON object whose `type` is the variant's name.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ClientFrame {
    /// The answer to `auth_challenge`. The server answers with `connection_established`, or with
    /// `connection_closing` if the token is invalid. A second `authenticate` gets `CONFLICT`.
    Authenticate(Authenticate),
    /// A newer token for the same user and device, answered by `token_refreshed`. If the server
    /// rejects it, the old token stays valid.
    RefreshToken(RefreshToken),
    /// A sign of life, answered at once by `heartbeat_ack`.
    Heartbeat(Heartbeat),
    /// A message for a chat, answered by `message_ack` once it is stored. All other connections of
    /// the sender and of every member receive it as `message`; the sending connection receives only
    /// the ack.
    SendMessage(SendMessage),
    /// The highest sequence of a chat up to which the user has received every message; not
    /// answered. The server keeps the highest value of all devices of the user. A value above the
    /// chat's newest sequence counts as the newest sequence.
    Ack(Ack),
    /// A page of a chat's messages after a sequence, answered by `sync_response`.
    SyncRequest(SyncRequest),
    /// A list of the user's chats with their newest sequences, answered by `sync_manifest` in pages
    /// of [`crate::limits::MANIFEST_PAGE_CHATS`] chats.
    SyncManifest(SyncManifestRequest),
    /// Subscribes to the presence of users, answered by `presence_snapshot`; `presence_changed`
    /// follows with every change. Subscriptions end with their connection.
    PresenceSubscribe(PresenceUsers),
    /// Unsubscribes from the presence of users, answered by a `presence_snapshot` without users.
    PresenceUnsubscribe(PresenceUsers),
    /// The user started or stopped typing; not answered. Frames over the rate are not rejected: the
    /// server delivers the latest one when the rate allows.
    Typing(Typing),
}

impl ClientFrame {
    /// The id of the request, if this frame is one that is answered.
    pub fn request_id(&self) -> Option<&RequestId> {
        match self {
            Self::RefreshToken(frame) => Some(&frame.request_id),
            Self::SendMessage(frame) => Some(&frame.request_id),
            Self::SyncRequest(frame) => Some(&frame.request_id),
            Self::SyncManifest(frame) => Some(&frame.request_id),
            Self::PresenceSubscribe(frame) | Self::PresenceUnsubscribe(frame) => {
                Some(&frame.request_id)
            }
            Self::Authenticate(_) | Self::Heartbeat(_) | Self::Ack(_) | Self::Typing(_) => None,
        }
    }
}

/// A JWT. Its `Debug` form shows only its length, so that no log contains it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(pub String);

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Token({} bytes)", self.0.len())
    }
}

/// See [`ClientFrame::Authenticate`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Authenticate {
    /// The token to check.
    pub token: Token,
    /// The device, if neither the token nor the upgrade request named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_id: Option<DeviceId>,
}

/// See [`ClientFrame::RefreshToken`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RefreshToken {
    /// Echoed by `token_refreshed`.
    pub request_id: RequestId,
    /// The token to check.
    pub token: Token,
}

/// See [`ClientFrame::Heartbeat`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat {}

/// See [`ClientFrame::SendMessage`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SendMessage {
    /// Echoed by the answer.
    pub request_id: RequestId,
    /// The chat that receives the message.
    pub chat_id: ChatId,
    /// The message's id, chosen by the sender and the same in every retry, so that the message is
    /// stored once.
    pub client_message_id: ClientMessageId,
    /// The content: 1 to [`crate::limits::CONTENT_BYTES_MAX`] bytes of UTF-8.
    pub content: String,
    /// The type of the content, for the application: 1 to
    /// [`crate::limits::CONTENT_TYPE_BYTES_MAX`] bytes; `text/plain` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

/// See [`ClientFrame::Ack`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ack {
    /// The chat.
    pub chat_id: ChatId,
    /// The user has received every message up to and including this sequence.
    pub last_acked_sequence: u64,
}

/// See [`ClientFrame::SyncRequest`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SyncRequest {
    /// Echoed by the answer.
    pub request_id: RequestId,
    /// The chat.
    pub chat_id: ChatId,
    /// The page begins after this sequence; 0 begins with the first message.
    pub after_sequence: u64,
    /// The largest number of messages in the page: [`crate::limits::SYNC_PAGE_MESSAGES`] by
    /// default, and never more than [`crate::limits::SYNC_PAGE_MESSAGES_MAX`] messages or
    /// [`crate::limits::SYNC_PAGE_BYTES_MAX`] bytes of content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// See [`ClientFrame::SyncManifest`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SyncManifestRequest {
    /// Echoed by the answer.
    pub request_id: RequestId,
    /// The `next_page` of the previous page; absent for the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
}

/// See [`ClientFrame::PresenceSubscribe`] and [`ClientFrame::PresenceUnsubscribe`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PresenceUsers {
    /// Echoed by the answer.
    pub request_id: RequestId,
    /// The users: 1 to [`crate::limits::PRESENCE_USERS_PER_FRAME_MAX`] per frame, and at most
    /// [`crate::limits::PRESENCE_USERS_PER_CONNECTION_MAX`] per connection.
    pub user_ids: Vec<UserId>,
}

/// See [`ClientFrame::Typing`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Typing {
    /// The chat.
    pub chat_id: ChatId,
    /// Whether the user is typing.
    pub is_typing: bool,
}
