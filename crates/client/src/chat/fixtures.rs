//! Values for the tests of the chat rules.

use heartline_protocol::server_frame::{
    ConnectionEstablished, ErrorDetails, ManifestChat, Message, MessageAck,
};
use heartline_protocol::{
    ChatId, ClientMessageId, ConnectionId, ErrorCode, ErrorFrame, MessageId, Outcome, RequestId,
    ServerFrame, Timestamp,
};
use ulid::Ulid;

use crate::back_off::{BackOff, BackOffConfig};
use crate::chat::draft::Draft;
use crate::event::{ClientEvent, Ending, Loss};

pub(crate) const CHAT: ChatId = ChatId(Ulid(1));
pub(crate) const OTHER: ChatId = ChatId(Ulid(2));

pub(crate) fn back_off() -> BackOff {
    BackOff::new(BackOffConfig::default(), 1)
}

pub(crate) fn draft(chat_id: ChatId, name: &str) -> Draft {
    let client_message_id = name.parse().unwrap();
    Draft { chat_id, client_message_id, content: name.to_owned(), content_type: None }
}

/// A message of another user.
pub(crate) fn message(chat_id: ChatId, sequence: u64) -> Message {
    Message {
        chat_id,
        sequence,
        message_id: MessageId(Ulid(sequence.into())),
        sender_id: "bo".parse().unwrap(),
        client_message_id: format!("bo-{sequence}").parse().unwrap(),
        content: format!("number {sequence}"),
        content_type: "text/plain".to_owned(),
        created_at: Timestamp { unix_ms: sequence },
        deleted: false,
    }
}

pub(crate) fn ack(
    request_id: &RequestId,
    chat_id: ChatId,
    client_message_id: &ClientMessageId,
    sequence: u64,
) -> MessageAck {
    MessageAck {
        request_id: request_id.clone(),
        chat_id,
        client_message_id: client_message_id.clone(),
        message_id: MessageId(Ulid(sequence.into())),
        sequence,
        created_at: Timestamp { unix_ms: sequence },
        duplicate: false,
    }
}

pub(crate) fn error(request_id: &RequestId, code: ErrorCode) -> ErrorFrame {
    let mut error = ErrorFrame::new(code, "no");
    error.request_id = Some(request_id.clone());
    error
}

/// An error after which the message may or may not be stored.
pub(crate) fn outcome_unknown(request_id: &RequestId) -> ErrorFrame {
    let mut error = error(request_id, ErrorCode::ServiceUnavailable);
    let outcome = Some(Outcome::Unknown);
    error.details = Some(ErrorDetails { outcome, ..ErrorDetails::default() });
    error
}

pub(crate) fn manifest_chat(chat_id: ChatId, head_sequence: u64) -> ManifestChat {
    ManifestChat { chat_id, head_sequence, last_acked_sequence: head_sequence }
}

pub(crate) fn connected(number: u128) -> ClientEvent {
    ClientEvent::Connected(Box::new(ConnectionEstablished {
        connection_id: ConnectionId { ulid: Ulid(number), shard: 0 },
        user_id: "ana".parse().unwrap(),
        device_id: "phone".parse().unwrap(),
        server_id: "node-1".parse().unwrap(),
        heartbeat_interval_ms: 5_000,
        heartbeat_timeout_ms: 10_000,
        protocol_version: heartline_protocol::PROTOCOL_VERSION,
        limits: Default::default(),
        degraded: None,
    }))
}

pub(crate) fn disconnected() -> ClientEvent {
    ClientEvent::Disconnected { ending: Ending::Lost(Loss::Dropped), retry_in: None }
}

pub(crate) fn frame(frame: ServerFrame) -> ClientEvent {
    ClientEvent::Frame { frame: Box::new(frame), text: String::new() }
}
