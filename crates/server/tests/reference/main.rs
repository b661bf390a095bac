//! The references for authors of clients: `docs/protocol.md`, `docs/graphql.md` and `docs/rest.md`
//! are generated from the code.
//!
//! After an intended change, `HEARTLINE_GOLDEN=write cargo test -p heartline --test reference`
//! writes them again.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod document;
mod graphql;
mod protocol;
mod rest;
mod source;
