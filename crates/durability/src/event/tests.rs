//! The examples of `docs/events.md`, and readers of other versions.

use std::path::Path;

use heartline_protocol::MessageId;
use heartline_protocol::server_frame::{ChatKind, ChatMember, Role};
use serde_json::Value;
use ulid::Ulid;

use super::*;

const CHAT: ChatId = ChatId(Ulid(0x0192_a5c0_1b3f_7c4e_8d21_0f6a_9b5e_3c70));

fn message() -> Stored {
    let message = Message {
        chat_id: CHAT,
        sequence: 42,
        message_id: MessageId(Ulid(0x0192_a5c0_2f00_1111_2222_3333_4444_5555)),
        sender_id: "ana".parse().unwrap(),
        client_message_id: "c-17".parse().unwrap(),
        content: "Tea at \"four\"?".to_owned(),
        content_type: "text/plain".to_owned(),
        created_at: Timestamp { unix_ms: 1_729_500_000_123 },
        deleted: false,
    };
    Stored {
        message: Arc::new(message),
        members_version: 3,
        origin: Some("conn_0J8MQ0000AN5NVPK6CVPEXVPQE_17".parse().unwrap()),
        committed_at: Some(Timestamp { unix_ms: 1_729_500_000_125 }),
    }
}

/// Every type of event, as the document shows it.
fn examples() -> Vec<Event> {
    let late = Stored { origin: None, committed_at: None, ..message() };
    let member = |name: &str, role| ChatMember { user_id: name.parse().unwrap(), role };
    let chat = Chat {
        chat_id: CHAT,
        kind: ChatKind::Group,
        name: Some("Tea".to_owned()),
        members: vec![member("ana", Role::Owner), member("cy", Role::Member)],
        head_sequence: 42,
        created_at: Timestamp { unix_ms: 1_729_400_000_000 },
    };
    let changed = Event::ChatChanged {
        change: ChatChange::MemberRemoved,
        chat: Arc::new(chat),
        removed: vec!["bo".parse().unwrap()],
        members_version: 4,
    };
    vec![Event::Message(message()), Event::Message(late), changed]
}

/// The blocks of JSON in `docs/events.md`.
fn documented() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/events.md");
    let text = std::fs::read_to_string(path).unwrap();
    let blocks = text.split("```json\n").skip(1);
    let json = blocks.map(|block| block.split("```").next().unwrap());
    json.map(|json| serde_json::from_str(json).unwrap()).collect()
}

#[test]
fn the_examples_of_the_document_are_current() {
    let written: Vec<Value> =
        examples().iter().map(|event| serde_json::from_slice(&event.to_json()).unwrap()).collect();
    assert_eq!(written, documented(), "{}", serde_json::to_string_pretty(&written).unwrap());
}

#[test]
fn every_event_survives_writing_and_reading() {
    for event in examples() {
        let read = Event::from_json(&event.to_json()).unwrap();
        assert_eq!(read, Decoded::Event(event));
    }
}

fn with(field: &str, value: Value) -> Vec<u8> {
    let mut json: Value = serde_json::from_slice(&Event::Message(message()).to_json()).unwrap();
    json[field] = value;
    serde_json::to_vec(&json).unwrap()
}

#[test]
fn a_reader_ignores_unknown_fields_and_skips_unknown_types() {
    let read = Event::from_json(&with("priority", 7.into())).unwrap();
    assert_eq!(read, Decoded::Event(Event::Message(message())));
    let read = Event::from_json(br#"{"v":1,"type":"reaction","emoji":"tea"}"#).unwrap();
    assert_eq!(read, Decoded::Unknown { kind: "reaction".to_owned() });
}

#[test]
fn another_version_and_a_malformed_event_are_errors() {
    let version = Event::from_json(&with("v", 2.into())).unwrap_err();
    assert!(matches!(version, EventFormatError::Version(2)), "{version:?}");
    for malformed in [with("sequence", "forty-two".into()), b"{".to_vec()] {
        let error = Event::from_json(&malformed).unwrap_err();
        assert!(matches!(error, EventFormatError::Malformed(_)), "{error:?}");
    }
}
