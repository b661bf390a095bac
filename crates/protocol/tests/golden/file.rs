//! Renders the golden file: one line per entry, frames exactly as on the wire.

use std::fmt::Write;

use heartline_protocol::{
    CloseReason, ErrorCode, PROTOCOL_VERSION, SUBPROTOCOL, encode_client, encode_server,
};
use serde_json::{Value, json};

use crate::{client, invalid, server};

/// The path of the golden file.
pub(crate) const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/frames.json");

/// The whole file.
pub(crate) fn render() -> String {
    let client = client::samples();
    let server = server::samples();
    let client = client
        .iter()
        .map(|(name, frame)| named(&full_name(client::kind(frame), name), &encode_client(frame)));
    let server = server.iter().map(|(name, frame)| {
        named(&full_name(server::kind(frame), name), &encode_server(frame, server::NOW))
    });
    let ignored = server::ignored().into_iter().map(|(name, text)| named(name, text));
    let lists: [(&str, Vec<String>); 6] = [
        ("client", client.collect()),
        ("server", server.collect()),
        ("ignored_by_clients", ignored.collect()),
        ("errors", ErrorCode::ALL.into_iter().map(error).collect()),
        ("closing_reasons", CloseReason::ALL.into_iter().map(closing_reason).collect()),
        ("invalid", invalid::samples().iter().map(invalid_entry).collect()),
    ];
    let mut file = format!(
        "{{\n\"subprotocol\": {},\n\"protocol_version\": {PROTOCOL_VERSION}",
        quoted(SUBPROTOCOL)
    );
    for (list, lines) in lists {
        write!(file, ",\n\"{list}\": [\n{}\n]", lines.join(",\n")).unwrap();
    }
    file + "\n}\n"
}

/// An entry with the unchanged text of a frame, so that the order of its fields is tested too.
fn named(name: &str, text: &str) -> String {
    format!("{{\"name\":{},\"frame\":{text}}}", quoted(name))
}

/// The name of a sample, which begins with the type of its frame.
fn full_name(kind: &str, name: &str) -> String {
    if name.starts_with(kind) { name.to_owned() } else { format!("{kind}: {name}") }
}

fn error(code: ErrorCode) -> String {
    let (status, retryable) = (json!(code.http_status()), code.retryable());
    format!("{{\"code\":\"{}\",\"http_status\":{status},\"retryable\":{retryable}}}", code.as_str())
}

fn closing_reason(reason: CloseReason) -> String {
    format!(
        "{{\"reason\":\"{}\",\"code\":{},\"graphql_code\":{},\"reconnect\":{},\
         \"reconnect_allowed\":{}}}",
        reason.as_str(),
        reason.code(),
        json!(reason.graphql_code()),
        json!(reason.reconnect()),
        reason.reconnect_allowed(),
    )
}

fn invalid_entry((name, text, rejection): &(&str, String, invalid::Rejection)) -> String {
    format!(
        "{{\"name\":{},\"text\":{},\"code\":\"{}\",\"reason\":{},\"field\":{},\"request_id\":{}}}",
        quoted(name),
        quoted(text),
        rejection.code.as_str(),
        json!(rejection.reason),
        json!(rejection.field),
        json!(rejection.request_id),
    )
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
