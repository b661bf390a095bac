//! Encoding and decoding of frames.
//!
//! A client's frame is parsed twice: first only its `type` and `request_id`, so that the error for
//! a frame with a bad field can carry the id, then the fields of that type. Unknown fields are
//! ignored.

use serde::de::DeserializeOwned;

use crate::client_frame::{ClientFrame, SendMessage};
use crate::envelope::{Envelope, Slot};
use crate::fields::{self, FieldError};
use crate::ids::RequestId;
use crate::limits::{
    CONTENT_BYTES_MAX, CONTENT_TYPE_BYTES_MAX, JSON_DEPTH_MAX, PRESENCE_USERS_PER_FRAME_MAX,
};
use crate::server_frame::ServerFrame;
use crate::timestamp::Timestamp;

/// Bytes of the error message about a bad field.
const FIELD_MESSAGE_BYTES_MAX: usize = 200;

/// A client's text, decoded.
#[derive(Debug, Clone, PartialEq)]
pub enum Decoded {
    /// A frame of this protocol.
    Frame(ClientFrame),
    /// An object of a type that this version does not know.
    UnknownType {
        /// Present if the client expects an answer.
        request_id: Option<RequestId>,
    },
}

/// Why a client's text is not a frame.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DecodeError {
    /// The text is not a JSON object: a bad frame.
    #[error("{0}")]
    NotAnObject(String),
    /// The object has a missing, mistyped or invalid field.
    #[error("{message}")]
    InvalidField {
        /// The request, if it could be read.
        request_id: Option<RequestId>,
        /// The field.
        field: String,
        /// The error message.
        message: String,
    },
    /// The content is over its limit.
    #[error("content is over {CONTENT_BYTES_MAX} bytes")]
    ContentTooLarge {
        /// The request.
        request_id: RequestId,
    },
}

/// Decodes a frame of a client.
pub fn decode_client(text: &str) -> Result<Decoded, DecodeError> {
    let envelope = read_envelope(text)?;
    let request_id = read_request_id(&envelope.request_id)?;
    let kind = match &envelope.kind {
        Slot::Text(kind) => &**kind,
        slot => return Err(invalid_slot(request_id, "type", slot)),
    };
    let frame = match kind {
        "authenticate" => ClientFrame::Authenticate(read_fields(text, request_id)?),
        "refresh_token" => ClientFrame::RefreshToken(read_fields(text, request_id)?),
        "heartbeat" => ClientFrame::Heartbeat(read_fields(text, request_id)?),
        "send_message" => ClientFrame::SendMessage(check_message(read_fields(text, request_id)?)?),
        "ack" => ClientFrame::Ack(read_fields(text, request_id)?),
        "sync_request" => ClientFrame::SyncRequest(read_fields(text, request_id)?),
        "sync_manifest" => ClientFrame::SyncManifest(read_fields(text, request_id)?),
        "presence_subscribe" => ClientFrame::PresenceSubscribe(read_fields(text, request_id)?),
        "presence_unsubscribe" => ClientFrame::PresenceUnsubscribe(read_fields(text, request_id)?),
        "typing" => ClientFrame::Typing(read_fields(text, request_id)?),
        _ => return Ok(Decoded::UnknownType { request_id }),
    };
    if let ClientFrame::PresenceSubscribe(users) | ClientFrame::PresenceUnsubscribe(users) = &frame
        && !(1..=PRESENCE_USERS_PER_FRAME_MAX).contains(&users.user_ids.len())
    {
        let message = format!("user_ids must name 1 to {PRESENCE_USERS_PER_FRAME_MAX} users");
        return Err(invalid_field(Some(users.request_id.clone()), "user_ids", message));
    }
    Ok(Decoded::Frame(frame))
}

/// The JSON text of a client's frame.
pub fn encode_client(frame: &ClientFrame) -> String {
    serde_json::to_string(frame).expect("client frames have only string keys")
}

