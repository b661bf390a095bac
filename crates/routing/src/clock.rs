//! The one place that reads a clock.
//!
//! Everything else takes the time as an argument, so that rules about time can be tested without
//! waiting, and so that any number of servers can run in one process.

use std::time::SystemTime;

use heartline_protocol::Timestamp;
use tokio::time::Instant;

/// A handle to the process' clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock;

#[expect(clippy::disallowed_methods, reason = "this is the place that the ban points to")]
impl Clock {
    /// The monotonic clock, for every duration, deadline and lease.
    pub fn now(&self) -> Instant {
        Instant::now()
    }

    /// The wall clock, only for what people and tokens see.
    pub fn wall(&self) -> Timestamp {
        SystemTime::now().into()
    }
}
