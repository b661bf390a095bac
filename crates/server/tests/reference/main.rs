//! The references for those who write clients: `docs/protocol.md`, `docs/graphql.md` and
//! `docs/rest.md` are written from what the code itself says.
//!
//! After a wanted change, `HEARTLINE_GOLDEN=write cargo test -p heartline --test reference` writes
//! them anew.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod document;
mod graphql;
mod protocol;
mod rest;
mod source;
