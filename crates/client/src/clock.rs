//! The current time, for tests of code that takes the time as an argument.

use heartline_runtime::Clock;
use tokio::time::Instant;

/// The current monotonic time.
pub(crate) fn now() -> Instant {
    Clock::system().now()
}
