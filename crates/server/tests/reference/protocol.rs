//! `docs/protocol.md`: every frame, type, code, closing reason and limit of the socket.

use std::collections::BTreeSet;

use heartline_protocol::limits::ClientLimits;
use heartline_protocol::{
    ChatId, ClientMessageId, CloseReason, ConnectionId, DeviceId, ErrorCode, InvalidId, MessageId,
    NodeId, RequestId, UserId,
};

use crate::document::{self, code, table};
use crate::source::{self, Member, Source, Word};
use heartline_testing::source::constants::{self, Constant};
use heartline_testing::source::types;

const DOCUMENT: &str = "docs/protocol.md";

/// Limits of the server's own that no client runs into by itself.
const INTERNAL: [&str; 14] = [
    "OUTBOX_WARNING_PERCENT",
    "URGENT_FRAMES_MAX",
    "WRITE_BATCH_FRAMES_MAX",
    "INGEST_PER_CHAT_MAX",
    "INGEST_PER_NODE_MAX",
    "SYNC_READS_MAX",
    "CLOSE_REASON_BYTES_MAX",
    "PUSH_USERS_MAX",
    "BREAKER_FAILURES",
    "BREAKER_WINDOW",
    "BREAKER_OPEN",
    "OUTBOX_MEMORY_PERCENT",
    "OUTBOX_MEMORY_REFUSE_PERCENT",
    "CLOSE_WRITE_DEADLINE",
];

#[test]
fn the_reference_of_the_protocol_is_current() {
    let source = Source::of_protocol();
    let sections = [
        ("frames of the client", frames(&source, "ClientFrame", "client")),
        ("frames of the server", frames(&source, "ServerFrame", "server")),
        ("types", named_types(&source)),
        ("ids", ids()),
        ("error codes", error_codes(&source)),
        ("closing reasons", closing_reasons(&source)),
        ("announced limits", announced_limits(&source)),
        ("other limits", other_limits()),
    ];
    document::assert_current(DOCUMENT, &sections);
}

/// In the hand-written parts a limit is written as its value with its name behind it.
#[test]
fn every_limit_that_the_prose_names_has_the_value_that_it_says() {
    let text = document::unwrapped(DOCUMENT);
    let mut parts = text.split(" (`");
    let mut before = parts.next().unwrap();
    let mut found = 0;
    for part in parts {
        let (name, _) = part.split_once('`').unwrap();
        let is_constant = name.contains('_') && name.chars().all(|letter| !letter.is_lowercase());
        if is_constant && ErrorCode::ALL.iter().all(|code| code.as_str() != name) {
            let value = &constants::limit(name).value;
            assert!(before.ends_with(value.as_str()), "{name} is {value}, not …{}", tail(before));
            found += 1;
        }
        before = part;
    }
    assert!(found > 5, "the prose names {found} limits");
}

fn tail(text: &str) -> &str {
    &text[text.floor_char_boundary(text.len().saturating_sub(20))..]
}

// === Frames ===

fn frames(source: &Source, name: &str, list: &str) -> String {
    let (_, words) = source.words(name).unwrap();
    words.iter().map(|frame| frame_section(source, frame, list)).collect()
}

fn frame_section(source: &Source, frame: &Word, list: &str) -> String {
    let Word { word, doc, members } = frame;
    assert!(!doc.is_empty(), "{word} has no doc comment");
    let fields = if members.is_empty() {
        "It has no fields of its own.\n\n".to_owned()
    } else {
        fields_table(source, members)
    };
    format!("### `{word}`\n\n{doc}\n\n{fields}```json\n{}\n```\n\n", example(list, word))
}

fn fields_table(source: &Source, members: &[Member]) -> String {
    let row = |member: &Member| {
        assert!(!member.doc.is_empty(), "{} has no doc comment", member.name);
        let need = if member.is_optional { "optional" } else { "always" };
        vec![code(&member.name), kind(source, &member.kind), need.to_owned(), member.doc.clone()]
    };
    let rows: Vec<_> = members.iter().map(row).collect();
    table(&["field", "type", "there", "meaning"], &rows)
}

