//! Waiting with an end.

use std::time::Duration;

use heartline_runtime::Clock;
use tokio::time::{sleep, timeout};

/// Longer than anything that a test waits for: reaching it means that the test has failed.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How often [`eventually`] looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Waits until a condition holds, and returns how long that took.
///
/// # Panics
/// It does not hold within this time.
pub async fn eventually(what: &str, within: Duration, holds: impl AsyncFn() -> bool) -> Duration {
    let begun = Clock::system().now();
    let wait = async {
        while !holds().await {
            sleep(LOOK_INTERVAL).await;
        }
    };
    assert!(timeout(within, wait).await.is_ok(), "not within {within:?}: {what}");
    Clock::system().now() - begun
}
