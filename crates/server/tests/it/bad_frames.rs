//! Frames that break the rules of WebSocket or of the protocol above it.

use heartline_client::raw::{
    OPCODE_BINARY, OPCODE_CLOSE, OPCODE_CONTINUATION, OPCODE_PING, OPCODE_PONG, OPCODE_TEXT,
    masked_frame,
};
use heartline_testing::{Server, Socket, close_of};
use serde_json::{Value, json};

use crate::HEARTLINE;

const FRAME_BYTES_MAX: usize = 64 * 1024;

/// A masked frame whose first byte is as given, rather than made of an opcode.
fn starting_with(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = masked_frame(0, true, payload);
    frame[0] = first;
    frame
}

/// A frame header that announces this many bytes, without the payload.
fn announcing(length: u64) -> Vec<u8> {
    let mut frame = vec![0x80 | OPCODE_TEXT, 0x80 | 127];
    frame.extend(length.to_be_bytes());
    frame.extend([1, 2, 3, 4]);
    frame
}

async fn is_closed(server: &Server, name: &str, bytes: &[u8], code: u16) {
    let mut socket = server.connect("ana").await;
    socket.send_bytes(bytes).await;
    let closing = socket.closes("protocol_error", code).await;
    assert_eq!(closing["reconnect_allowed"], true, "{name}");
}

#[tokio::test]
async fn broken_framing_is_closed_with_1002() {
    let server = HEARTLINE.start().await;
    let close = |payload: &[u8]| masked_frame(OPCODE_CLOSE, true, payload);
    let text = |fin: bool| masked_frame(OPCODE_TEXT, fin, b"{}");
    for (name, bytes) in [
        ("an unmasked frame", vec![0x81, 2, b'{', b'}']),
        ("a reserved bit", starting_with(0xC1, b"{}")),
        ("the other reserved bits", starting_with(0xB1, b"{}")),
        ("opcode 3", starting_with(0x83, b"")),
        ("opcode 7", starting_with(0x87, b"")),
        ("opcode B", starting_with(0x8B, b"")),
        ("opcode F", starting_with(0x8F, b"")),
        ("a long ping", masked_frame(OPCODE_PING, true, &[0; 126])),
        ("a fragmented ping", masked_frame(OPCODE_PING, false, b"")),
        ("a continuation of nothing", masked_frame(OPCODE_CONTINUATION, true, b"")),
        ("a message inside another", [text(false), text(true)].concat()),
        ("a close with half a code", close(&[3])),
        ("close code 999", close(&999_u16.to_be_bytes())),
        ("close code 1005", close(&1005_u16.to_be_bytes())),
        ("close code 1006", close(&1006_u16.to_be_bytes())),
        ("close code 1015", close(&1015_u16.to_be_bytes())),
        ("close code 5000", close(&5000_u16.to_be_bytes())),
        ("a length of 2^63", announcing(1 << 63)),
    ] {
        is_closed(&server, name, &bytes, 1002).await;
    }
}

#[tokio::test]
async fn text_that_is_not_utf8_is_closed_with_1007() {
    let server = HEARTLINE.start().await;
    let whole = masked_frame(OPCODE_TEXT, true, b"{\"type\":\"\xff\"}");
    let split = [
        masked_frame(OPCODE_TEXT, false, b"{\"type\":\"\xe2\x82"),
        masked_frame(OPCODE_CONTINUATION, true, b"\"}"),
    ];
    let reason = masked_frame(OPCODE_CLOSE, true, b"\x03\xe8\xff\xfe");
    is_closed(&server, "whole", &whole, 1007).await;
    is_closed(&server, "split", &split.concat(), 1007).await;
    is_closed(&server, "a close reason", &reason, 1007).await;
    // A character that is cut by a fragment's end is whole again in the message.
    let mut socket = server.connect("ana").await;
    socket.send_frame(OPCODE_TEXT, false, b"{\"type\":\"heartbeat\",\"x\":\"\xe2\x82").await;
    socket.send_frame(OPCODE_CONTINUATION, true, b"\xac\"}").await;
    assert_eq!(socket.json().await["type"], "heartbeat_ack");
}

#[tokio::test]
async fn a_message_over_the_limit_is_closed_with_1009() {
    let server = HEARTLINE.start().await;
    let over = vec![b' '; FRAME_BYTES_MAX + 1];
    is_closed(&server, "one byte over", &masked_frame(OPCODE_TEXT, true, &over), 1009).await;
    is_closed(&server, "binary", &masked_frame(OPCODE_BINARY, true, &over), 1009).await;
    // A frame that is too long is rejected by its header, before its payload is sent.
    is_closed(&server, "65 KiB", &announcing(65 * 1024), 1009).await;
    is_closed(&server, "2^62", &announcing(1 << 62), 1009).await;
    let mut bomb = masked_frame(OPCODE_TEXT, false, &vec![b' '; 1024]);
    for _ in 0..64 {
        bomb.extend(masked_frame(OPCODE_CONTINUATION, false, &vec![b' '; 1024]));
    }
    is_closed(&server, "a sum over the limit", &bomb, 1009).await;

    let mut socket = server.connect("ana").await;
    let mut text = json!({ "type": "heartbeat" }).to_string();
    text.push_str(&" ".repeat(FRAME_BYTES_MAX - text.len()));
    socket.send_text(&text).await;
    assert_eq!(socket.json().await["type"], "heartbeat_ack", "the limit itself is legal");
}

