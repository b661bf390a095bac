//! Counts offences within a sliding window.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// The times of recent offences; nothing is allocated until the first one.
#[derive(Debug, Default)]
pub(crate) struct SlidingWindow {
    times: VecDeque<Instant>,
}

impl SlidingWindow {
    /// Records an offence; true when it is the `max`th within `window`.
    pub(crate) fn record(&mut self, max: usize, window: Duration, now: Instant) -> bool {
        self.times.retain(|&time| now - time < window);
        self.times.push_back(now);
        self.times.len() >= max
    }
}

#[cfg(test)]
mod tests {
    use heartline_runtime::Clock;

    use super::*;

    #[test]
    fn offences_count_only_within_their_window() {
        let start = Clock::system().now();
        let mut offences = SlidingWindow::default();
        let window = Duration::from_secs(10);
        assert!(!offences.record(3, window, start));
        assert!(!offences.record(3, window, start));
        assert!(!offences.record(3, window, start + window));
        assert!(!offences.record(3, window, start + window));
        assert!(offences.record(3, window, start + window));
    }
}
