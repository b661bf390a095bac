//! The time, for tests of rules that take it as an argument.

use heartline_runtime::Clock;
use tokio::time::Instant;

/// A moment to begin with.
pub(crate) fn now() -> Instant {
    Clock::system().now()
}
