//! How the golden file is written: one line an entry, frames exactly as the wire has them.

use std::fmt::Write;

use heartline_protocol::{
    CloseReason, ErrorCode, PROTOCOL_VERSION, SUBPROTOCOL, encode_client, encode_server,
};
use serde_json::{Value, json};

use crate::{client, invalid, server};

/// Where the file is.
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

/// A frame's text stands in the file as it is, so the order of its fields is seen too.
fn named(name: &str, text: &str) -> String {
    format!("{{\"name\":{},\"frame\":{text}}}", quoted(name))
}

/// A sample may be named after what makes it special alone.
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

fn invalid_entry((name, text, answer): &(&str, String, invalid::Answer)) -> String {
    format!(
        "{{\"name\":{},\"text\":{},\"code\":\"{}\",\"reason\":{},\"field\":{},\"request_id\":{}}}",
        quoted(name),
        quoted(text),
        answer.code.as_str(),
        json!(answer.reason),
        json!(answer.field),
        json!(answer.request_id),
    )
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
