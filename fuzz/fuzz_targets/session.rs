//! Any conversation at any pace: the session neither panics nor breaks its invariants, which are
//! those of its random tests.

#![no_main]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use heartline_auth::{AuthError, Claims};
use heartline_gateway::Config;
use heartline_gateway::session::{Admitted, Effect, Effects, Input, Moment, Response, Session};
use heartline_gateway::websocket::FrameError;
use heartline_protocol::{
    ClientFrame, CloseReason, DecodeError, Decoded, ErrorCode, RequestId, ServerFrame, Timestamp,
    decode_client,
};
use libfuzzer_sys::fuzz_target;
use tokio::time::Instant;

#[path = "../../crates/gateway/src/session/tests/invariants.rs"]
mod invariants;

use invariants::{Step, Walk};

#[derive(Debug, arbitrary::Arbitrary)]
struct Conversation {
    seed: u64,
    /// Whether it begins with a good token, so that the fuzzer need not find that out.
    is_admitted: bool,
    moves: Vec<Move>,
}

#[derive(Debug, arbitrary::Arbitrary)]
enum Move {
    Numbers(u8, u16),
    Says(String),
}

fuzz_target!(|conversation: Conversation| {
    let at = Moment { now: Instant::now(), wall: Timestamp { unix_ms: 1_700_000_000_000 } };
    let mut walk = Walk::new(conversation.seed, at);
    if conversation.is_admitted {
        walk.step(Step::Says(r#"{"type":"authenticate","token":"t"}"#.to_owned()));
        walk.step(Step::Response(7, Duration::from_secs(60)));
        walk.step(Step::Response(7, Duration::from_secs(60)));
    }
    for step in conversation.moves {
        walk.step(match step {
            Move::Numbers(kind, value) => Step::from_numbers(kind, value),
            Move::Says(text) => Step::Says(text),
        });
    }
});
