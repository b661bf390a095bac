//! Offences that are forgiven once and not for ever.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Counts offences in a sliding window. It holds nothing until the first offence.
#[derive(Debug, Default)]
pub(crate) struct Strikes {
    times: VecDeque<Instant>,
}

impl Strikes {
    /// Records an offence; true when it is the `max`th within `window`.
    pub(crate) fn strike(&mut self, max: usize, window: Duration, now: Instant) -> bool {
        self.times.retain(|&time| now - time < window);
        self.times.push_back(now);
        self.times.len() >= max
    }
}

#[cfg(test)]
mod tests {
    use heartline_routing::Clock;

    use super::*;

    #[test]
    fn strikes_count_only_within_their_window() {
        let start = Clock::system().now();
        let mut strikes = Strikes::default();
        let window = Duration::from_secs(10);
        assert!(!strikes.strike(3, window, start));
        assert!(!strikes.strike(3, window, start));
        assert!(!strikes.strike(3, window, start + window));
        assert!(!strikes.strike(3, window, start + window));
        assert!(strikes.strike(3, window, start + window));
    }
}