/// The JSON text of a server's frame, with its timestamp as the last field.
///
/// # Panics
/// On [`ServerFrame::Unknown`], which only [`decode_server`] returns.
pub fn encode_server(frame: &ServerFrame, timestamp: Timestamp) -> String {
    let mut text = serde_json::to_string(frame).expect("the server never sends an unknown frame");
    let brace = text.pop();
    debug_assert_eq!(brace, Some('}'), "a frame is an object");
    text.push_str(",\"timestamp\":\"");
    text.push_str(&timestamp.to_string());
    text.push_str("\"}");
    text
}

/// Decodes a frame of the server; a type of a newer version becomes [`ServerFrame::Unknown`].
pub fn decode_server(text: &str) -> Result<ServerFrame, serde_json::Error> {
    serde_json::from_str(text)
}

fn read_envelope(text: &str) -> Result<Envelope<'_>, DecodeError> {
    if !text.trim_start().starts_with('{') {
        return Err(DecodeError::NotAnObject("a frame must be a JSON object".to_owned()));
    }
    if nests_deeper_than(text, JSON_DEPTH_MAX) {
        let message = format!("a frame may nest at most {JSON_DEPTH_MAX} levels");
        return Err(DecodeError::NotAnObject(message));
    }
    serde_json::from_str(text).map_err(|error| {
        DecodeError::NotAnObject(format!("a frame must be a JSON object: {error}"))
    })
}

fn read_request_id(slot: &Slot<'_>) -> Result<Option<RequestId>, DecodeError> {
    match slot {
        Slot::Absent => Ok(None),
        Slot::Text(text) => match text.parse::<RequestId>() {
            Ok(request_id) => Ok(Some(request_id)),
            Err(error) => Err(invalid_field(None, "request_id", error.to_string())),
        },
        Slot::Mistyped | Slot::Repeated => Err(invalid_slot(None, "request_id", slot)),
    }
}

fn invalid_slot(request_id: Option<RequestId>, field: &str, slot: &Slot<'_>) -> DecodeError {
    let wrong = match slot {
        Slot::Absent => "is missing",
        Slot::Repeated => "comes more than once",
        Slot::Mistyped | Slot::Text(_) => "must be a string",
    };
    invalid_field(request_id, field, format!("{field} {wrong}"))
}

fn read_fields<T: DeserializeOwned>(
    text: &str,
    request_id: Option<RequestId>,
) -> Result<T, DecodeError> {
    fields::read(text).map_err(|FieldError { field, message }| {
        // The message may quote a value of any length from the frame.
        let message = &message[..message.floor_char_boundary(FIELD_MESSAGE_BYTES_MAX)];
        invalid_field(request_id, &field, format!("{field}: {message}"))
    })
}

fn invalid_field(
    request_id: Option<RequestId>,
    field: &str,
    message: impl Into<String>,
) -> DecodeError {
    DecodeError::InvalidField { request_id, field: field.to_owned(), message: message.into() }
}

fn check_message(frame: SendMessage) -> Result<SendMessage, DecodeError> {
    if frame.content.len() > CONTENT_BYTES_MAX {
        return Err(DecodeError::ContentTooLarge { request_id: frame.request_id });
    }
    if frame.content.is_empty() {
        return Err(invalid_field(Some(frame.request_id), "content", "content is empty"));
    }
    let content_type_length = frame.content_type.as_ref().map_or(1, String::len);
    if !(1..=CONTENT_TYPE_BYTES_MAX).contains(&content_type_length) {
        let message = format!("content_type must have 1 to {CONTENT_TYPE_BYTES_MAX} bytes");
        return Err(invalid_field(Some(frame.request_id), "content_type", message));
    }
    Ok(frame)
}

/// Whether brackets outside of strings nest deeper than `depth_max`. This runs before the parser,
/// because the parser does not limit the depth of values that it skips.
fn nests_deeper_than(text: &str, depth_max: usize) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                if depth > depth_max {
                    return true;
                }
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}
