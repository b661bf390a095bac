//! Constants and tables, from the crate's own values.

use std::fmt::Write;
use std::time::Duration;

use heartline_protocol::limits::{self, ClientLimits};
use heartline_protocol::{
    CloseReason, DEFAULT_CONTENT_TYPE, ErrorCode, PROTOCOL_VERSION, SUBPROTOCOL,
};
use serde_json::{Value, json};

/// The limits that a client keeps to by itself.
const NUMBERS: [(&str, &str, u64); 6] = [
    (
        "CONTENT_TYPE_BYTES_MAX",
        "Bytes of a message's content type.",
        limits::CONTENT_TYPE_BYTES_MAX as u64,
    ),
    ("TOKEN_BYTES_MAX", "Bytes of a token.", limits::TOKEN_BYTES_MAX as u64),
    (
        "RECONNECT_JITTER_PERCENT",
        "How far a pause is moved up or down at random, in percent.",
        limits::RECONNECT_JITTER_PERCENT as u64,
    ),
    (
        "RECONNECT_DELAY_MIN_MS",
        "The first pause before a reconnect; each failure doubles it.",
        milliseconds(limits::RECONNECT_DELAY_MIN),
    ),
    (
        "RECONNECT_DELAY_MAX_MS",
        "The longest pause before a reconnect.",
        milliseconds(limits::RECONNECT_DELAY_MAX),
    ),
    (
        "CLOSE_ANSWER_DEADLINE_MS",
        "How long a server that closes waits for what is in flight.",
        milliseconds(limits::CLOSE_ANSWER_DEADLINE),
    ),
];

const fn milliseconds(duration: Duration) -> u64 {
    duration.as_millis() as u64
}

/// Names, versions and limits.
pub(crate) fn constants() -> String {
    let mut text = String::new();
    let named = [
        ("SUBPROTOCOL", "The WebSocket subprotocol.", json!(SUBPROTOCOL)),
        ("PROTOCOL_VERSION", "The version of the frames.", json!(PROTOCOL_VERSION)),
        (
            "DEFAULT_CONTENT_TYPE",
            "What content is when its sender does not say.",
            json!(DEFAULT_CONTENT_TYPE),
        ),
    ];
    let numbers = NUMBERS.map(|(name, doc, number)| (name, doc, json!(number)));
    for (name, doc, value) in named.into_iter().chain(numbers) {
        writeln!(text, "/** {doc} */\nexport const {name} = {value};").unwrap();
    }
    let limits = serde_json::to_value(ClientLimits::default()).unwrap();
    text.push_str("/** The limits of a server that was not told others. */\n");
    text.push_str("export const DEFAULT_LIMITS: ClientLimits = {\n");
    for (name, value) in limits.as_object().unwrap() {
        writeln!(text, "  {name}: {value},").unwrap();
    }
    text.push_str("};\n");
    text
}

/// Every closing reason and every error code with what follows from it.
pub(crate) fn codes() -> String {
    let mut text = "/** What follows from each closing reason. */\n\
        export const CLOSE_REASONS: Record<\n  CloseReason,\n  { code: number; graphql_code: number \
        | null; reconnect: Reconnect; reconnect_allowed: boolean }\n> = {\n"
        .to_owned();
    for reason in CloseReason::ALL {
        let members = [
            ("code", json!(reason.code())),
            ("graphql_code", json!(reason.graphql_code())),
            ("reconnect", json!(reason.reconnect())),
            ("reconnect_allowed", json!(reason.reconnect_allowed())),
        ];
        writeln!(text, "  {}: {},", reason.as_str(), object(&members)).unwrap();
    }
    text.push_str(
        "};\n\n/** What each error code means over HTTP, and whether to try again. */\n\
         export const ERROR_CODES: Record<\n  ErrorCode,\n  { http_status: number | null; \
         retryable: boolean }\n> = {\n",
    );
    for code in ErrorCode::ALL {
        let members =
            [("http_status", json!(code.http_status())), ("retryable", json!(code.retryable()))];
        writeln!(text, "  {}: {},", code.as_str(), object(&members)).unwrap();
    }
    text.push_str("};\n");
    text
}

fn object(members: &[(&str, Value)]) -> String {
    let members: Vec<String> =
        members.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    format!("{{ {} }}", members.join(", "))
}
