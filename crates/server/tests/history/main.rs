//! The history test: many clients, a server that is killed under them, and a checker that knows
//! every promise that was made.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod history;
mod checker;
mod cursor;
mod session;
mod client;
mod rest;
mod server;
mod mounts;
mod nemesis;
mod cluster;
mod strikes;
mod run;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod cluster_runs;

use heartline_testing::Binary;

/// The program under test.
const HEARTLINE: Binary =
    Binary { path: env!("CARGO_BIN_EXE_heartline"), directory: env!("CARGO_TARGET_TMPDIR") };
