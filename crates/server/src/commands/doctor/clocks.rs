//! Compares the clock of a server with that of this machine.

use super::report::Finding;

/// The difference above which the doctor warns.
const AHEAD_MAX_MS: u64 = 1000;

/// The finding for a server's clock that is ahead of this machine's.
pub(super) fn finding(name: &'static str, server: &str, ahead_ms: i64) -> Finding {
    let ahead = format!("{server} is {ahead_ms} ms ahead of this machine");
    match ahead_ms.unsigned_abs() > AHEAD_MAX_MS {
        true => Finding::warn(name, ahead)
            .advise("synchronise both with a time server; only logs and tokens depend on it"),
        false => Finding::pass(name, ahead),
    }
}