#[tokio::test]
async fn a_message_of_endless_empty_fragments_is_closed_with_1002() {
    let server = HEARTLINE.start().await;
    let mut bomb = masked_frame(OPCODE_TEXT, false, b"");
    for _ in 0..10_000 {
        bomb.extend(masked_frame(OPCODE_CONTINUATION, false, b""));
    }
    is_closed(&server, "10,000 fragments", &bomb, 1002).await;
}

#[tokio::test]
async fn a_close_is_answered_with_its_code_and_what_follows_it_is_ignored() {
    let server = HEARTLINE.start().await;
    for (payload, expected) in [
        (&[][..], None),
        (b"\x03\xe8bye", Some((1000, String::new()))),
        (b"\x0f\xa0", Some((4000, String::new()))),
    ] {
        let mut socket = server.connect("ana").await;
        socket.send_frame(OPCODE_CLOSE, true, payload).await;
        socket.send_text(r#"{"type":"heartbeat"}"#).await;
        let close = socket.frame().await;
        assert_eq!(close.opcode, OPCODE_CLOSE);
        assert_eq!(close_of(&close), expected);
        socket.ends().await;
    }
}

#[tokio::test]
async fn a_frame_that_is_no_json_object_is_refused_and_the_tenth_ends_it() {
    let server = HEARTLINE.start().await;
    let mut socket = server.connect("ana").await;
    let deep = format!(r#"{{"type":"heartbeat","x":{}}}"#, "[".repeat(30_000));
    for text in ["", "{", "null", "[]", "\"x\"", "17", "{\"type\":\"heartbeat\",}", &deep] {
        socket.send_text(text).await;
        let error = socket.error("INVALID_MESSAGE").await;
        assert_eq!(error["retryable"], false, "{text:.40}: {error}");
        assert_eq!(error["request_id"], Value::Null, "{text:.40}");
    }
    socket.send_frame(OPCODE_BINARY, true, br#"{"type":"heartbeat"}"#).await;
    socket.error("INVALID_MESSAGE").await;
    socket.is_open().await;
    socket.send_text("the tenth").await;
    socket.error("INVALID_MESSAGE").await;
    socket.closes("protocol_error", 1003).await;
    assert_eq!(server.metric("gateway_bad_frames_total").await, 10.0);
}

#[tokio::test]
async fn an_unknown_type_is_answered_only_if_it_asks_and_never_counts_as_bad() {
    let server = HEARTLINE.start().await;
    let mut socket = server.connect("ana").await;
    for _ in 0..12 {
        socket.send(&json!({ "type": "from_the_future" })).await;
        socket.send(&json!({ "type": "from_the_future", "request_id": "r1" })).await;
        let error = socket.error("INVALID_MESSAGE").await;
        assert_eq!(error["request_id"], "r1");
        assert_eq!(error["details"]["reason"], "unknown_type");
    }
    socket.is_open().await;
    assert_eq!(server.metric("gateway_unknown_types_total").await, 12.0);
    assert_eq!(server.metric("gateway_bad_frames_total").await, 0.0);
}

const CHAT: &str = "chat_01ARZ3NDEKTSV4RRFFQ69G5FAV";

async fn names_the_field(socket: &mut Socket, frame: &Value, field: &str) {
    socket.send(frame).await;
    let error = socket.error("INVALID_MESSAGE").await;
    assert_eq!(error["details"]["field"], field, "{frame}: {error}");
    assert_eq!(error["request_id"], frame["request_id"], "{frame}: {error}");
}

#[tokio::test]
async fn a_missing_or_mistyped_field_is_named_and_its_request_echoed() {
    let server = HEARTLINE.start().await;
    let mut socket = server.connect("ana").await;
    let send = |name: &str, value: Value| {
        let mut frame = json!({
            "type": "send_message", "request_id": "r1", "chat_id": CHAT,
            "client_message_id": "m1", "content": "hello",
        });
        frame[name] = value;
        frame.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        frame
    };
    for (name, value) in [
        ("chat_id", Value::Null),
        ("chat_id", json!("chat_*")),
        ("chat_id", json!(7)),
        ("client_message_id", Value::Null),
        ("client_message_id", json!("")),
        ("client_message_id", json!("x".repeat(65))),
        ("content", Value::Null),
        ("content", json!("")),
        ("content", json!({ "text": "hello" })),
        ("content_type", json!("x".repeat(65))),
    ] {
        names_the_field(&mut socket, &send(name, value), name).await;
    }
    let sync = |after: Value| {
        json!({ "type": "sync_request", "request_id": "r2",
        "chat_id": CHAT, "after_sequence": after })
    };
    for after in [json!(-1), json!("5"), json!(1.5), Value::Null] {
        names_the_field(&mut socket, &sync(after), "after_sequence").await;
    }
    let watch = |users: Value| {
        json!({ "type": "presence_subscribe", "request_id": "r3",
        "user_ids": users })
    };
    names_the_field(&mut socket, &watch(json!([])), "user_ids").await;
    names_the_field(&mut socket, &watch(json!(vec!["bo"; 101])), "user_ids").await;
    names_the_field(&mut socket, &watch(json!(["bo", "b*"])), "user_ids[1]").await;
    names_the_field(&mut socket, &json!({ "request_id": "r4" }), "type").await;
    names_the_field(&mut socket, &json!({ "type": 1, "request_id": "r5" }), "type").await;
    socket.send(&json!({ "type": "heartbeat", "request_id": "x".repeat(65) })).await;
    assert_eq!(socket.error("INVALID_MESSAGE").await["details"]["field"], "request_id");
    socket.send(&send("content", json!("x".repeat(4097)))).await;
    assert_eq!(socket.error("MESSAGE_TOO_LARGE").await["request_id"], "r1");
    socket.is_open().await;
    assert_eq!(server.metric("gateway_bad_frames_total").await, 0.0);
}

#[tokio::test]
async fn a_flood_of_pings_is_answered_within_the_rate_and_then_ended() {
    let server = HEARTLINE.start().await;
    let mut socket = server.connect("ana").await;
    let flood: Vec<u8> = (0..2000).flat_map(|_| masked_frame(OPCODE_PING, true, b"x")).collect();
    socket.send_bytes(&flood).await;
    let (mut pongs, mut refusals) = (0, 0);
    let closing = loop {
        let frame = socket.frame().await;
        match frame.opcode {
            OPCODE_PONG => pongs += 1,
            OPCODE_TEXT => {
                let frame: Value = serde_json::from_slice(&frame.payload).unwrap();
                if frame["type"] == "connection_closing" {
                    break frame;
                }
                assert_eq!(frame["code"], "RATE_LIMITED", "{frame}");
                assert!(frame["retry_after_seconds"].as_u64().unwrap() >= 1, "{frame}");
                refusals += 1;
            }
            other => panic!("opcode {other}"),
        }
    };
    assert_eq!(closing["reason"], "rate_limited");
    assert_eq!(close_of(&socket.frame().await), Some((4429, "rate_limited".to_owned())));
    socket.ends().await;
    assert_eq!(refusals, 100);
    assert!((100..1000).contains(&pongs), "{pongs} pongs");
}

#[tokio::test]
async fn frames_over_their_rate_are_refused_with_their_request_and_then_end_it() {
    let server = HEARTLINE.start().await;
    let mut socket = server.connect("ana").await;
    for number in 0..300 {
        let request_id = format!("r{number}");
        socket.send(&json!({ "type": "sync_manifest", "request_id": request_id })).await;
    }
    let mut refusals = 0;
    let closing = loop {
        let frame = socket.json().await;
        if frame["type"] == "connection_closing" {
            break frame;
        }
        assert!(frame["request_id"].is_string(), "{frame}");
        if frame["code"] == "RATE_LIMITED" {
            assert_eq!(frame["retryable"], true);
            refusals += 1;
        }
    };
    assert_eq!(closing["reason"], "rate_limited");
    assert_eq!(refusals, 100);
}

#[tokio::test]
async fn no_kind_of_frame_is_free() {
    let server = HEARTLINE.start().await;
    let text = |frame: Value| masked_frame(OPCODE_TEXT, true, frame.to_string().as_bytes());
    for (name, frame) in [
        ("pongs", masked_frame(OPCODE_PONG, true, b"")),
        ("unknown types", text(json!({ "type": "from_the_future" }))),
        ("wrong fields", text(json!({ "type": "sync_request", "request_id": "r1" }))),
        (
            "frames without an answer",
            text(json!({ "type": "typing", "chat_id": CHAT, "is_typing": true })),
        ),
        ("second authenticates", text(json!({ "type": "authenticate", "token": "t" }))),
    ] {
        let mut socket = server.connect("ana").await;
        socket.send_bytes(&frame.repeat(400)).await;
        let closing = socket.json_of("connection_closing").await;
        assert_eq!(closing["reason"], "rate_limited", "{name}");
        assert_eq!(close_of(&socket.frame().await).unwrap().0, 4429, "{name}");
        socket.ends().await;
    }
}
