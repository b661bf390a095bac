//! Several nodes that share a Redis and a PostgreSQL: real processes, real engines, real faults,
//! real time.
//!
//! `HEARTLINE_LONG=1` selects the long forms; `scripts/cluster` runs them.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a failed run says what it saw")]

mod nodes;
mod directory;
mod recording_socket;
mod link_monitor;
mod crowd;
mod talk;
mod lossy;

mod vectors;
mod zombie;
mod crash;
mod wipe;
mod outage;
mod gap;
mod pause;
mod devices;
mod rules;
mod planes;
mod presence;
mod tiers;
mod privacy;
mod redis_cluster;
mod party_together;
mod party_moves;
mod party_ends;
mod chaos;
mod party_replica;
mod party_session;
mod party_edits;
mod party_order;
mod party_player;
mod party_chaos;
mod party_leaders;
mod party_outage;
mod party_restore;
mod doctor;

use heartline_testing::Binary;

/// The program under test.
const HEARTLINE: Binary =
    Binary { path: env!("CARGO_BIN_EXE_heartline"), directory: env!("CARGO_TARGET_TMPDIR") };
