//! What the server may say.

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
/// `type` and, last, a `timestamp`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ServerFrame {
    /// The socket came without a token: send `authenticate` within the timeout.
    AuthChallenge {
        /// Always 401.
        code: u16,
        /// How long there is to answer.
        timeout_ms: u64,
    },
    /// The connection is admitted and leased: from here on requests are taken and pushes arrive.
    ConnectionEstablished(Box<ConnectionEstablished>),
    /// The answer to `heartbeat`.
    HeartbeatAck {
        /// The server's clock.
        server_time: Timestamp,
    },
    /// The message is stored and on its way: the answer to `send_message`. Acks may overtake
    /// pushes.
    MessageAck(MessageAck),
    /// A message of a chat that the user is a member of.
    Message(Message),
    /// A page of a chat's messages: the answer to `sync_request`.
    SyncResponse {
        /// The request.
        request_id: RequestId,
        /// The chat.
        chat_id: ChatId,
        /// In ascending order. Numbers that a page leaves out are no longer kept.
        messages: Vec<Message>,
        /// Whether there is another page, after the last message of this one.
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
        /// The `page` to ask for next; absent on the last one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next_page: Option<String>,
    },
    /// A chat was made, renamed, or its members changed.
    ChatChanged {
        /// The chat.
        chat_id: ChatId,
        /// What happened.
        change: ChatChange,
        /// The chat as it is now; absent when the receiver is no longer a member.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chat: Option<Chat>,
    },
    /// The presence of the users of a `presence_subscribe`, or none after a
    /// `presence_unsubscribe`.
    PresenceSnapshot {
        /// The request.
        request_id: RequestId,
        /// Those whom the request asked for.
        users: Vec<Presence>,
    },
    /// A watched user came or went, or may be seen no longer.
    PresenceChanged(Presence),
    /// Somebody is typing. Clients forget it after 10 s, should its end never be told.
    TypingIndicator {
        /// In which chat.
        chat_id: ChatId,
        /// Who.
        user_id: UserId,
        /// Whether they are typing.
        is_typing: bool,
    },
    /// A push from the application's own back end.
    Event {
        /// The application's name for it.
        name: String,
        /// The application's data.
        data: Value,
    },
    /// Something may have been missed: wait `delay_ms`, then ask for the manifest.
    ResyncRequired {
        /// Why, for logs: `delivery_gap`, `lease_lost`, `link_gap` or `undelivered`. Whichever it
        /// is, the client does the same.
        reason: String,
        /// Which chats; absent means all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chat_ids: Option<Vec<ChatId>>,
        /// How long to wait first, different for every connection.
        delay_ms: u64,
    },
    /// The token ran out: send `refresh_token` within the grace. Until then pushes and heartbeats
    /// go on, and requests get `UNAUTHORIZED`.
    TokenExpired {
        /// How long the connection stays open.
        grace_period_seconds: u64,
    },
    /// The newer token is in force: the answer to `refresh_token`.
    TokenRefreshed {
        /// The request.
        request_id: RequestId,
        /// When the newer token ends.
        expires_at: Timestamp,
    },
    /// A request was refused, or, without a `request_id`, a frame or a warning.
    Error(ErrorFrame),
    /// The connection is about to end; answers to what is in flight come before it, the Close frame
    /// after it.
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
    /// The device in force: the token's, the client's, or one that the server made.
    pub device_id: DeviceId,
    /// The node.
    pub server_id: NodeId,
    /// How often to send `heartbeat`.
    pub heartbeat_interval_ms: u64,
    /// How long silence is borne, on either side.
    pub heartbeat_timeout_ms: u64,
    /// The protocol's version.
    pub protocol_version: u32,
    /// Every limit that a client can run into.
    pub limits: ClientLimits,
    /// What does not work at the moment, for example `presence`.
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
    /// The sender's own name for the message.
    pub client_message_id: ClientMessageId,
    /// The server's name for it.
    pub message_id: MessageId,
    /// Its number in the chat: 1, 2, 3 and so on.
    pub sequence: u64,
    /// When it was stored.
    pub created_at: Timestamp,
    /// Whether an earlier attempt had stored it.
    pub duplicate: bool,
}

