//! What a client may say.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{ChatId, ClientMessageId, DeviceId, RequestId, UserId};

/// A frame from a client. On the wire it is a flat JSON object whose `type` is the variant's name.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ClientFrame {
    /// The answer to `auth_challenge`: answered by `connection_established`, or by
    /// `connection_closing` when the token is not good. Once is enough: a second one is a `CONFLICT`.
    Authenticate(Authenticate),
    /// A newer token for the same user and device, answered by `token_refreshed`. When it is
    /// refused, the old token stays in force.
    RefreshToken(RefreshToken),
    /// "I am alive", answered at once by `heartbeat_ack`.
    Heartbeat(Heartbeat),
    /// A message for a chat, answered by `message_ack` once it is stored. The other connections of
    /// the sender and of every member get it as `message`; the one that sent it gets the ack alone.
    SendMessage(SendMessage),
    /// How far this user has received a chat; never answered. The highest number counts, on
    /// whichever device, and one above the chat's newest is taken for the newest.
    Ack(Ack),
    /// A page of a chat's messages after a sequence, answered by `sync_response`.
    SyncRequest(SyncRequest),
    /// Every chat of the user with its newest sequence, answered by `sync_manifest` in pages of
    /// [`crate::limits::MANIFEST_PAGE_CHATS`] chats.
    SyncManifest(SyncManifestRequest),
    /// Watch the presence of users, answered by `presence_snapshot`; `presence_changed` follows
    /// with every change. Watches end with their connection.
    PresenceSubscribe(PresenceUsers),
    /// Watch them no longer, answered by a `presence_snapshot` without users.
    PresenceUnsubscribe(PresenceUsers),
    /// The user is, or is no longer, typing; never answered. Too many are not refused: the latest
    /// is passed on.
    Typing(Typing),
}

impl ClientFrame {
    /// The request that wants an answer, if this frame is one.
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

/// A JWT. Its `Debug` form hides it, so that no log can show it.
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
    /// The device, unless the token or the upgrade named one.
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
    /// To which chat.
    pub chat_id: ChatId,
    /// The sender's own name for the message, the same in every retry: it is stored once.
    pub client_message_id: ClientMessageId,
    /// What is said: 1 to [`crate::limits::CONTENT_BYTES_MAX`] bytes of UTF-8.
    pub content: String,
    /// What kind of content it is, for the application: 1 to
    /// [`crate::limits::CONTENT_TYPE_BYTES_MAX`] bytes, `text/plain` unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

/// See [`ClientFrame::Ack`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ack {
    /// The chat.
    pub chat_id: ChatId,
    /// Everything up to and including this number was received.
    pub last_acked_sequence: u64,
}

/// See [`ClientFrame::SyncRequest`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SyncRequest {
    /// Echoed by the answer.
    pub request_id: RequestId,
    /// The chat.
    pub chat_id: ChatId,
    /// The page begins after this number; 0 begins with the first message.
    pub after_sequence: u64,
    /// How many messages at most: [`crate::limits::SYNC_PAGE_MESSAGES`] unless said, and never more
    /// than [`crate::limits::SYNC_PAGE_MESSAGES_MAX`] or [`crate::limits::SYNC_PAGE_BYTES_MAX`] bytes
    /// of content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// See [`ClientFrame::SyncManifest`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SyncManifestRequest {
    /// Echoed by the answer.
    pub request_id: RequestId,
    /// The `next_page` of the page before; absent for the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
}

/// See [`ClientFrame::PresenceSubscribe`] and [`ClientFrame::PresenceUnsubscribe`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PresenceUsers {
    /// Echoed by the answer.
    pub request_id: RequestId,
    /// Whom: 1 to [`crate::limits::PRESENCE_USERS_PER_FRAME_MAX`] a frame, and at most
    /// [`crate::limits::PRESENCE_USERS_PER_CONNECTION_MAX`] a connection.
    pub user_ids: Vec<UserId>,
}

/// See [`ClientFrame::Typing`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Typing {
    /// In which chat.
    pub chat_id: ChatId,
    /// Whether the user is typing.
    pub is_typing: bool,
}