/// A type in words, with a link to its description in this document.
fn kind(source: &Source, written: &str) -> String {
    if let Some(item) = written.strip_suffix("[]") {
        return format!("array of {}", kind(source, item));
    }
    let map = written.strip_prefix("Record<").and_then(|rest| rest.strip_suffix('>'));
    if let Some((key, value)) = map.and_then(|map| map.split_once(", ")) {
        return format!("object: {} by {}", kind(source, value), kind(source, key));
    }
    if types::TEXTS.iter().any(|(name, _)| *name == written) {
        return format!("[{written}](#ids-and-texts)");
    }
    match written {
        "ErrorCode" => "[ErrorCode](#error-codes)".to_owned(),
        "CloseReason" => "[CloseReason](#closing-reasons)".to_owned(),
        "ClientLimits" => "[ClientLimits](#limits)".to_owned(),
        "unknown" => "any JSON".to_owned(),
        "number" => "integer".to_owned(),
        name if source.object(name).is_some() || source.words(name).is_some() => {
            format!("[{name}](#type-{})", name.to_lowercase())
        }
        plain => plain.to_owned(),
    }
}

/// The first example of a type in the golden file, exactly as the wire has it.
fn example(list: &str, word: &str) -> String {
    let golden = document::read("crates/protocol/golden/frames.json");
    let (_, entries) = golden.split_once(&format!("\"{list}\": [\n")).unwrap();
    let entries = entries.split("\n]").next().unwrap();
    let begin = format!("\"frame\":{{\"type\":\"{word}\"");
    let entry = entries.lines().find(|line| line.contains(&begin));
    let entry = entry.unwrap_or_else(|| panic!("no example of {word}"));
    let (_, frame) = entry.split_once("\"frame\":").unwrap();
    let frame = frame.trim_end_matches(',').strip_suffix('}').unwrap();
    if frame.len() <= 96 { frame.to_owned() } else { spread(frame) }
}

/// An object with a line for each field.
fn spread(object: &str) -> String {
    let (mut spread, mut depth, mut in_string, mut is_escaped) = (String::new(), 0, false, false);
    for letter in object.chars() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if in_string => is_escaped = true,
            '"' => in_string = !in_string,
            '{' | '[' if !in_string => depth += 1,
            '}' | ']' if !in_string => depth -= 1,
            _ => {}
        }
        let ends = depth == 0 && letter == '}' && !in_string;
        spread.push_str(if ends { "\n" } else { "" });
        spread.push(letter);
        let breaks = depth == 1 && !in_string && matches!(letter, ',');
        let begins = depth == 1 && letter == '{' && spread.len() == 1;
        spread.push_str(if breaks || begins { "\n  " } else { "" });
    }
    spread
}

// === Types ===

/// Every type that a frame, or one of its types, has a field of.
fn named_types(source: &Source) -> String {
    let mut waiting: Vec<String> = Vec::new();
    for frames in ["ServerFrame", "ClientFrame"] {
        let (_, words) = source.words(frames).unwrap();
        waiting.extend(words.into_iter().flat_map(|word| word.members).map(|member| member.kind));
    }
    let mut seen = BTreeSet::from(["ErrorCode", "CloseReason", "ClientLimits"].map(str::to_owned));
    let mut text = String::new();
    while !waiting.is_empty() {
        let name = waiting.remove(0).trim_end_matches("[]").to_owned();
        let is_text = types::TEXTS.iter().any(|(text, _)| *text == name);
        if is_text || !seen.insert(name.clone()) {
            continue;
        }
        if let Some((doc, members)) = source.object(&name) {
            let fields = fields_table(source, &members);
            text.push_str(&format!("### Type {name}\n\n{doc}\n\n{fields}"));
            waiting.extend(members.into_iter().map(|member| member.kind));
        } else if let Some((doc, words)) = source.words(&name) {
            let rows: Vec<_> =
                words.into_iter().map(|word| vec![code(word.word), word.doc]).collect();
            let words = table(&["word", "meaning"], &rows);
            text.push_str(&format!("### Type {name}\n\n{doc}\n\n{words}"));
        }
    }
    text
}

