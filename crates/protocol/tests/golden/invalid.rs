//! Texts that the server rejects, and the error for each.

use heartline_protocol::limits::{
    CONTENT_BYTES_MAX, CONTENT_TYPE_BYTES_MAX, JSON_DEPTH_MAX, PRESENCE_USERS_PER_FRAME_MAX,
};
use heartline_protocol::{DecodeError, Decoded, ErrorCode, decode_client};

use crate::client::CHAT;

/// The fields of the error that a program may depend on; its message may change.
#[derive(Debug, PartialEq)]
pub(crate) struct Rejection {
    pub(crate) code: ErrorCode,
    pub(crate) reason: Option<String>,
    pub(crate) field: Option<String>,
    pub(crate) request_id: Option<String>,
}

impl Rejection {
    /// The error for a text; none if the text is a frame, or is ignored.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let mut rejection =
            Self { code: ErrorCode::InvalidMessage, reason: None, field: None, request_id: None };
        match decode_client(text) {
            Ok(Decoded::Frame(_) | Decoded::UnknownType { request_id: None }) => return None,
            Ok(Decoded::UnknownType { request_id: Some(request_id) }) => {
                rejection.reason = Some("unknown_type".to_owned());
                rejection.request_id = Some(request_id.to_string());
            }
            Err(DecodeError::NotAnObject(_)) => {}
            Err(DecodeError::InvalidField { request_id, field, .. }) => {
                rejection.field = Some(field);
                rejection.request_id = request_id.map(|id| id.to_string());
            }
            Err(DecodeError::ContentTooLarge { request_id }) => {
                rejection.code = ErrorCode::MessageTooLarge;
                rejection.request_id = Some(request_id.to_string());
            }
        }
        Some(rejection)
    }

    fn bad_frame() -> Self {
        Self { code: ErrorCode::InvalidMessage, reason: None, field: None, request_id: None }
    }

    fn bad_field(field: &str, request_id: Option<&str>) -> Self {
        let (field, request_id) = (Some(field.to_owned()), request_id.map(str::to_owned));
        Self { field, request_id, ..Self::bad_frame() }
    }
}

/// Each text with its name and its error.
pub(crate) fn samples() -> Vec<(&'static str, String, Rejection)> {
    let mut samples = bad_frames();
    samples.extend(bad_envelopes());
    samples.extend(bad_messages());
    samples.extend(bad_fields());
    samples
}

