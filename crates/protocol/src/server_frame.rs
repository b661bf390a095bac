//! The frames that the server may send.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::close::CloseReason;
use crate::error_code::ErrorCode;
use crate::ids::{
    ChatId, ClientMessageId, ConnectionId, DeviceId, MessageId, NodeId, RequestId, UserId,
};
use crate::limits::ClientLimits;
use crate::timestamp::Timestamp;

/// A frame from the server. On the wire it is a flat JSON object with the variant's name as its
/// `type` and a `timestamp` as its last field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ServerFrame {
    /// The upgrade request had no token: send `authenticate` within the timeout.
    AuthChallenge {
        /// Always 401.
        code: u16,
        /// The time within which `authenticate` must arrive.
        timeout_ms: u64,
    },
    /// The connection is authenticated and registered: the server now accepts requests and pushes
    /// frames.
    ConnectionEstablished(Box<ConnectionEstablished>),
    /// The answer to `heartbeat`.
    HeartbeatAck {
        /// The server's clock.
        server_time: Timestamp,
    },
    /// The message is stored and announced: the answer to `send_message`. Acks may overtake pushes.
    MessageAck(MessageAck),
    /// A message of a chat that the user is a member of.
    Message(Message),
    /// A page of a chat's messages: the answer to `sync_request`.
    SyncResponse {
        /// The request.
        request_id: RequestId,
        /// The chat.
        chat_id: ChatId,
        /// The messages in ascending order of sequence. The server no longer has messages whose
        /// sequences are missing.
        messages: Vec<Message>,
        /// Whether more messages follow the last one of this page.
        has_more: bool,
        /// The chat's newest sequence.
        head_sequence: u64,
    },
    /// A page of the user's chats: the answer to `sync_manifest`.
    SyncManifest {
        /// The request.
        request_id: RequestId,
        /// The chats.
        chats: Vec<ManifestChat>,
        /// The `page` of the next request; absent on the last page.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next_page: Option<String>,
    },
    /// A chat was created or renamed, or its members changed.
    ChatChanged {
        /// The chat.
        chat_id: ChatId,
        /// The kind of change.
        change: ChatChange,
        /// The chat after the change; absent if the receiving user is no longer a member.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chat: Option<Chat>,
    },
    /// The answer to `presence_subscribe` with the presence of its users, or to
    /// `presence_unsubscribe` with none.
    PresenceSnapshot {
        /// The request.
        request_id: RequestId,
        /// The presence of each user of the request.
        users: Vec<Presence>,
    },
    /// The presence of a subscribed user, or the permission to see it, changed.
    PresenceChanged(Presence),
    /// A user started or stopped typing. A client treats the user as no longer typing after 10 s
    /// without another indicator.
    TypingIndicator {
        /// The chat.
        chat_id: ChatId,
        /// The user.
        user_id: UserId,
        /// Whether the user is typing.
        is_typing: bool,
    },
    /// A push from the application's own back end.
    Event {
        /// The name of the event, chosen by the application.
        name: String,
        /// The application's data.
        data: Value,
    },
    /// The client may have missed frames: wait `delay_ms`, then request the manifest.
    ResyncRequired {
        /// The reason, for logs: `delivery_gap`, `lease_lost`, `link_gap` or `undelivered`. The
        /// client does the same for each.
        reason: String,
        /// The chats concerned; absent means all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chat_ids: Option<Vec<ChatId>>,
        /// The delay before the request, different for every connection.
        delay_ms: u64,
    },
    /// The token expired: send `refresh_token` within the grace period. Until then pushes and
    /// heartbeats continue, and requests get `UNAUTHORIZED`.
    TokenExpired {
        /// The time after which the server closes the connection.
        grace_period_seconds: u64,
    },
    /// The newer token is accepted: the answer to `refresh_token`.
    TokenRefreshed {
        /// The request.
        request_id: RequestId,
        /// The expiry of the newer token.
        expires_at: Timestamp,
    },
    /// An error. With a `request_id` the server rejected that request; without one the server
    /// rejected a frame, or warns.
    Error(ErrorFrame),
    /// The server closes the connection. Answers to pending requests precede this frame; the Close
    /// frame follows it.
    ConnectionClosing(ConnectionClosing),
    /// A type that this version does not know: clients ignore it.
    #[serde(other, skip_serializing)]
    Unknown,
}

/// See [`ServerFrame::ConnectionEstablished`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConnectionEstablished {
    /// This connection.
    pub connection_id: ConnectionId,
    /// The token's user.
    pub user_id: UserId,
    /// The device: the token's, the client's, or one that the server created.
    pub device_id: DeviceId,
    /// The node.
    pub server_id: NodeId,
    /// The interval at which to send `heartbeat`.
    pub heartbeat_interval_ms: u64,
    /// The time without any frame after which either side treats the connection as lost.
    pub heartbeat_timeout_ms: u64,
    /// The protocol's version.
    pub protocol_version: u32,
    /// The limits that a client can reach.
    pub limits: ClientLimits,
    /// The functions that do not work at the moment, for example `presence`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<Vec<String>>,
}

