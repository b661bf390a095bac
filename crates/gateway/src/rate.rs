//! How much is too much: a token bucket for rates, strikes for repeated offences.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// A token bucket in integer nanoseconds. It stores the instant at which it is full again, so an
/// unused bucket needs no upkeep.
#[derive(Debug)]
pub struct TokenBucket {
    full_at: Instant,
}

/// How fast a bucket refills and how much it holds.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// Tokens that come back in a second.
    pub per_second: u32,
    /// Tokens that may be taken at once.
    pub burst: u32,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(now: Instant) -> Self {
        Self { full_at: now }
    }

    /// Whether it is full, so that nothing is lost by forgetting it.
    pub fn is_full(&self, now: Instant) -> bool {
        self.full_at <= now
    }

    /// Takes one token, or says how long it takes until there is one.
    pub fn take(&mut self, rate: Rate, now: Instant) -> Result<(), Duration> {
        let cost = Duration::from_secs(1) / rate.per_second.max(1);
        let full_at = self.full_at.max(now) + cost;
        let missing = (full_at - now).saturating_sub(cost * rate.burst);
        if missing.is_zero() {
            self.full_at = full_at;
            Ok(())
        } else {
            Err(missing)
        }
    }
}

/// Whole seconds to wait, at least one, as `retry_after_seconds` says them.
pub fn retry_after_seconds(wait: Duration) -> u64 {
    (wait.as_millis().div_ceil(1000) as u64).max(1)
}

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

    const RATE: Rate = Rate { per_second: 10, burst: 20 };

    #[test]
    fn a_burst_passes_and_then_the_rate_holds() {
        let start = Clock.now();
        let mut bucket = TokenBucket::new(start);
        for _ in 0..20 {
            assert_eq!(bucket.take(RATE, start), Ok(()));
        }
        assert_eq!(bucket.take(RATE, start), Err(Duration::from_millis(100)));
        let later = start + Duration::from_millis(100);
        assert_eq!(bucket.take(RATE, later), Ok(()));
        assert!(
            bucket.take(RATE, later).is_err(),
            "a refused take costs nothing and gives nothing"
        );
        let rested = start + Duration::from_secs(60);
        assert_eq!((0..30).filter(|_| bucket.take(RATE, rested).is_ok()).count(), 20);
    }

    #[test]
    fn a_wait_is_told_in_whole_seconds_of_at_least_one() {
        assert_eq!(retry_after_seconds(Duration::from_millis(1)), 1);
        assert_eq!(retry_after_seconds(Duration::from_millis(1001)), 2);
    }

    #[test]
    fn strikes_count_only_within_their_window() {
        let start = Clock.now();
        let mut strikes = Strikes::default();
        let window = Duration::from_secs(10);
        assert!(!strikes.strike(3, window, start));
        assert!(!strikes.strike(3, window, start));
        assert!(!strikes.strike(3, window, start + window));
        assert!(!strikes.strike(3, window, start + window));
        assert!(strikes.strike(3, window, start + window));
    }
}
