//! The golden file: samples of every frame, code and invalid text in one JSON file, for clients in
//! any language to test against.
//!
//! The file equals the output of this crate byte for byte. After an intended change of the
//! protocol, `HEARTLINE_GOLDEN=write cargo test -p heartline-protocol --test golden` writes it
//! again.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod client;
mod file;
mod invalid;
mod server;

use std::collections::BTreeSet;

use heartline_protocol::{
    CloseReason, Decoded, ErrorCode, ServerFrame, decode_client, decode_server, encode_client,
    encode_server,
};
use serde_json::Value;

use crate::invalid::Rejection;

/// Gives every variant of a frame its wire name. A variant that is missing here does not compile.
macro_rules! frame_kinds {
    ($frame:ident: $($variant:ident = $kind:literal,)*) => {
        pub(crate) const KINDS: &[&str] = &[$($kind),*];

        pub(crate) fn kind(frame: &$frame) -> &'static str {
            match frame {
                $($frame::$variant { .. } => $kind,)*
            }
        }
    };
}
pub(crate) use frame_kinds;

/// A list of the golden file.
fn entries<'a>(golden: &'a Value, list: &str) -> &'a [Value] {
    golden[list].as_array().unwrap_or_else(|| panic!("there is no list {list}"))
}

#[test]
fn the_committed_file_is_current() {
    let rendered = file::render();
    if std::env::var_os("HEARTLINE_GOLDEN").is_some_and(|value| value == "write") {
        std::fs::write(file::PATH, &rendered).unwrap();
    }
    let committed = std::fs::read_to_string(file::PATH).unwrap_or_default();
    for (number, (committed, rendered)) in committed.lines().zip(rendered.lines()).enumerate() {
        assert_eq!(committed, rendered, "line {} of golden/frames.json is not current", number + 1);
    }
    assert_eq!(
        committed, rendered,
        "golden/frames.json is not current: HEARTLINE_GOLDEN=write cargo test -p \
         heartline-protocol --test golden writes it"
    );
}

#[test]
fn every_client_frame_in_the_file_decodes_to_its_sample() {
    let golden: Value = serde_json::from_str(&file::render()).unwrap();
    let samples = client::samples();
    let entries = entries(&golden, "client");
    assert_eq!(entries.len(), samples.len());
    for (entry, (_, frame)) in entries.iter().zip(samples) {
        // The object was parsed and printed again, so its fields now come in another order.
        let text = entry["frame"].to_string();
        assert_eq!(decode_client(&text), Ok(Decoded::Frame(frame.clone())), "{text}");
        let same: Value = serde_json::from_str(&encode_client(&frame)).unwrap();
        assert_eq!(entry["frame"], same);
        assert_eq!(entry["frame"]["type"], client::kind(&frame));
    }
}

#[test]
fn every_server_frame_in_the_file_decodes_to_its_sample() {
    let golden: Value = serde_json::from_str(&file::render()).unwrap();
    let samples = server::samples();
    let entries = entries(&golden, "server");
    assert_eq!(entries.len(), samples.len());
    for (entry, (_, frame)) in entries.iter().zip(samples) {
        let text = entry["frame"].to_string();
        assert_eq!(decode_server(&text).unwrap(), frame, "{text}");
        let same: Value = serde_json::from_str(&encode_server(&frame, server::NOW)).unwrap();
        assert_eq!(entry["frame"], same);
        assert_eq!(entry["frame"]["type"], server::kind(&frame));
        assert_eq!(entry["frame"]["timestamp"], server::NOW.to_string());
    }
}

#[test]
fn every_variant_of_a_frame_has_a_sample() {
    let client: BTreeSet<_> =
        client::samples().iter().map(|(_, frame)| client::kind(frame)).collect();
    assert_eq!(client, client::KINDS.iter().copied().collect());
    let server: BTreeSet<_> = server::samples()
        .iter()
        .map(|(_, frame)| server::kind(frame))
        // Only decoding returns it, for the frames in the list of ignored ones.
        .chain([server::kind(&ServerFrame::Unknown)])
        .collect();
    assert_eq!(server, server::KINDS.iter().copied().collect());
}

#[test]
fn every_field_occurs_and_every_optional_one_is_left_out_once() {
    let golden: Value = serde_json::from_str(&file::render()).unwrap();
    let optional: &[(&str, &str, &[&str])] = &[
        ("client", "authenticate", &["device_id"]),
        ("client", "send_message", &["content_type"]),
        ("client", "sync_request", &["limit"]),
        ("client", "sync_manifest", &["page"]),
        ("server", "connection_established", &["degraded"]),
        ("server", "message", &["deleted"]),
        ("server", "sync_manifest", &["next_page"]),
        ("server", "chat_changed", &["chat"]),
        ("server", "presence_changed", &["last_seen", "stale", "version"]),
        ("server", "resync_required", &["chat_ids"]),
        ("server", "error", &["request_id", "retry_after_seconds", "details"]),
        ("server", "connection_closing", &["sync_hints"]),
    ];
    for list in ["client", "server"] {
        let mut kinds: Vec<_> =
            entries(&golden, list).iter().map(|entry| entry["frame"]["type"].as_str()).collect();
        kinds.dedup();
        for kind in kinds.into_iter().flatten() {
            let found: Vec<_> = entries(&golden, list)
                .iter()
                .map(|entry| entry["frame"].as_object().unwrap())
                .filter(|frame| frame["type"] == kind)
                .collect();
            let in_some: BTreeSet<_> = found.iter().flat_map(|frame| frame.keys()).collect();
            let missing_once: BTreeSet<_> = in_some
                .into_iter()
                .filter(|field| found.iter().any(|frame| !frame.contains_key(*field)))
                .map(String::as_str)
                .collect();
            let expected =
                optional.iter().find(|(in_list, of_kind, _)| (*in_list, *of_kind) == (list, kind));
            let expected = expected.map_or(&[][..], |(_, _, fields)| fields);
            assert_eq!(missing_once, expected.iter().copied().collect(), "{list} {kind}");
        }
    }
}

#[test]
fn every_sample_of_a_list_has_its_own_name() {
    let golden: Value = serde_json::from_str(&file::render()).unwrap();
    for list in ["client", "server", "ignored_by_clients", "invalid"] {
        let names: BTreeSet<_> =
            entries(&golden, list).iter().map(|entry| entry["name"].as_str().unwrap()).collect();
        assert_eq!(names.len(), entries(&golden, list).len(), "{list}");
    }
}

#[test]
fn a_frame_of_a_later_version_is_unknown_and_not_an_error() {
    for (_, text) in server::ignored() {
        assert_eq!(decode_server(text).unwrap(), ServerFrame::Unknown, "{text}");
    }
}

#[test]
fn every_invalid_text_is_rejected_as_in_the_file() {
    for (name, text, expected) in invalid::samples() {
        assert_eq!(Rejection::of(&text), Some(expected), "{name}: {text}");
    }
}

#[test]
fn every_code_and_reason_of_the_file_can_be_read() {
    let golden: Value = serde_json::from_str(&file::render()).unwrap();
    let codes: Vec<ErrorCode> = entries(&golden, "errors")
        .iter()
        .map(|entry| serde_json::from_value(entry["code"].clone()).unwrap())
        .collect();
    assert_eq!(codes, ErrorCode::ALL);
    let reasons: Vec<CloseReason> = entries(&golden, "closing_reasons")
        .iter()
        .map(|entry| serde_json::from_value(entry["reason"].clone()).unwrap())
        .collect();
    assert_eq!(reasons, CloseReason::ALL);
}
