//! Restarts a loop that panicked.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use prometheus_client::metrics::counter::Counter;
use tracing::error;

use crate::Clock;

/// The shortest and the longest pause before a loop is restarted.
const BACK_OFF_MIN: Duration = Duration::from_millis(100);
const BACK_OFF_MAX: Duration = Duration::from_secs(5);

/// A loop that ran this long before it panicked is restarted after the shortest pause.
const STABLE_AFTER: Duration = Duration::from_secs(30);

/// Supervises a loop that the node needs, such as a listener: the task that awaits
/// [`run`](Self::run) owns the loop and survives its panics.
#[derive(Debug, Clone)]
pub struct Supervisor {
    name: &'static str,
    clock: Clock,
    restarts: Counter,
}

impl Supervisor {
    /// A supervisor that logs the loop under this name and counts its restarts here.
    pub fn new(name: &'static str, clock: Clock, restarts: Counter) -> Self {
        Self { name, clock, restarts }
    }

    /// Runs a loop. Each panic is counted and logged, and the loop is restarted after a growing
    /// pause. Returns when the loop ends by itself.
    pub async fn run<T, F: Future<Output = T>>(&self, mut begin: impl FnMut() -> F) -> T {
        let mut back_off = BACK_OFF_MIN;
        loop {
            let begun_at = self.clock.now();
            // The state after a panic is dropped with the future.
            if let Ok(output) = AssertUnwindSafe(async { begin().await }).catch_unwind().await {
                return output;
            }
            let restarts = self.restarts.inc() + 1;
            if self.clock.now() - begun_at >= STABLE_AFTER {
                back_off = BACK_OFF_MIN;
            }
            let back_off_ms = back_off.as_millis() as u64;
            error!(task = self.name, restarts, back_off_ms, "task panicked: restarting");
            tokio::time::sleep(back_off).await;
            back_off = (back_off * 2).min(BACK_OFF_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_panics_is_restarted_after_a_growing_pause() {
        let (clock, restarts) = (Clock::system(), Counter::default());
        let begun_at = clock.now();
        let mut runs = 0;
        let supervisor = Supervisor::new("test", clock, restarts.clone());
        let result = supervisor.run(|| {
            runs += 1;
            let run = runs;
            async move {
                assert!(run == 4, "on purpose");
                run
            }
        });
        assert_eq!(result.await, 4);
        assert_eq!(restarts.get(), 3);
        assert_eq!(clock.now() - begun_at, Duration::from_millis(100 + 200 + 400));
    }
}