/// See [`ServerFrame::MessageAck`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessageAck {
    /// The request.
    pub request_id: RequestId,
    /// The chat.
    pub chat_id: ChatId,
    /// The id that the sender chose for the message.
    pub client_message_id: ClientMessageId,
    /// The id that the server gave the message.
    pub message_id: MessageId,
    /// The number of the message in the chat: 1, 2, 3 and so on.
    pub sequence: u64,
    /// When the message was stored.
    pub created_at: Timestamp,
    /// Whether an earlier attempt had stored the message.
    pub duplicate: bool,
}

/// A message of a chat, as pushed and as in a sync page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The chat.
    pub chat_id: ChatId,
    /// The number of the message in the chat: 1, 2, 3 and so on.
    pub sequence: u64,
    /// The id that the server gave the message.
    pub message_id: MessageId,
    /// The user who sent the message.
    pub sender_id: UserId,
    /// The id that the sender chose for the message.
    pub client_message_id: ClientMessageId,
    /// The content; empty if it was deleted.
    pub content: String,
    /// The type of the content, for the application.
    pub content_type: String,
    /// When the message was stored.
    pub created_at: Timestamp,
    /// Present and true if the content was deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
}

/// A chat in the manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ManifestChat {
    /// The chat.
    pub chat_id: ChatId,
    /// The newest sequence of the chat.
    pub head_sequence: u64,
    /// The highest sequence that the user has acknowledged, on any device.
    pub last_acked_sequence: u64,
}

/// The kind of a change to a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatChange {
    /// The chat was created.
    Created,
    /// The chat was renamed.
    Renamed,
    /// A member was added.
    MemberAdded,
    /// A member left or was removed.
    MemberRemoved,
    /// The role of a member changed.
    RoleChanged,
}

/// A chat in REST responses and in `chat_changed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chat {
    /// The chat.
    pub chat_id: ChatId,
    /// Direct or group.
    #[serde(rename = "type")]
    pub kind: ChatKind,
    /// The name of the chat, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The members of the chat.
    pub members: Vec<ChatMember>,
    /// The newest sequence of the chat.
    pub head_sequence: u64,
    /// When the chat was created.
    pub created_at: Timestamp,
}

/// The kind of a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatKind {
    /// The one chat between two users.
    Direct,
    /// A chat of up to 1,000 members.
    Group,
}

/// A member of a chat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatMember {
    /// The user.
    pub user_id: UserId,
    /// The member's role.
    pub role: Role,
}

/// The role of a member, which decides what the member may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// May do everything; can leave only after making another member owner.
    Owner,
    /// May rename the chat, and add and remove members.
    Admin,
    /// May read and send messages.
    Member,
}

/// The presence of a user, as the receiving user may see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Presence {
    /// The user.
    pub user_id: UserId,
    /// Online, offline or unknown.
    pub status: PresenceStatus,
    /// When the user was last online; only with `offline`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<Timestamp>,
    /// Present and true if the server cannot determine the status at the moment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
    /// The version of the status. A client drops a status whose version is not higher than the
    /// version that it has. Absent with `unknown`: a client always accepts an `unknown`, and the
    /// next status after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

/// The three states of presence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PresenceStatus {
    /// The user has at least one connection.
    Online,
    /// The user has no connection.
    Offline,
    /// The status is not known, or the receiving user may not see it.
    Unknown,
}

/// See [`ServerFrame::Error`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorFrame {
    /// The request that was rejected; absent for warnings and for frames without a `request_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
    /// The error code.
    pub code: ErrorCode,
    /// The error as a sentence for people; may change.
    pub message: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// The delay before a retry; if absent, the client's own growing delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
    /// Further details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<ErrorDetails>,
}

impl ErrorFrame {
    /// An error with a code and a message only.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            request_id: None,
            code,
            message: message.into(),
            retryable: code.retryable(),
            retry_after_seconds: None,
            details: None,
        }
    }
}

/// Further details of an error.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorDetails {
    /// Whether this attempt may have stored the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The time that the client has to recover; with `SLOW_CONSUMER`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<u64>,
    /// A more specific reason: `unknown_type` for a frame of a type that the server does not know,
    /// `too_many_subscriptions` for too many presence subscriptions; others over REST.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The invalid field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

/// Whether a failed attempt may have stored the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// This attempt stored nothing.
    Rejected,
    /// This attempt may have stored the message: keep it pending and retry with the same id.
    Unknown,
}

/// See [`ServerFrame::ConnectionClosing`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConnectionClosing {
    /// The reason, which decides the client's next step.
    pub reason: CloseReason,
    /// False if reconnecting with the same token and device cannot succeed.
    pub reconnect_allowed: bool,
    /// The delay before a reconnect, different for every connection. Takes precedence over the
    /// client's own delay.
    pub reconnect_delay_ms: u64,
    /// The first sequence that was not written, per chat, for at most
    /// [`crate::limits::SYNC_HINTS_MAX`] chats. Only a hint: servers may omit it, and the manifest
    /// has the same for every chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_hints: Option<BTreeMap<ChatId, u64>>,
}
