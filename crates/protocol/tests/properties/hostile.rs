//! Malformed and hostile texts.

use heartline_protocol::limits::{
    CONTENT_BYTES_MAX, CONTENT_TYPE_BYTES_MAX, FRAME_BYTES_MAX, JSON_DEPTH_MAX,
    PRESENCE_USERS_PER_FRAME_MAX,
};
use heartline_protocol::{
    ClientFrame, DecodeError, Decoded, RequestId, decode_client, decode_server, encode_client,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Number, Value, json};

use crate::client::client_frame;
use crate::{chat_id, request_id, text};

/// Any JSON value of a few levels. Fractions are short: the parser may miss the last bit of those
/// with more than some fifteen digits.
pub(crate) fn json_value() -> impl Strategy<Value = Value> + Clone {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::num::f64::NORMAL.prop_map(Value::from),
        text(80).prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            btree_map(text(20), inner, 0..5)
                .prop_map(|map| Value::from(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn not_an_object(text: &str) -> bool {
    matches!(decode_client(text), Err(DecodeError::NotAnObject(_)))
}

/// The invalid field and the request of a rejected text.
fn rejected(text: &str) -> (String, Option<RequestId>) {
    match decode_client(text) {
        Err(DecodeError::InvalidField { request_id, field, message }) => {
            assert!(message.len() <= 400, "an error message is short: {message}");
            (field, request_id)
        }
        other => panic!("{text} is {other:?}"),
    }
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in text(400)) {
        let is_object = serde_json::from_str::<Map<String, Value>>(&text).is_ok();
        prop_assert!(is_object || not_an_object(&text));
        prop_assert!(decode_server(&text).is_err());
    }

    #[test]
    fn text_made_of_pieces_of_json_never_panics(
        pieces in vec(
            prop_oneof![
                Just("{"), Just("}"), Just("["), Just("]"), Just(":"), Just(","), Just("\""),
                Just("\\"), Just("\\u"), Just("d800"), Just("type"), Just("\"type\""),
                Just("\"heartbeat\""), Just("\"request_id\""), Just("1e400"), Just("-"),
                Just("0"), Just("null"), Just(" "), Just("\u{0}"), Just("é"),
            ],
            0..60,
        ),
    ) {
        let text = pieces.concat();
        if serde_json::from_str::<Value>(&text).is_err() && !text.contains("1e400") {
            prop_assert!(decode_client(&text).is_err(), "{text}");
        }
        let _ = decode_server(&text);
    }

    #[test]
    fn a_json_value_that_is_no_object_is_a_bad_frame(value in json_value()) {
        let text = value.to_string();
        prop_assert_eq!(not_an_object(&text), !value.is_object());
        let _ = decode_server(&text);
    }

    #[test]
    fn a_frame_cut_anywhere_is_a_bad_frame(
        frame in client_frame(),
        cut in any::<prop::sample::Index>(),
    ) {
        let text = encode_client(&frame);
        let end = text.floor_char_boundary(cut.index(text.len()));
        prop_assert!(not_an_object(&text[..end]));
    }

    #[test]
    fn a_frame_with_any_byte_changed_never_panics(
        frame in client_frame(),
        place in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = encode_client(&frame).into_bytes();
        let place = place.index(bytes.len());
        bytes[place] = byte;
        if let Ok(text) = std::str::from_utf8(&bytes) {
            let _ = decode_client(text);
            let _ = decode_server(text);
        }
    }

    #[test]
    fn every_repeated_field_is_rejected(
        frame in client_frame(),
        which in any::<prop::sample::Index>(),
    ) {
        let text = encode_client(&frame);
        let object: Map<String, Value> = serde_json::from_str(&text).unwrap();
        let fields: Vec<_> = object.iter().collect();
        let (field, value) = *which.get(&fields);
        let name = Value::from(field.as_str());
        let twice = format!("{},{name}:{value}}}", text.strip_suffix('}').unwrap());
        let id = frame.request_id().filter(|_| field != "request_id").cloned();
        prop_assert_eq!(rejected(&twice), (field.clone(), id));
    }

    #[test]
    fn a_number_that_is_no_sequence_is_rejected_with_its_request(
        id in request_id(),
        chat in chat_id(),
        number in prop_oneof![
            Just("-0"), Just("-1"), Just("0.0"), Just("1e0"), Just("1e400"), Just("-1e400"),
            Just("1e-400"), Just("18446744073709551616"), Just("340282366920938463463374607431"),
            Just("9223372036854775807.5"),
        ],
    ) {
        let id_text = Value::from(id.as_str());
        let head = format!(r#"{{"after_sequence":{number},"type":"sync_request""#);
        let text = format!(r#"{head},"request_id":{id_text},"chat_id":"{chat}"}}"#);
        prop_assert_eq!(rejected(&text), ("after_sequence".to_owned(), Some(id)));
    }

    #[test]
    fn content_over_its_limit_is_too_large_in_any_escaping(
        id in request_id(),
        chat in chat_id(),
        over in 1..200_usize,
    ) {
        let escaped = "\\u00e9".repeat(CONTENT_BYTES_MAX / 2 + over);
        let id_text = Value::from(id.as_str());
        let head = format!(r#"{{"type":"send_message","request_id":{id_text}"#);
        let message = format!(r#""chat_id":"{chat}","client_message_id":"m""#);
        let text = format!(r#"{head},{message},"content":"{escaped}"}}"#);
        prop_assert_eq!(decode_client(&text), Err(DecodeError::ContentTooLarge { request_id: id }));
    }
}

#[test]
fn any_number_of_levels_is_decoded_without_recursion() {
    let shapes: [(&str, &str); 3] = [("[", "]"), (r#"{"a":"#, "}"), (r#"[{"a":["#, "]}]")];
    for (open, close) in shapes {
        for levels in [65, 127, 128, 1_000, 100_000] {
            for closed in [true, false] {
                let end = if closed { close.repeat(levels) } else { String::new() };
                let nested = format!("{}0{end}", open.repeat(levels));
                for text in [
                    nested.clone(),
                    format!(r#"{{"type":"heartbeat","extra":{nested}}}"#),
                    format!(r#"{{"type":{nested},"request_id":"r"}}"#),
                    format!(r#"{{"type":"event","name":"a","data":{nested}}}"#),
                ] {
                    assert!(not_an_object(&text), "{open} {levels} {closed}");
                    let _ = decode_server(&text);
                }
            }
        }
    }
}

#[test]
fn as_many_levels_as_allowed_are_ignored_in_an_unknown_field() {
    let levels = JSON_DEPTH_MAX - 1;
    let nested = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let heartbeat = decode_client(r#"{"type":"heartbeat"}"#);
    assert!(matches!(heartbeat, Ok(Decoded::Frame(ClientFrame::Heartbeat(_)))));
    assert_eq!(decode_client(&format!(r#"{{"type":"heartbeat","extra":{nested}}}"#)), heartbeat);
    // Brackets in a string do not count as levels, whatever precedes them.
    let brackets = "[".repeat(1000);
    for text in [
        format!(r#"{{"type":"heartbeat","extra":"{brackets}"}}"#),
        format!(r#"{{"type":"heartbeat","extra":"\"{brackets}\\"}}"#),
        format!(r#"{{"type":"heartbeat","{brackets}":1}}"#),
    ] {
        assert_eq!(decode_client(&text), heartbeat, "{text}");
    }
}

#[test]
fn an_unknown_field_may_hold_any_number_and_any_escape() {
    let heartbeat = decode_client(r#"{"type":"heartbeat"}"#);
    for value in ["1e400", "-0", "18446744073709551616", r#""\ud800""#, r#""\udc00\ud800""#] {
        let text = format!(r#"{{"type":"heartbeat","extra":{value}}}"#);
        assert_eq!(decode_client(&text), heartbeat, "{text}");
    }
}

#[test]
fn a_lone_surrogate_in_a_known_field_is_rejected() {
    let id = "r".parse::<RequestId>().unwrap();
    for half in [r"\ud800", r"\udc00", r"\ud800\ud800", r"\ud83dx", r"\uDFFF"] {
        let text = format!(r#"{{"type":"refresh_token","request_id":"r","token":"{half}"}}"#);
        assert_eq!(rejected(&text), ("token".to_owned(), Some(id.clone())));
        assert!(not_an_object(&format!(r#"{{"type":"{half}","request_id":"r"}}"#)));
        assert!(not_an_object(&format!(r#"{{"type":"heartbeat","{half}":1}}"#)));
    }
}

#[test]
fn the_largest_valid_frames_decode() {
    let chat = "chat_01HF7YAT000000000000000001";
    let message = json!({
        "type": "send_message", "request_id": "r".repeat(64), "chat_id": chat,
        "client_message_id": "m".repeat(64), "content": "\u{1}".repeat(CONTENT_BYTES_MAX),
        "content_type": "t".repeat(CONTENT_TYPE_BYTES_MAX),
    });
    let users = vec!["u".repeat(128); PRESENCE_USERS_PER_FRAME_MAX];
    let watch = json!({ "type": "presence_subscribe", "request_id": "r", "user_ids": users });
    for frame in [message.to_string(), watch.to_string()] {
        assert!(frame.len() <= FRAME_BYTES_MAX);
        let Ok(Decoded::Frame(decoded)) = decode_client(&frame) else {
            panic!("{frame} is no frame");
        };
        assert_eq!(
            serde_json::from_str::<Value>(&encode_client(&decoded)).unwrap().to_string(),
            frame
        );
    }
}

#[test]
fn an_error_message_does_not_repeat_a_long_value() {
    let long = "x".repeat(60_000);
    let text = json!({
        "type": "sync_request", "request_id": "r", "chat_id": "chat_1", "after_sequence": long,
    });
    assert_eq!(rejected(&text.to_string()).1, Some("r".parse().unwrap()));
    let object = json!({ "type": "typing", "chat_id": long.clone(), "is_typing": long });
    assert_eq!(rejected(&object.to_string()).0, "chat_id");
}

#[test]
fn the_largest_sequences_are_decoded_exactly() {
    let chat = "chat_01HF7YAT000000000000000001";
    for sequence in [0, 1, (1 << 53) + 1, i64::MAX as u64 + 1, u64::MAX] {
        let number = Number::from(sequence);
        let text = format!(r#"{{"type":"ack","chat_id":"{chat}","last_acked_sequence":{number}}}"#);
        let Ok(Decoded::Frame(ClientFrame::Ack(ack))) = decode_client(&text) else {
            panic!("{text} is no ack");
        };
        assert_eq!(ack.last_acked_sequence, sequence);
    }
}
