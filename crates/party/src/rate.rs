//! How often one connection may ask for something.

use std::time::Duration;

use heartline_protocol::ErrorCode;
use tokio::time::Instant;

use crate::error::PartyError;

/// How fast a bucket refills and how much it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// How many may be asked for in a period.
    pub count: u32,
    /// The period.
    pub period: Duration,
    /// How many may be asked for at once.
    pub burst: u32,
}

/// The rates of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartyRates {
    /// Edits of the queue, and changes of the name.
    pub edits: Rate,
    /// Questions, counted apart from edits.
    pub questions: Rate,
    /// Joining a session.
    pub joins: Rate,
    /// Creating and ending sessions.
    pub lifecycle: Rate,
}

impl Default for PartyRates {
    fn default() -> Self {
        let per_minute = |count| Rate { count, period: Duration::from_secs(60), burst: count };
        let often = Rate { count: 50, period: Duration::from_secs(1), burst: 100 };
        Self { edits: often, questions: often, joins: per_minute(30), lifecycle: per_minute(5) }
    }
}

/// A token bucket. It holds the instant at which it is full again, so that one that is not used
/// needs no upkeep.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bucket {
    full_at: Instant,
}

impl Bucket {
    pub(crate) fn new(now: Instant) -> Self {
        Self { full_at: now }
    }

    /// Whether nothing is lost by forgetting it.
    pub(crate) fn is_full(&self, now: Instant) -> bool {
        self.full_at <= now
    }

    /// Takes one token, or says in how many seconds there is one.
    pub(crate) fn take(&mut self, rate: Rate, now: Instant) -> Result<(), PartyError> {
        let cost = rate.period / rate.count.max(1);
        let full_at = self.full_at.max(now) + cost;
        let missing = (full_at - now).saturating_sub(cost * rate.burst.max(1));
        if missing.is_zero() {
            self.full_at = full_at;
            return Ok(());
        }
        let seconds = (missing.as_millis().div_ceil(1000) as u64).max(1);
        let message = format!("Rate limit exceeded. Try again in {seconds} seconds.");
        Err(PartyError::new(ErrorCode::RateLimited, message).after(seconds))
    }
}

#[cfg(test)]
mod tests {
    use heartline_routing::Clock;

    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_wait_is_told() {
        let rate = Rate { count: 30, period: Duration::from_secs(60), burst: 3 };
        let start = Clock.now();
        let mut bucket = Bucket::new(start);
        for _ in 0..3 {
            bucket.take(rate, start).unwrap();
        }
        let refused = bucket.take(rate, start).unwrap_err();
        assert_eq!(refused.message, "Rate limit exceeded. Try again in 2 seconds.");
        assert_eq!(refused.retry_after_seconds, Some(2));
        assert!(!bucket.is_full(start + Duration::from_secs(5)));
        bucket.take(rate, start + Duration::from_secs(2)).unwrap();
        assert!(bucket.take(rate, start + Duration::from_secs(2)).is_err());
        assert!(bucket.is_full(start + Duration::from_secs(8)));
    }
}
