//! The whole server over real sockets: a real process, real signals, real time.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod bench;
mod welcome;
mod refused_tokens;
mod refused_upgrades;
mod peers;
mod slow_consumers;
mod bad_frames;
mod stalled_crowd;
mod drain;
mod silence;
mod pauses;
mod leases;
mod connection_limits;
mod duplicates;
mod push;
mod admin;
mod page;
mod metrics;
mod lives;
mod bad_configuration;
mod tokens_over_time;
mod key_rotation;
mod tls;
mod out_of_files;
mod connect_chat;
mod rest_client;
mod rest_document;
mod rest_chats;
mod rest_members;
mod rest_messages;
mod rest_users;
mod rest_privacy;
mod rest_bad_input;
mod rest_cors;
mod rest_store_down;
mod rest_races;
mod chat_delivery;
mod chat_idempotency;
mod chat_limits;
mod chat_breaker;
mod chat_restart;
mod party;
mod party_archived;
mod party_bounds;
mod party_slow;
mod party_faults;
mod chat_crowd;
mod presence;
mod presence_tiers;
mod presence_privacy;
mod presence_trace;
mod presence_ends;
mod presence_crowd;
mod presence_client;
mod doctor;

use heartline_testing::Binary;

/// The program under test.
const HEARTLINE: Binary =
    Binary { path: env!("CARGO_BIN_EXE_heartline"), directory: env!("CARGO_TARGET_TMPDIR") };
