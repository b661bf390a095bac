//! The one place of the client that reads a clock.

use std::time::SystemTime;

use heartline_protocol::Timestamp;
use tokio::time::Instant;

/// The monotonic clock, for every pause and deadline.
#[expect(clippy::disallowed_methods, reason = "the client has no server clock: this is its own")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The wall clock, only to be compared with the expiry of tokens.
#[expect(clippy::disallowed_methods, reason = "the client has no server clock: this is its own")]
pub(crate) fn wall() -> Timestamp {
    SystemTime::now().into()
}
