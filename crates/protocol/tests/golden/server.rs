//! One or more samples of every frame that the server may send.
//!
//! Structs are written out whole, so a new field does not compile until it has a sample.

use std::collections::BTreeMap;

use heartline_protocol::limits::ClientLimits;
use heartline_protocol::server_frame::{
    Chat, ChatChange, ChatKind, ChatMember, ConnectionClosing, ConnectionEstablished, ErrorDetails,
    ErrorFrame, ManifestChat, Message, MessageAck, Presence, PresenceStatus, Role,
};
use heartline_protocol::{
    ChatId, CloseReason, ConnectionId, ErrorCode, MessageId, Outcome, PROTOCOL_VERSION,
    ServerFrame, Timestamp,
};
use serde_json::json;
use ulid::Ulid;

use crate::client::{CHAT, request_id, user};
use crate::frame_kinds;

frame_kinds! { ServerFrame:
    AuthChallenge = "auth_challenge",
    ConnectionEstablished = "connection_established",
    HeartbeatAck = "heartbeat_ack",
    MessageAck = "message_ack",
    Message = "message",
    SyncResponse = "sync_response",
    SyncManifest = "sync_manifest",
    ChatChanged = "chat_changed",
    PresenceSnapshot = "presence_snapshot",
    PresenceChanged = "presence_changed",
    TypingIndicator = "typing_indicator",
    Event = "event",
    ResyncRequired = "resync_required",
    TokenExpired = "token_expired",
    TokenRefreshed = "token_refreshed",
    Error = "error",
    ConnectionClosing = "connection_closing",
    Unknown = "unknown",
}

/// When all samples were sent.
pub(crate) const NOW: Timestamp = Timestamp { unix_ms: 1_700_000_000_007 };
const EARLIER: Timestamp = Timestamp { unix_ms: 1_699_999_999_000 };
const OTHER_CHAT: ChatId = ChatId(Ulid(0x018b_cfe5_6800_0000_0000_0000_0000_0002));
const MESSAGE: MessageId = MessageId(Ulid(0x018b_cfe5_6bef_0000_0000_0000_0000_0003));