fn bad_frames() -> Vec<(&'static str, String, Rejection)> {
    let levels = |count: usize| format!("{}{}", "[".repeat(count), "]".repeat(count));
    let too_deep = format!(r#"{{"type":"heartbeat","extra":{}}}"#, levels(JSON_DEPTH_MAX));
    let texts: [(&str, &str); 13] = [
        ("nothing", ""),
        ("space", " \n"),
        ("a word", "heartbeat"),
        ("a string", r#""heartbeat""#),
        ("a number", "1"),
        ("null", "null"),
        ("an array", r#"[{"type":"heartbeat"}]"#),
        ("an unterminated object", r#"{"type":"heartbeat""#),
        ("two objects", r#"{"type":"heartbeat"}{"type":"heartbeat"}"#),
        ("a comma too many", r#"{"type":"heartbeat",}"#),
        ("a raw line break in a string", "{\"type\":\"heart\nbeat\"}"),
        ("a lone surrogate as type", r#"{"type":"\ud800","request_id":"r-1"}"#),
        ("more levels than allowed", &too_deep),
    ];
    texts.map(|(name, text)| (name, text.to_owned(), Rejection::bad_frame())).into()
}

fn bad_envelopes() -> Vec<(&'static str, String, Rejection)> {
    let long = format!(r#"{{"type":"heartbeat","request_id":"{}"}}"#, "r".repeat(65));
    let unknown = Rejection {
        reason: Some("unknown_type".to_owned()),
        request_id: Some("r-1".to_owned()),
        ..Rejection::bad_frame()
    };
    let table: [(&str, &str, Rejection); 10] = [
        ("an unknown type with a request id", r#"{"type":"Ack","request_id":"r-1"}"#, unknown),
        ("an empty object", "{}", Rejection::bad_field("type", None)),
        ("no type", r#"{"request_id":"r-1"}"#, Rejection::bad_field("type", Some("r-1"))),
        (
            "a type that is not a string",
            r#"{"type":5,"request_id":"r-1"}"#,
            Rejection::bad_field("type", Some("r-1")),
        ),
        (
            "two types",
            r#"{"type":"heartbeat","type":"ack","request_id":"r-1"}"#,
            Rejection::bad_field("type", Some("r-1")),
        ),
        (
            "two request ids",
            r#"{"type":"sync_manifest","request_id":"r-1","request_id":"r-2"}"#,
            Rejection::bad_field("request_id", None),
        ),
        (
            "a request id that is not a string",
            r#"{"type":"sync_manifest","request_id":1}"#,
            Rejection::bad_field("request_id", None),
        ),
        (
            "an empty request id",
            r#"{"type":"sync_manifest","request_id":""}"#,
            Rejection::bad_field("request_id", None),
        ),
        ("a request id of 65 characters", &long, Rejection::bad_field("request_id", None)),
        (
            "a request without its id",
            r#"{"type":"sync_manifest"}"#,
            Rejection::bad_field("request_id", None),
        ),
    ];
    table.map(|(name, text, rejection)| (name, text.to_owned(), rejection)).into()
}

fn bad_messages() -> Vec<(&'static str, String, Rejection)> {
    let send = |fields: &str| format!(r#"{{"type":"send_message","request_id":"r-1"{fields}}}"#);
    let to_chat = |fields: &str| {
        send(&format!(r#","chat_id":"{CHAT}","client_message_id":"m-1","content":{fields}"#))
    };
    let too_large = to_chat(&format!("\"{}\"", "é".repeat(CONTENT_BYTES_MAX / 2 + 1)));
    let long_type = format!(r#""a","content_type":"{}""#, "t".repeat(CONTENT_TYPE_BYTES_MAX + 1));
    let rejected = |field| Rejection::bad_field(field, Some("r-1"));
    let other_alphabet = format!(r#","chat_id":"{CHAT}","client_message_id":"a b","content":"a""#);
    let rejection_of_large = Rejection {
        code: ErrorCode::MessageTooLarge,
        request_id: Some("r-1".to_owned()),
        ..Rejection::bad_frame()
    };
    vec![
        ("a message without a chat", send(""), rejected("chat_id")),
        ("a message with an invalid chat id", send(r#","chat_id":"chat_1""#), rejected("chat_id")),
        ("a client message id with a space", send(&other_alphabet), rejected("client_message_id")),
        ("a message with empty content", to_chat(r#""""#), rejected("content")),
        ("a message whose content is null", to_chat("null"), rejected("content")),
        ("a message with a lone surrogate", to_chat(r#""\ud83d""#), rejected("content")),
        ("a message with two contents", to_chat(r#""a","content":"b""#), rejected("content")),
        ("an empty content type", to_chat(r#""a","content_type":"""#), rejected("content_type")),
        ("a content type that is too long", to_chat(&long_type), rejected("content_type")),
        ("a message that is too large", too_large, rejection_of_large),
    ]
}

fn bad_fields() -> Vec<(&'static str, String, Rejection)> {
    let sync = |after: &str| {
        let head = r#"{"type":"sync_request","request_id":"r-1""#;
        format!(r#"{head},"chat_id":"{CHAT}","after_sequence":{after}}}"#)
    };
    let subscribe = |users: &str| {
        format!(r#"{{"type":"presence_subscribe","request_id":"r-1","user_ids":[{users}]}}"#)
    };
    let many = vec![r#""bo""#; PRESENCE_USERS_PER_FRAME_MAX + 1].join(",");
    let rejected = |field| Rejection::bad_field(field, Some("r-1"));
    let typing = format!(r#"{{"type":"typing","chat_id":"{CHAT}","is_typing":1}}"#);
    vec![
        ("a sequence below zero", sync("-1"), rejected("after_sequence")),
        ("a sequence of minus zero", sync("-0"), rejected("after_sequence")),
        ("a sequence with a fraction", sync("1.5"), rejected("after_sequence")),
        ("a sequence of 2^64", sync("18446744073709551616"), rejected("after_sequence")),
        ("a sequence of 1e400", sync("1e400"), rejected("after_sequence")),
        ("a sequence as text", sync("\"1\""), rejected("after_sequence")),
        ("a limit below zero", sync("1,\"limit\":-1"), rejected("limit")),
        ("a subscription to no users", subscribe(""), rejected("user_ids")),
        ("a subscription to too many users", subscribe(&many), rejected("user_ids")),
        ("a user id with a space", subscribe(r#""bo","c y""#), rejected("user_ids[1]")),
        (
            "an authenticate without its token",
            r#"{"type":"authenticate"}"#.to_owned(),
            Rejection::bad_field("token", None),
        ),
        ("a boolean as a number", typing, Rejection::bad_field("is_typing", None)),
    ]
}
