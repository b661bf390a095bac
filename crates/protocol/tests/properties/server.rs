//! Frames of the server.

use heartline_protocol::limits::ClientLimits;
use heartline_protocol::server_frame::{
    Chat, ChatChange, ChatKind, ChatMember, ConnectionClosing, ConnectionEstablished, ErrorDetails,
    ErrorFrame, ManifestChat, Message, MessageAck, Presence, PresenceStatus, Role,
};
use heartline_protocol::{
    CloseReason, ErrorCode, Outcome, ServerFrame, decode_server, encode_server,
};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value};

use crate::hostile::json_value;
use crate::{
    chat_id, client_message_id, connection_id, device_id, message_id, node_id, request_id, text,
    timestamp, user_id,
};

/// Any frame that the server may send.
fn server_frame() -> BoxedStrategy<ServerFrame> {
    prop_oneof![
        connection_frame(),
        message_frame(),
        chat_frame(),
        presence_frame(),
        push_frame(),
        error_frame(),
        closing_frame(),
    ]
    .boxed()
}

fn connection_frame() -> BoxedStrategy<ServerFrame> {
    let ids = (connection_id(), user_id(), device_id(), node_id());
    let numbers = (any::<u64>(), any::<u64>(), any::<u32>());
    prop_oneof![
        (any::<u16>(), any::<u64>())
            .prop_map(|(code, timeout_ms)| ServerFrame::AuthChallenge { code, timeout_ms }),
        (ids, numbers, limits(), option::of(vec(text(40), 0..3))).prop_map(
            |((connection_id, user_id, device_id, server_id), numbers, limits, degraded)| {
                ServerFrame::ConnectionEstablished(Box::new(ConnectionEstablished {
                    connection_id,
                    user_id,
                    device_id,
                    server_id,
                    heartbeat_interval_ms: numbers.0,
                    heartbeat_timeout_ms: numbers.1,
                    protocol_version: numbers.2,
                    limits,
                    degraded,
                }))
            }
        ),
        timestamp().prop_map(|server_time| ServerFrame::HeartbeatAck { server_time }),
        any::<u64>()
            .prop_map(|grace_period_seconds| ServerFrame::TokenExpired { grace_period_seconds }),
        (request_id(), timestamp()).prop_map(|(request_id, expires_at)| {
            ServerFrame::TokenRefreshed { request_id, expires_at }
        }),
    ]
    .boxed()
}

fn limits() -> impl Strategy<Value = ClientLimits> {
    (any::<u64>(), any::<u64>()).prop_map(|(frame_bytes, connections_per_user)| ClientLimits {
        frame_bytes,
        connections_per_user,
        ..ClientLimits::default()
    })
}

fn message() -> impl Strategy<Value = Message> {
    let ids = (chat_id(), message_id(), user_id(), client_message_id());
    (ids, any::<u64>(), text(200), text(40), timestamp(), any::<bool>()).prop_map(
        |(ids, sequence, content, content_type, created_at, deleted)| Message {
            chat_id: ids.0,
            sequence,
            message_id: ids.1,
            sender_id: ids.2,
            client_message_id: ids.3,
            content,
            content_type,
            created_at,
            deleted,
        },
    )
}

fn message_frame() -> BoxedStrategy<ServerFrame> {
    let page = (vec(message(), 0..4), any::<bool>(), any::<u64>());
    let ids = (request_id(), chat_id(), client_message_id(), message_id());
    prop_oneof![
        message().prop_map(ServerFrame::Message),
        (request_id(), chat_id(), page).prop_map(
            |(request_id, chat_id, (messages, has_more, head_sequence))| {
                ServerFrame::SyncResponse { request_id, chat_id, messages, has_more, head_sequence }
            }
        ),
        (ids, any::<u64>(), timestamp(), any::<bool>()).prop_map(
            |(ids, sequence, created_at, duplicate)| {
                ServerFrame::MessageAck(MessageAck {
                    request_id: ids.0,
                    chat_id: ids.1,
                    client_message_id: ids.2,
                    message_id: ids.3,
                    sequence,
                    created_at,
                    duplicate,
                })
            }
        ),
    ]
    .boxed()
}

fn chat() -> impl Strategy<Value = Chat> {
    let role = select(vec![Role::Owner, Role::Admin, Role::Member]);
    let member = (user_id(), role).prop_map(|(user_id, role)| ChatMember { user_id, role });
    let kind = select(vec![ChatKind::Direct, ChatKind::Group]);
    (chat_id(), kind, option::of(text(80)), vec(member, 0..4), any::<u64>(), timestamp()).prop_map(
        |(chat_id, kind, name, members, head_sequence, created_at)| Chat {
            chat_id,
            kind,
            name,
            members,
            head_sequence,
            created_at,
        },
    )
}

fn chat_changed() -> impl Strategy<Value = ServerFrame> {
    let change = select(vec![
        ChatChange::Created,
        ChatChange::Renamed,
        ChatChange::MemberAdded,
        ChatChange::MemberRemoved,
        ChatChange::RoleChanged,
    ]);
    (chat_id(), change, option::of(chat()))
        .prop_map(|(chat_id, change, chat)| ServerFrame::ChatChanged { chat_id, change, chat })
}