type Samples = Vec<(&'static str, ServerFrame)>;

/// Every frame, with all optional fields and with none.
pub(crate) fn samples() -> Samples {
    [
        connection_samples(),
        message_samples(),
        chat_samples(),
        presence_samples(),
        push_samples(),
        error_samples(),
        closing_samples(),
    ]
    .concat()
}

/// Frames of later versions, which clients ignore.
pub(crate) fn ignored() -> Vec<(&'static str, &'static str)> {
    vec![
        (
            "a type of a later version",
            r#"{"type":"weather_changed","sky":["blue"],"timestamp":"2023-11-14T22:13:20.007Z"}"#,
        ),
        ("a type of a later version without anything else", r#"{"type":"a"}"#),
    ]
}

fn connection_samples() -> Samples {
    let established = |degraded: Option<&[&str]>| {
        ServerFrame::ConnectionEstablished(Box::new(ConnectionEstablished {
            connection_id: ConnectionId { ulid: MESSAGE.0, shard: 17 },
            user_id: user("ana"),
            device_id: "phone-1".parse().unwrap(),
            server_id: "node-1-x7f3".parse().unwrap(),
            heartbeat_interval_ms: 5000,
            heartbeat_timeout_ms: 10_000,
            protocol_version: PROTOCOL_VERSION,
            limits: ClientLimits::default(),
            degraded: degraded.map(|parts| parts.iter().map(ToString::to_string).collect()),
        }))
    };
    let refreshed =
        ServerFrame::TokenRefreshed { request_id: request_id("refresh-1"), expires_at: NOW };
    vec![
        ("auth_challenge", ServerFrame::AuthChallenge { code: 401, timeout_ms: 10_000 }),
        ("connection_established while degraded", established(Some(&["presence"]))),
        ("connection_established", established(None)),
        ("heartbeat_ack", ServerFrame::HeartbeatAck { server_time: NOW }),
        ("token_expired", ServerFrame::TokenExpired { grace_period_seconds: 30 }),
        ("token_refreshed", refreshed),
    ]
}

fn message(sequence: u64, content: &str, deleted: bool) -> Message {
    Message {
        chat_id: CHAT,
        sequence,
        message_id: MESSAGE,
        sender_id: user("ana"),
        client_message_id: "draft:2023-11-14|1".parse().unwrap(),
        content: content.to_owned(),
        content_type: "text/plain".to_owned(),
        created_at: EARLIER,
        deleted,
    }
}

fn message_samples() -> Samples {
    let ack = |duplicate| {
        ServerFrame::MessageAck(MessageAck {
            request_id: request_id("send-1"),
            chat_id: CHAT,
            client_message_id: "draft:2023-11-14|1".parse().unwrap(),
            message_id: MESSAGE,
            sequence: 42,
            created_at: EARLIER,
            duplicate,
        })
    };
    let page = |messages, has_more, head_sequence| ServerFrame::SyncResponse {
        request_id: request_id("sync-1"),
        chat_id: CHAT,
        messages,
        has_more,
        head_sequence,
    };
    let messages = vec![message(41, "", true), message(42, "Grüße, 世界 👋🏽", false)];
    vec![
        ("message_ack", ack(false)),
        ("message_ack of a retry", ack(true)),
        ("message", ServerFrame::Message(message(42, "Hello", false))),
        ("message whose content was deleted", ServerFrame::Message(message(41, "", true))),
        ("sync_response", page(messages, true, 100)),
        ("sync_response without messages", page(Vec::new(), false, 42)),
    ]
}

fn chat_samples() -> Samples {
    let manifest_chat = ManifestChat { chat_id: CHAT, head_sequence: 42, last_acked_sequence: 40 };
    let manifest = |chats, next_page: Option<&str>| ServerFrame::SyncManifest {
        request_id: request_id("manifest-1"),
        chats,
        next_page: next_page.map(str::to_owned),
    };
    let member = |name: &str, role| ChatMember { user_id: user(name), role };
    let group = Chat {
        chat_id: CHAT,
        kind: ChatKind::Group,
        name: Some("Friday".to_owned()),
        members: vec![
            member("ana", Role::Owner),
            member("bo", Role::Admin),
            member("cy", Role::Member),
        ],
        head_sequence: 42,
        created_at: EARLIER,
    };
    let direct = Chat {
        chat_id: CHAT,
        kind: ChatKind::Direct,
        name: None,
        members: vec![member("ana", Role::Member), member("bo", Role::Member)],
        head_sequence: 0,
        created_at: EARLIER,
    };
    let changed = |change, chat: Option<&Chat>| ServerFrame::ChatChanged {
        chat_id: CHAT,
        change,
        chat: chat.cloned(),
    };
    vec![
        ("sync_manifest", manifest(vec![manifest_chat], Some("chat-200"))),
        ("sync_manifest of the last page", manifest(Vec::new(), None)),
        ("chat_changed: created, direct", changed(ChatChange::Created, Some(&direct))),
        ("chat_changed: renamed", changed(ChatChange::Renamed, Some(&group))),
        ("chat_changed: member_added", changed(ChatChange::MemberAdded, Some(&group))),
        ("chat_changed: role_changed", changed(ChatChange::RoleChanged, Some(&group))),
        ("chat_changed: member_removed, to the removed", changed(ChatChange::MemberRemoved, None)),
    ]
}

fn presence_samples() -> Samples {
    let presence = |status, last_seen, stale, version| Presence {
        user_id: user("bo"),
        status,
        last_seen,
        stale,
        version,
    };
    let online = presence(PresenceStatus::Online, None, false, Some(1_700_000_000_000));
    let offline = presence(PresenceStatus::Offline, Some(EARLIER), false, Some(1_700_000_000_001));
    let hidden = presence(PresenceStatus::Unknown, None, false, None);
    let stale = presence(PresenceStatus::Unknown, None, true, None);
    let snapshot = |users: &[&Presence]| ServerFrame::PresenceSnapshot {
        request_id: request_id("watch-1"),
        users: users.iter().copied().cloned().collect(),
    };
    vec![
        ("presence_snapshot", snapshot(&[&online, &offline, &hidden, &stale])),
        ("presence_snapshot of nobody", snapshot(&[])),
        ("presence_changed: online", ServerFrame::PresenceChanged(online)),
        ("presence_changed: offline", ServerFrame::PresenceChanged(offline)),
        ("presence_changed: unknown", ServerFrame::PresenceChanged(hidden)),
        ("presence_changed: unknown and stale", ServerFrame::PresenceChanged(stale)),
    ]
}

fn push_samples() -> Samples {
    let typing =
        |is_typing| ServerFrame::TypingIndicator { chat_id: CHAT, user_id: user("bo"), is_typing };
    let event = |name: &str, data| ServerFrame::Event { name: name.to_owned(), data };
    let resync = |reason: &str, chat_ids, delay_ms| ServerFrame::ResyncRequired {
        reason: reason.to_owned(),
        chat_ids,
        delay_ms,
    };
    let order = json!({ "order": 17, "type": "paid", "items": [1, "two", null, true, 0.5] });
    vec![
        ("typing_indicator", typing(true)),
        ("typing_indicator no longer", typing(false)),
        ("event", event("order_changed", order)),
        ("event without data", event("ping", json!(null))),
        (
            "resync_required for some chats",
            resync("delivery_gap", Some(vec![CHAT, OTHER_CHAT]), 1500),
        ),
        ("resync_required for all chats", resync("lease_lost", None, 0)),
    ]
}

fn error_samples() -> Samples {
    let whole = ErrorFrame {
        request_id: Some(request_id("send-1")),
        code: ErrorCode::ServiceUnavailable,
        message: "the store did not answer in time".to_owned(),
        retryable: true,
        retry_after_seconds: Some(30),
        details: Some(ErrorDetails {
            outcome: Some(Outcome::Unknown),
            grace_period_seconds: Some(5),
            reason: Some("deadline".to_owned()),
            field: Some("content".to_owned()),
        }),
    };
    let details = ErrorDetails {
        outcome: Some(Outcome::Rejected),
        grace_period_seconds: None,
        reason: None,
        field: None,
    };
    let rejected = ErrorFrame { details: Some(details), ..whole.clone() };
    let bare = ErrorFrame::new(ErrorCode::InvalidMessage, "a frame must be a JSON object");
    let mut samples = vec![
        ("with all that an error can have", ServerFrame::Error(whole)),
        ("whose attempt stored nothing", ServerFrame::Error(rejected)),
        ("with the least that an error has", ServerFrame::Error(bare)),
    ];
    for code in ErrorCode::ALL {
        samples.push((code.as_str(), ServerFrame::Error(ErrorFrame::new(code, "why"))));
    }
    samples
}

fn closing_samples() -> Samples {
    let whole = ConnectionClosing {
        reason: CloseReason::SlowConsumer,
        reconnect_allowed: CloseReason::SlowConsumer.reconnect_allowed(),
        reconnect_delay_ms: 1250,
        sync_hints: Some(BTreeMap::from([(CHAT, 43), (OTHER_CHAT, 1)])),
    };
    let mut samples = vec![("slow_consumer with hints", ServerFrame::ConnectionClosing(whole))];
    for reason in CloseReason::ALL {
        let closing = ConnectionClosing {
            reason,
            reconnect_allowed: reason.reconnect_allowed(),
            reconnect_delay_ms: 0,
            sync_hints: None,
        };
        samples.push((reason.as_str(), ServerFrame::ConnectionClosing(closing)));
    }
    samples
}
