//! Rate limits: token buckets, alone or one for each of many keys.

use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use heartline_protocol::retry_after_seconds;
use heartline_runtime::Map;
use tokio::time::Instant;

/// Buckets that are kept, at most. A full bucket need not be kept.
const KEYS_MAX: usize = 100_000;

/// The refill rate and the size of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Tokens that are refilled per period.
    pub count: u32,
    /// The period.
    pub period: Duration,
    /// Tokens that may be taken at once.
    pub burst: u32,
}

impl Rate {
    /// So many tokens a second, with this burst.
    pub fn per_second(count: u32, burst: u32) -> Self {
        Self { count, period: Duration::from_secs(1), burst }
    }

    /// So many tokens a minute, all of which may be taken at once.
    pub fn per_minute(count: u32) -> Self {
        Self { count, period: Duration::from_secs(60), burst: count }
    }
}

/// A token bucket in integer nanoseconds, which stores the instant at which it is full again, so an
/// unused bucket needs no upkeep.
#[derive(Debug, Clone, Copy)]
pub struct TokenBucket {
    full_at: Instant,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(now: Instant) -> Self {
        Self { full_at: now }
    }

    /// Takes one token, or returns the time until there is one.
    pub fn take(&mut self, rate: Rate, now: Instant) -> Result<(), Duration> {
        let cost = rate.period / rate.count.max(1);
        let full_at = self.full_at.max(now) + cost;
        let missing = (full_at - now).saturating_sub(cost * rate.burst.max(1));
        if missing.is_zero() {
            self.full_at = full_at;
            Ok(())
        } else {
            Err(missing)
        }
    }

    /// Whether the bucket is full, so that it can be dropped.
    fn is_full(&self, now: Instant) -> bool {
        self.full_at <= now
    }
}

/// One bucket per key: users, accounts, addresses. Clones share the buckets.
#[derive(Debug)]
pub struct Allowances<Key> {
    rate: Rate,
    buckets: Arc<Mutex<Map<Key, TokenBucket>>>,
}

impl<Key: Hash + Eq + Clone> Allowances<Key> {
    /// Buckets of the same rate for every key.
    pub fn new(rate: Rate) -> Self {
        Self { rate, buckets: Arc::default() }
    }

    /// Takes one token of this key, or returns the seconds until there is one.
    pub fn take(&self, key: &Key, now: Instant) -> Result<(), u64> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = buckets.get_mut(key) {
            return bucket.take(self.rate, now).map_err(retry_after_seconds);
        }
        if buckets.len() >= KEYS_MAX {
            buckets.retain(|_, bucket| !bucket.is_full(now));
            if buckets.len() >= KEYS_MAX {
                return Err(1);
            }
        }
        let mut bucket = TokenBucket::new(now);
        let taken = bucket.take(self.rate, now).map_err(retry_after_seconds);
        buckets.insert(key.clone(), bucket);
        taken
    }
}

// Not derived, because that would require keys to be cloneable.
impl<Key> Clone for Allowances<Key> {
    fn clone(&self) -> Self {
        Self { rate: self.rate, buckets: Arc::clone(&self.buckets) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heartline_runtime::Clock;

    #[test]
    fn a_burst_passes_and_then_the_rate_holds() {
        let rate = Rate::per_second(10, 20);
        let start = Clock::system().now();
        let mut bucket = TokenBucket::new(start);
        for _ in 0..20 {
            assert_eq!(bucket.take(rate, start), Ok(()));
        }
        assert_eq!(bucket.take(rate, start), Err(Duration::from_millis(100)));
        let later = start + Duration::from_millis(100);
        assert_eq!(bucket.take(rate, later), Ok(()));
        assert!(
            bucket.take(rate, later).is_err(),
            "a refused take costs nothing and gives nothing"
        );
        let rested = start + Duration::from_secs(60);
        assert_eq!((0..30).filter(|_| bucket.take(rate, rested).is_ok()).count(), 20);
    }

    #[test]
    fn every_key_has_a_bucket_of_its_own() {
        let rates = Allowances::<&str>::new(Rate::per_minute(2));
        let start = Clock::system().now();
        assert_eq!(rates.take(&"ana", start), Ok(()));
        assert_eq!(rates.take(&"ana", start), Ok(()));
        assert_eq!(rates.take(&"ana", start), Err(30));
        assert_eq!(rates.clone().take(&"bo", start), Ok(()));
        assert_eq!(rates.take(&"ana", start + Duration::from_secs(30)), Ok(()));
        assert_eq!(rates.take(&"ana", start + Duration::from_secs(30)), Err(30));
    }

    #[test]
    fn full_buckets_are_dropped() {
        let rates = Allowances::<usize>::new(Rate::per_second(10, 20));
        let start = Clock::system().now();
        for number in 0..KEYS_MAX {
            rates.take(&number, start).unwrap();
        }
        assert_eq!(rates.take(&KEYS_MAX, start), Err(1));
        assert_eq!(rates.take(&0, start), Ok(()), "known keys are still served");
        assert_eq!(rates.take(&KEYS_MAX, start + Duration::from_secs(1)), Ok(()));
        assert_eq!(rates.buckets.lock().unwrap().len(), 1);
    }
}
