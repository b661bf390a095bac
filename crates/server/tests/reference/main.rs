//! The references for those who write clients: `docs/protocol.md`, `docs/graphql.md` and
//! `docs/rest.md` are written from what the code itself says.
//!
//! After a wanted change, `HEARTLINE_GOLDEN=write cargo test -p heartline --test reference` writes
//! them anew.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

#[path = "../../../protocol/tests/typescript/attributes.rs"]
mod attributes;
#[path = "../../../protocol/tests/typescript/constants.rs"]
mod constants;
mod document;
mod graphql;
mod protocol;
mod rest;
mod source;
#[path = "../../../protocol/tests/typescript/types.rs"]
mod types;
