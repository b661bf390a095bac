//! Frames that are bad, unknown or wrong in a field: PROTOCOL sections 1 and 3.

use super::*;

#[test]
fn a_heartbeat_is_answered_at_once_with_the_servers_time() {
    let mut talk = Talk::established();
    talk.wait(millis(1234));
    let ack = ServerFrame::HeartbeatAck { server_time: talk.at.wall };
    assert_eq!(talk.sends(HEARTBEAT).as_slice(), [Effect::Send(ack)]);
}

#[test]
fn a_binary_frame_and_a_text_that_is_no_object_are_bad_frames() {
    let mut talk = Talk::established();
    let inputs = ["", "hello", "[1]", "42", "null", "{", "{\"type\":"];
    let inputs = inputs.into_iter().map(|text| Input::Text(text.to_owned()));
    for input in inputs.chain([Input::Binary]) {
        let effects = talk.on(input);
        assert_eq!(code(&effects), ErrorCode::InvalidMessage);
        assert_eq!(effects[1..], [Effect::Count(Counted::BadFrame)]);
    }
}

#[test]
fn ten_bad_frames_within_a_minute_close_with_1003() {
    let mut talk = Talk::established();
    for _ in 0..9 {
        assert_eq!(closing(&talk.on(Input::Binary)), None);
    }
    talk.stay(millis(59_999));
    let effects = talk.sends("not an object");
    assert_eq!(code(&effects), ErrorCode::InvalidMessage, "the tenth is answered too");
    assert_eq!(closing(&effects), Some((CloseReason::ProtocolError, 1003)));
}

#[test]
fn nine_bad_frames_a_minute_never_close() {
    let mut talk = Talk::established();
    for _ in 0..10 {
        for _ in 0..9 {
            assert_eq!(closing(&talk.on(Input::Binary)), None);
        }
        talk.stay(seconds(60));
    }
}

#[test]
fn an_unknown_type_without_a_request_is_counted_and_ignored() {
    let mut talk = Talk::established();
    for _ in 0..50 {
        let effects = talk.sends(r#"{"type":"from_the_future","field":1}"#);
        assert_eq!(effects.as_slice(), [Effect::Count(Counted::UnknownType)]);
    }
}

#[test]
fn an_unknown_type_with_a_request_is_answered_and_is_no_bad_frame() {
    let mut talk = Talk::established();
    for _ in 0..50 {
        let effects = talk.sends(r#"{"type":"from_the_future","request_id":"r"}"#);
        assert_eq!(effects.len(), 1);
        let frame = error(&effects);
        assert_eq!(frame.code, ErrorCode::InvalidMessage);
        assert_eq!(frame.request_id.as_ref().unwrap().as_str(), "r");
        assert_eq!(frame.details.as_ref().unwrap().reason.as_deref(), Some("unknown_type"));
    }
}

#[test]
fn a_field_error_names_the_field_echoes_the_request_and_is_no_bad_frame() {
    let mut talk = Talk::established();
    for (text, field) in [
        (r#"{"type":"refresh_token","request_id":"r"}"#, "token"),
        (r#"{"type":"sync_request","request_id":"r","chat_id":"x","after_sequence":0}"#, "chat_id"),
        (r#"{"type":"sync_manifest","request_id":"r","page":7}"#, "page"),
        (r#"{"type":"presence_subscribe","request_id":"r","user_ids":[]}"#, "user_ids"),
        (r#"{"type":"presence_subscribe","request_id":"r","user_ids":["a b"]}"#, "user_ids[0]"),
    ] {
        let effects = talk.sends(text);
        assert_eq!(effects.len(), 1, "{text}");
        let frame = error(&effects);
        assert_eq!(frame.code, ErrorCode::InvalidMessage, "{text}");
        assert_eq!(frame.request_id.as_ref().unwrap().as_str(), "r", "{text}");
        assert_eq!(frame.details.as_ref().unwrap().field.as_deref(), Some(field), "{text}");
    }
}

#[test]
fn content_over_its_limit_is_too_large_and_the_limit_itself_is_not() {
    let mut talk = Talk::established();
    let text = |bytes| send_message("r").replace("hello", &"x".repeat(bytes));
    assert!(is_asked(&talk.sends(&text(4096))));
    let effects = talk.sends(&text(4097));
    assert_eq!(code(&effects), ErrorCode::MessageTooLarge);
    assert_eq!(error(&effects).request_id.as_ref().unwrap().as_str(), "r");
    assert!(!error(&effects).retryable);
}

#[test]
fn acks_and_typing_are_never_answered() {
    let mut talk = Talk::established();
    let ack = format!(r#"{{"type":"ack","chat_id":"{CHAT}","last_acked_sequence":7}}"#);
    assert!(matches!(talk.sends(&ack).as_slice(), [Effect::Acknowledge(_)]));
    let typing = format!(r#"{{"type":"typing","chat_id":"{CHAT}","is_typing":true}}"#);
    assert!(matches!(talk.sends(&typing).as_slice(), [Effect::Type(_)]));
    assert!(talk.sends(&typing).is_empty(), "once a second is enough");
    assert!(matches!(talk.stay(seconds(1)).as_slice(), [Effect::Type(_)]), "the latest word");
}

#[test]
fn every_violation_of_the_framing_closes_with_the_code_of_its_kind() {
    for (violation, close_code) in [
        (FrameError::Framing("reserved bit is set"), 1002),
        (FrameError::Utf8, 1007),
        (FrameError::TooLarge, 1009),
    ] {
        for mut talk in [Talk::challenged(), Talk::established()] {
            let effects = talk.on(Input::Violation(violation));
            assert_eq!(effects.len(), 1);
            assert_eq!(closing(&effects), Some((CloseReason::ProtocolError, close_code)));
        }
    }
}