fn ids() -> String {
    let expected = |refused: Result<(), InvalidId>| refused.unwrap_err().expected.to_owned();
    let form = |name: &str| match name {
        "ChatId" => expected("".parse::<ChatId>().map(drop)),
        "MessageId" => expected("".parse::<MessageId>().map(drop)),
        "ConnectionId" => expected("".parse::<ConnectionId>().map(drop)),
        "UserId" => expected("".parse::<UserId>().map(drop)),
        "DeviceId" => expected("".parse::<DeviceId>().map(drop)),
        "NodeId" => expected("".parse::<NodeId>().map(drop)),
        "RequestId" => expected("".parse::<RequestId>().map(drop)),
        "ClientMessageId" => expected("".parse::<ClientMessageId>().map(drop)),
        "Token" => format!("at most {} bytes", constants::limit("TOKEN_BYTES_MAX").value),
        "Timestamp" => "like `2023-11-14T22:13:20.007Z`".to_owned(),
        unknown => panic!("{unknown} has no form"),
    };
    let rows = types::TEXTS.map(|(name, doc)| vec![name.to_owned(), form(name), doc.to_owned()]);
    table(&["type", "form", "meaning"], &rows)
}

// === Codes and limits ===

fn error_codes(source: &Source) -> String {
    let (_, words) = source.words("ErrorCode").unwrap();
    let row = |code_of: ErrorCode| {
        let word = words.iter().find(|word| word.word == code_of.as_str()).unwrap();
        let status = code_of.http_status().map_or("–".to_owned(), |status| status.to_string());
        let retryable = if code_of.retryable() { "yes" } else { "no" };
        vec![code(code_of.as_str()), retryable.to_owned(), status, word.doc.clone()]
    };
    let rows = ErrorCode::ALL.map(row);
    table(&["code", "retryable", "HTTP status", "meaning, and what to do"], &rows)
}

fn closing_reasons(source: &Source) -> String {
    let (_, words) = source.words("CloseReason").unwrap();
    let (_, rules) = source.words("Reconnect").unwrap();
    let row = |reason: CloseReason| {
        let word = words.iter().find(|word| word.word == reason.as_str()).unwrap();
        let rule = serde_json::to_value(reason.reconnect()).unwrap();
        let allowed = if reason.reconnect_allowed() { "true" } else { "false" };
        vec![
            code(reason.as_str()),
            reason.code().to_string(),
            code(rule.as_str().unwrap()),
            allowed.to_owned(),
            word.doc.clone(),
        ]
    };
    let rows = CloseReason::ALL.map(row);
    let head = ["reason", "close code", "come back", "`reconnect_allowed`", "meaning"];
    let rules: Vec<_> = rules.into_iter().map(|rule| vec![code(rule.word), rule.doc]).collect();
    format!("{}{}", table(&head, &rows), table(&["come back", "how"], &rules))
}

fn announced_limits(source: &Source) -> String {
    let (_, members) = source.object("ClientLimits").unwrap();
    let defaults = serde_json::to_value(ClientLimits::default()).unwrap();
    let row = |member: Member| {
        let default = defaults[&member.name].to_string();
        vec![code(&member.name), default, member.doc]
    };
    let rows: Vec<_> = members.into_iter().map(row).collect();
    table(&["field of `limits`", "default", "meaning"], &rows)
}

/// The limits that are neither announced nor internal to the server.
fn other_limits() -> String {
    let all = constants::of(&source::file("crates/protocol/src/limits.rs"));
    for name in INTERNAL {
        assert!(all.iter().any(|limit| limit.name == name), "there is no limit {name}");
    }
    let source = document::read("crates/protocol/src/limits.rs");
    let (_, announced) = source.split_once("impl Default for ClientLimits").unwrap();
    let is_other = |limit: &Constant| {
        !INTERNAL.contains(&limit.name.as_str())
            && !announced.contains(&format!(": {}", limit.name))
    };
    let row = |limit: Constant| vec![code(limit.name), limit.value, limit.doc];
    let rows: Vec<_> = all.into_iter().filter(is_other).map(row).collect();
    table(&["limit", "default", "meaning"], &rows)
}
