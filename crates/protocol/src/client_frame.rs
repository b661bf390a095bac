//! What a client may say.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{ChatId, ClientMessageId, DeviceId, RequestId, UserId};

/// A frame from a client. On the wire it is a flat JSON object whose `type` is the variant's name.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ClientFrame {
    /// The answer to `auth_challenge`.
    Authenticate(Authenticate),
    /// A newer token for the same user and device.
    RefreshToken(RefreshToken),
    /// "I am alive", answered by `heartbeat_ack`.
    Heartbeat(Heartbeat),
    /// A message for a chat, answered by `message_ack` once it is stored.
    SendMessage(SendMessage),
    /// How far this user has read; never answered.
    Ack(Ack),
    /// A page of a chat's messages after a sequence.
    SyncRequest(SyncRequest),
    /// Every chat of the user with its head.
    SyncManifest(SyncManifestRequest),
    /// Watch the presence of users.
    PresenceSubscribe(PresenceUsers),
    /// Watch them no longer.
    PresenceUnsubscribe(PresenceUsers),
    /// The user is, or is no longer, typing.
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
    /// The device, unless the token binds one.
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
    /// Where to.
    pub chat_id: ChatId,
    /// The same in every retry of this message.
    pub client_message_id: ClientMessageId,
    /// What is said: 1 to 4096 bytes.
    pub content: String,
    /// What kind of content it is, for the application.
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
    /// The page begins after this number.
    pub after_sequence: u64,
    /// How many messages at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// See [`ClientFrame::SyncManifest`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SyncManifestRequest {
    /// Echoed by the answer.
    pub request_id: RequestId,
    /// The `next_page` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
}

/// See [`ClientFrame::PresenceSubscribe`] and [`ClientFrame::PresenceUnsubscribe`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PresenceUsers {
    /// Echoed by the answer.
    pub request_id: RequestId,
    /// Whom.
    pub user_ids: Vec<UserId>,
}

/// See [`ClientFrame::Typing`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Typing {
    /// Where.
    pub chat_id: ChatId,
    /// Whether the user is typing.
    pub is_typing: bool,
}
