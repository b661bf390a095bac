//! Waiting with a deadline.

use std::time::Duration;

use heartline_runtime::Clock;
use tokio::time::{sleep, timeout};

/// The deadline of every wait in a test; reaching it fails the test.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How often [`eventually`] polls.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Waits until a condition holds, and returns the duration.
///
/// # Panics
/// The condition does not hold within this time.
pub async fn eventually(what: &str, within: Duration, holds: impl AsyncFn() -> bool) -> Duration {
    let begun = Clock::system().now();
    let wait = async {
        while !holds().await {
            sleep(POLL_INTERVAL).await;
        }
    };
    assert!(timeout(within, wait).await.is_ok(), "not within {within:?}: {what}");
    Clock::system().now() - begun
}