/// A message of a chat, as pushed and as in a sync page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The chat.
    pub chat_id: ChatId,
    /// Its number in the chat: 1, 2, 3 and so on.
    pub sequence: u64,
    /// The server's name for it.
    pub message_id: MessageId,
    /// Who sent it.
    pub sender_id: UserId,
    /// The sender's own name for it.
    pub client_message_id: ClientMessageId,
    /// What is said; empty when it was deleted.
    pub content: String,
    /// What kind of content it is, for the application.
    pub content_type: String,
    /// When it was stored.
    pub created_at: Timestamp,
    /// Present and true when the content was deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
}

/// A chat in the manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ManifestChat {
    /// The chat.
    pub chat_id: ChatId,
    /// Its newest sequence.
    pub head_sequence: u64,
    /// How far the user has acknowledged it, on any device.
    pub last_acked_sequence: u64,
}

/// What happened to a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatChange {
    /// It was made.
    Created,
    /// It has another name.
    Renamed,
    /// Somebody came.
    MemberAdded,
    /// Somebody went.
    MemberRemoved,
    /// Somebody has another role.
    RoleChanged,
}

/// A chat as REST and `chat_changed` show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chat {
    /// The chat.
    pub chat_id: ChatId,
    /// Between two, or for many.
    #[serde(rename = "type")]
    pub kind: ChatKind,
    /// Its name, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Who belongs to it.
    pub members: Vec<ChatMember>,
    /// Its newest sequence.
    pub head_sequence: u64,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Whether a chat is between two or for many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatKind {
    /// The one chat of a pair.
    Direct,
    /// A chat of up to 1,000.
    Group,
}

/// One who belongs to a chat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatMember {
    /// Who.
    pub user_id: UserId,
    /// What they may do.
    pub role: Role,
}

/// What a member may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Everything; leaves only after making another one owner.
    Owner,
    /// Rename and manage members.
    Admin,
    /// Read and write.
    Member,
}

/// Whether a user is online, to one who may know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Presence {
    /// Who.
    pub user_id: UserId,
    /// Online, offline, or not to be told.
    pub status: PresenceStatus,
    /// When they were last online; only with `offline`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<Timestamp>,
    /// Present and true when the server itself cannot tell at the moment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
    /// Receivers drop what is not newer than what they have; absent with `unknown`, which is always
    /// taken, as is whatever follows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

/// The three states of presence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PresenceStatus {
    /// At least one live connection.
    Online,
    /// None.
    Offline,
    /// Not known, or not for this observer to know.
    Unknown,
}

/// See [`ServerFrame::Error`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorFrame {
    /// The request that was refused; absent for warnings and for frames without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
    /// What went wrong.
    pub code: ErrorCode,
    /// The same in words for a person, which may change.
    pub message: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// How long to wait before trying again; without it the client's own growing pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<ErrorDetails>,
}

impl ErrorFrame {
    /// A refusal with nothing but its code and a sentence.
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

/// More about an error.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorDetails {
    /// Whether this attempt may have stored something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// How long there is to recover; with `SLOW_CONSUMER`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<u64>,
    /// A finer reason: `unknown_type` for a frame of a type that the server does not know,
    /// `too_many_subscriptions` for a watch too many; others over REST.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The field that was wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

/// Whether a refused attempt may have stored something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It stored nothing.
    Rejected,
    /// It may have: keep the message pending, with its id.
    Unknown,
}

/// See [`ServerFrame::ConnectionClosing`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConnectionClosing {
    /// Why, and by that what to do.
    pub reason: CloseReason,
    /// False where coming back with what the client has now cannot help.
    pub reconnect_allowed: bool,
    /// How long to wait before coming back, different for every connection. It counts before the
    /// client's own pause.
    pub reconnect_delay_ms: u64,
    /// The first sequence that was not written, per chat, for at most
    /// [`crate::limits::SYNC_HINTS_MAX`] chats. A hint and no more: servers may leave it out, and the
    /// manifest says the same for every chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_hints: Option<BTreeMap<ChatId, u64>>,
}
