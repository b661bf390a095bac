//! Constants and tables, from the crate's own values.

use std::fmt::Write;
use std::time::Duration;

use heartline_protocol::limits::{self, ClientLimits};
use heartline_protocol::{
    CloseReason, DEFAULT_CONTENT_TYPE, ErrorCode, PROTOCOL_VERSION, SUBPROTOCOL,
};
use serde_json::{Value, json};

use heartline_testing::source::{constants, types};

/// The limits that a client enforces by itself: the name in TypeScript, the name here, the value.
const NUMBERS: [(&str, &str, u64); 8] = [
    ("CONTENT_BYTES_MAX", "CONTENT_BYTES_MAX", limits::CONTENT_BYTES_MAX as u64),
    ("CONTENT_TYPE_BYTES_MAX", "CONTENT_TYPE_BYTES_MAX", limits::CONTENT_TYPE_BYTES_MAX as u64),
    (
        "PRESENCE_USERS_PER_CONNECTION_MAX",
        "PRESENCE_USERS_PER_CONNECTION_MAX",
        limits::PRESENCE_USERS_PER_CONNECTION_MAX as u64,
    ),
    ("TOKEN_BYTES_MAX", "TOKEN_BYTES_MAX", limits::TOKEN_BYTES_MAX as u64),
    (
        "RECONNECT_JITTER_PERCENT",
        "RECONNECT_JITTER_PERCENT",
        limits::RECONNECT_JITTER_PERCENT as u64,
    ),
    ("RECONNECT_DELAY_MIN_MS", "RECONNECT_DELAY_MIN", milliseconds(limits::RECONNECT_DELAY_MIN)),
    ("RECONNECT_DELAY_MAX_MS", "RECONNECT_DELAY_MAX", milliseconds(limits::RECONNECT_DELAY_MAX)),
    (
        "CLOSE_ANSWER_DEADLINE_MS",
        "CLOSE_ANSWER_DEADLINE",
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
            "The content type of a message whose sender gives none.",
            json!(DEFAULT_CONTENT_TYPE),
        ),
    ];
    let numbers = NUMBERS
        .map(|(name, limit, number)| (name, constants::limit(limit).doc.as_str(), json!(number)));
    for (name, doc, value) in named.into_iter().chain(numbers) {
        writeln!(text, "/** {doc} */\nexport const {name} = {value};").unwrap();
    }
    let limits = serde_json::to_value(ClientLimits::default()).unwrap();
    text.push_str("/** The limits of a server with the default configuration. */\n");
    text.push_str("export const DEFAULT_LIMITS: ClientLimits = {\n");
    for (name, value) in limits.as_object().unwrap() {
        writeln!(text, "  {name}: {value},").unwrap();
    }
    text.push_str("};\n");
    text
}

/// The types of plain texts.
pub(crate) fn ids() -> String {
    let lines =
        types::TEXTS.map(|(name, doc)| format!("/** {doc} */\nexport type {name} = string;\n"));
    format!("{}\n", lines.concat())
}

/// The close code and the next step of each closing reason, and the retryable errors. Nothing more,
/// because every page downloads this table.
pub(crate) fn codes() -> String {
    let mut text = "/** The close code and the next step of each closing reason. */\n\
        export const CLOSE_REASONS: Record<CloseReason, { code: number; reconnect: Reconnect }> = {\n"
        .to_owned();
    for reason in CloseReason::ALL {
        let members = [("code", json!(reason.code())), ("reconnect", json!(reason.reconnect()))];
        writeln!(text, "  {}: {},", reason.as_str(), object(&members)).unwrap();
    }
    text.push_str("};\n\n/** The errors after which a client retries. */\n");
    text.push_str("export const RETRYABLE_ERRORS: readonly ErrorCode[] = [\n");
    for code in ErrorCode::ALL.iter().filter(|code| code.retryable()) {
        writeln!(text, "  {},", json!(code)).unwrap();
    }
    text.push_str("];\n");
    text
}

fn object(members: &[(&str, Value)]) -> String {
    let members: Vec<String> =
        members.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    format!("{{ {} }}", members.join(", "))
}
