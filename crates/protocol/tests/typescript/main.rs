//! The TypeScript client's vocabulary: `clients/typescript/src/protocol.gen.ts` is written from
//! this crate's own source, so that a frame, a code or a limit has one home.
//!
//! After a wanted change of the wire,
//! `HEARTLINE_GOLDEN=write cargo test -p heartline-protocol --test typescript` writes it anew.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod comment;
mod render;
mod tables;

use std::path::{Path, PathBuf};

use heartline_testing::source::constants;

/// The modules whose types are said on the wire.
const MODULES: [&str; 6] =
    ["close", "error_code", "limits", "server_frame", "client_frame", "rest"];

const HEAD: &str = "\
// Written by the crate `heartline-protocol` from its own source; do not edit.
// HEARTLINE_GOLDEN=write cargo test -p heartline-protocol --test typescript
";

fn output() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    root.join("clients/typescript/src/protocol.gen.ts")
}

fn module(name: &str) -> syn::File {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(format!("{name}.rs"));
    constants::file(&path)
}

/// The whole file.
fn written() -> String {
    let mut text = format!("{HEAD}\n{}\n{}", tables::constants(), tables::ids());
    for name in MODULES {
        text.push_str(&render::module(name, &module(name)));
    }
    text.push_str(&tables::codes());
    text
}

#[test]
fn the_committed_file_is_what_the_crate_writes() {
    let written = written();
    if std::env::var_os("HEARTLINE_GOLDEN").is_some_and(|value| value == "write") {
        std::fs::write(output(), &written).unwrap();
    }
    let committed = std::fs::read_to_string(output()).unwrap_or_default();
    for (number, (committed, written)) in committed.lines().zip(written.lines()).enumerate() {
        assert_eq!(committed, written, "line {} of protocol.gen.ts is old", number + 1);
    }
    assert_eq!(
        committed, written,
        "protocol.gen.ts is old: HEARTLINE_GOLDEN=write cargo test -p heartline-protocol --test \
         typescript writes it"
    );
}

#[test]
fn every_type_is_named_once() {
    let written = written();
    let mut names: Vec<&str> = written
        .lines()
        .filter_map(|line| line.strip_prefix("export "))
        .filter_map(|rest| rest.split_whitespace().nth(1))
        .collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all, "{names:?}");
}
