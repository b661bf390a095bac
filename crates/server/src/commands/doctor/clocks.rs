//! Whether servers agree on the time.

use super::report::Finding;

/// How far clocks may differ before it is worth a word.
const AHEAD_MAX_MS: u64 = 1000;

/// Judges how far a server's clock is ahead of this machine's.
pub(super) fn judge(name: &'static str, server: &str, ahead_ms: i64) -> Finding {
    let ahead = format!("{server} is {ahead_ms} ms ahead of this machine");
    match ahead_ms.unsigned_abs() > AHEAD_MAX_MS {
        true => Finding::warn(name, ahead)
            .advise("synchronise both with a time server; only logs and tokens depend on it"),
        false => Finding::pass(name, ahead),
    }
}
