//! The format of frames and of the connection.

use heartline_client::{Rejection, TokenError};
use heartline_protocol::server_frame::{ConnectionClosing, ErrorFrame};
use heartline_protocol::{CloseReason, ConnectionId, ErrorCode, decode_server};
use ulid::Ulid;

use super::*;

const AT: Timestamp = Timestamp { unix_ms: 1_700_000_000_007 };
const PAPER: View = View { with_colours: false };
const COLOURS: View = View { with_colours: true };

fn established(degraded: Option<Vec<String>>) -> ConnectionEstablished {
    ConnectionEstablished {
        connection_id: ConnectionId { ulid: Ulid(1), shard: 17 },
        user_id: "ana".parse().unwrap(),
        device_id: "phone".parse().unwrap(),
        server_id: "node-1".parse().unwrap(),
        heartbeat_interval_ms: 5000,
        heartbeat_timeout_ms: 10_000,
        protocol_version: 1,
        limits: Default::default(),
        degraded,
    }
}

fn received(view: View, text: &str) -> String {
    view.received(AT, &decode_server(text).unwrap_or(ServerFrame::Unknown), text)
}

#[test]
fn a_frame_is_one_line_of_time_arrow_type_and_json() {
    let text = r#"{"type":"event","name":"hello","data":{"a":1}}"#;
    assert_eq!(received(PAPER, text), format!("22:13:20.007 <- event {text}\n"));
    let own = r#"{"type":"heartbeat"}"#;
    assert_eq!(PAPER.sent(AT, own), format!("22:13:20.007 -> heartbeat {own}\n"));
}

#[test]
fn errors_are_red_pushes_cyan_answers_plain_and_own_frames_dim() {
    let error = ServerFrame::Error(ErrorFrame::new(ErrorCode::Conflict, "why"));
    let line = COLOURS.received(AT, &error, "{}");
    assert!(line.contains("\u{1b}[31m<- ") && line.ends_with("\u{1b}[0m\n"), "{line:?}");
    let closing = ServerFrame::ConnectionClosing(ConnectionClosing {
        reason: CloseReason::MaxAge,
        reconnect_allowed: true,
        reconnect_delay_ms: 1,
        sync_hints: None,
    });
    assert!(COLOURS.received(AT, &closing, "{}").contains("\u{1b}[31m<- "));
    let event = r#"{"type":"event","name":"hello","data":null}"#;
    assert!(received(COLOURS, event).contains("\u{1b}[36m<- event"));
    assert!(COLOURS.sent(AT, "{}").contains("\u{1b}[2m-> ? {}"));
    let answer = r#"{"type":"heartbeat_ack","server_time":"2023-11-14T22:13:20.007Z"}"#;
    assert!(received(COLOURS, answer).contains("\u{1b}[0m <- heartbeat_ack"));
}

#[test]
fn unknown_frames_and_other_texts_are_shown_too() {
    let later = received(PAPER, r#"{"type":"weather","sky":"blue"}"#);
    assert!(later.contains("<- weather {"), "{later}");
    assert!(received(PAPER, "no frame at all").ends_with("<- ? no frame at all\n"));
}

#[test]
fn a_token_is_not_shown() {
    let line = PAPER.sent(AT, r#"{"type":"refresh_token","request_id":"r","token":"secret"}"#);
    assert!(line.contains("-> refresh_token {") && line.contains(r#""token":"…""#), "{line}");
    assert!(!line.contains("secret"), "{line}");
}

#[test]
fn control_characters_in_frames_are_escaped() {
    let text = "{\"type\":\"a\u{9b}2J\",\n\"b\":\"\u{1b}[31m\u{202e}\u{7}\"}";
    let line = PAPER.received(AT, &ServerFrame::Unknown, text);
    assert_eq!(line.matches(char::is_control).count(), 1, "{line:?}");
    assert!(line.contains(r#""\u001b[31m\u202e\u0007"}"#), "{line:?}");
    assert_eq!(printable("Grüße, 世界 👋🏽"), "Grüße, 世界 👋🏽");
}

#[test]
fn the_states_of_the_connection_are_sentences() {
    let line = PAPER.connecting(AT, "ws://a", 1);
    assert_eq!(line, "22:13:20 -- connecting to ws://a\n");
    assert!(PAPER.connecting(AT, "ws://a", 2).ends_with("connecting to ws://a (attempt 2)\n"));
    let line = PAPER.connected(AT, &established(None));
    let expected = "connected as ana on device phone (conn_00000000000000000000000001_17)\n";
    assert!(line.ends_with(expected), "{line}");
    let line = PAPER.connected(AT, &established(Some(vec!["presence".to_owned()])));
    assert!(line.ends_with("; not working at the moment: presence\n"), "{line}");
    let line = PAPER.established(AT, &established(None));
    assert!(line.contains("<- connection_established {\"type\":\"connection_esta"), "{line}");
}

#[test]
fn an_end_has_its_reason_and_the_delay_of_the_reconnect() {
    let pause = Some(Duration::from_millis(1_140));
    let ending = Ending::Lost(Loss::HeartbeatTimeout);
    let line = PAPER.disconnected(AT, &ending, pause);
    let expected = "-- disconnected: the server did not answer a heartbeat in time; reconnecting \
                    in 1.1 s\n";
    assert!(line.ends_with(expected), "{line}");
    let line = PAPER.disconnected(AT, &ending, Some(Duration::ZERO));
    assert!(line.ends_with("; reconnecting at once\n"), "{line}");
    assert!(COLOURS.disconnected(AT, &ending, None).contains("\u{1b}[31m-- disconnected"));
    let rejection = |message: Option<&str>| {
        let message = message.map(str::to_owned);
        Ending::Rejected(Rejection { status: 401, code: None, message, retry_after: None })
    };
    let closing = ConnectionClosing {
        reason: CloseReason::SlowConsumer,
        reconnect_allowed: true,
        reconnect_delay_ms: 0,
        sync_hints: None,
    };
    let table = [
        (rejection(None), "the server rejected the connection with HTTP 401"),
        (rejection(Some("no\nway")), "the server rejected the connection with HTTP 401 (no way)"),
        (
            Ending::Closed { closing: Some(closing), code: Some(1008) },
            "the server closed the connection: slow_consumer (1008)",
        ),
        (
            Ending::Closed { closing: None, code: Some(1001) },
            "the server closed the connection with code 1001",
        ),
        (Ending::Closed { closing: None, code: None }, "the server closed the connection"),
        (Ending::Lost(Loss::Unreachable("why".into())), "the server cannot be reached: why"),
        (Ending::Lost(Loss::Broken("why".into())), "the connection broke: why"),
        (Ending::Lost(Loss::Dropped), "you dropped the connection"),
        (Ending::NoToken(TokenError::Ended("why".into())), "there will be no token: why"),
    ];
    for (ending, expected) in table {
        let line = PAPER.disconnected(AT, &ending, None);
        assert!(line.ends_with(&format!("-- disconnected: {expected}\n")), "{line}");
    }
}