fn chat_frame() -> BoxedStrategy<ServerFrame> {
    let manifest_chat = (chat_id(), any::<u64>(), any::<u64>()).prop_map(
        |(chat_id, head_sequence, last_acked_sequence)| ManifestChat {
            chat_id,
            head_sequence,
            last_acked_sequence,
        },
    );
    prop_oneof![
        chat_changed(),
        (request_id(), vec(manifest_chat, 0..4), option::of(text(80))).prop_map(
            |(request_id, chats, next_page)| ServerFrame::SyncManifest {
                request_id,
                chats,
                next_page
            }
        ),
    ]
    .boxed()
}

fn presence() -> impl Strategy<Value = Presence> + Clone {
    let status =
        select(vec![PresenceStatus::Online, PresenceStatus::Offline, PresenceStatus::Unknown]);
    let version = option::of(any::<u64>());
    (user_id(), status, option::of(timestamp()), any::<bool>(), version).prop_map(
        |(user_id, status, last_seen, stale, version)| Presence {
            user_id,
            status,
            last_seen,
            stale,
            version,
        },
    )
}

fn presence_frame() -> BoxedStrategy<ServerFrame> {
    prop_oneof![
        presence().prop_map(ServerFrame::PresenceChanged),
        (request_id(), vec(presence(), 0..4))
            .prop_map(|(request_id, users)| ServerFrame::PresenceSnapshot { request_id, users }),
    ]
    .boxed()
}

fn push_frame() -> BoxedStrategy<ServerFrame> {
    prop_oneof![
        (chat_id(), user_id(), any::<bool>()).prop_map(|(chat_id, user_id, is_typing)| {
            ServerFrame::TypingIndicator { chat_id, user_id, is_typing }
        }),
        (text(80), json_value()).prop_map(|(name, data)| ServerFrame::Event { name, data }),
        (text(80), option::of(vec(chat_id(), 0..4)), any::<u64>()).prop_map(
            |(reason, chat_ids, delay_ms)| ServerFrame::ResyncRequired {
                reason,
                chat_ids,
                delay_ms
            }
        ),
    ]
    .boxed()
}

fn error_frame() -> BoxedStrategy<ServerFrame> {
    let outcome = option::of(select(vec![Outcome::Rejected, Outcome::Unknown]));
    let details = (outcome, option::of(any::<u64>()), option::of(text(40)), option::of(text(40)))
        .prop_map(|(outcome, grace_period_seconds, reason, field)| ErrorDetails {
            outcome,
            grace_period_seconds,
            reason,
            field,
        });
    let code = select(ErrorCode::ALL.to_vec());
    let retry = (any::<bool>(), option::of(any::<u64>()));
    (option::of(request_id()), code, text(80), retry, option::of(details))
        .prop_map(|(request_id, code, message, (retryable, retry_after_seconds), details)| {
            ServerFrame::Error(ErrorFrame {
                request_id,
                code,
                message,
                retryable,
                retry_after_seconds,
                details,
            })
        })
        .boxed()
}

fn closing_frame() -> BoxedStrategy<ServerFrame> {
    let hints = option::of(btree_map(chat_id(), any::<u64>(), 0..4));
    (select(CloseReason::ALL.to_vec()), any::<bool>(), any::<u64>(), hints)
        .prop_map(|(reason, reconnect_allowed, reconnect_delay_ms, sync_hints)| {
            ServerFrame::ConnectionClosing(ConnectionClosing {
                reason,
                reconnect_allowed,
                reconnect_delay_ms,
                sync_hints,
            })
        })
        .boxed()
}

proptest! {
    #[test]
    fn a_server_frame_decodes_to_itself(frame in server_frame(), at in timestamp()) {
        let text = encode_server(&frame, at);
        prop_assert_eq!(decode_server(&text).unwrap(), frame);
        let suffix = format!(",\"timestamp\":\"{at}\"}}");
        prop_assert!(text.ends_with(&suffix), "{text}");
    }

    #[test]
    fn a_chat_inside_a_frame_keeps_its_own_type(
        frame in chat_changed(),
        at in timestamp(),
    ) {
        let text = encode_server(&frame, at);
        let object: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&object["type"], "chat_changed");
        let has_chat = matches!(&frame, ServerFrame::ChatChanged { chat: Some(_), .. });
        prop_assert_eq!(object["chat"]["type"].is_string(), has_chat);
        prop_assert_eq!(decode_server(&text).unwrap(), frame);
    }

    #[test]
    fn fields_of_a_later_version_are_ignored(
        frame in server_frame(),
        at in timestamp(),
        extra in vec((text(40), json_value()), 0..4),
    ) {
        let mut object: Map<String, Value> =
            serde_json::from_str(&encode_server(&frame, at)).unwrap();
        for (key, value) in extra {
            object.insert(format!("x-{key}"), value);
        }
        let text = Value::from(object).to_string();
        prop_assert_eq!(decode_server(&text).unwrap(), frame);
    }
}
