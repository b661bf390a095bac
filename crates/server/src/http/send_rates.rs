//! How fast each user may send without a socket: as fast as over one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use heartline_gateway::rate::{Rate, TokenBucket, retry_after_seconds};
use heartline_protocol::UserId;
use tokio::time::Instant;

/// Users that are remembered at once. One who has rested is as good as forgotten.
const USERS_MAX: usize = 100_000;

/// The rates of all users of this node. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct SendRates {
    rate: Rate,
    buckets: Arc<Mutex<HashMap<UserId, TokenBucket>>>,
}

impl SendRates {
    /// So many messages per second, of which so many may come at once.
    pub(super) fn new(per_second: u32, burst: u32) -> Self {
        Self { rate: Rate { per_second, burst }, buckets: Arc::default() }
    }

    /// Takes the allowance for one message, or says in how many seconds there is one.
    pub(super) fn take(&self, user_id: &UserId, now: Instant) -> Result<(), u64> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= USERS_MAX && !buckets.contains_key(user_id) {
            buckets.retain(|_, bucket| !bucket.is_full(now));
            if buckets.len() >= USERS_MAX {
                return Err(1);
            }
        }
        let bucket = buckets.entry(user_id.clone()).or_insert_with(|| TokenBucket::new(now));
        bucket.take(self.rate, now).map_err(retry_after_seconds)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use heartline_routing::Clock;

    use super::*;

    #[test]
    fn a_burst_passes_then_the_rate_holds_and_nobody_pays_for_another() {
        let rates = SendRates::new(10, 20);
        let (ana, bo): (UserId, UserId) = ("ana".parse().unwrap(), "bo".parse().unwrap());
        let start = Clock.now();
        for _ in 0..20 {
            assert_eq!(rates.take(&ana, start), Ok(()));
        }
        assert_eq!(rates.take(&ana, start), Err(1));
        assert_eq!(rates.take(&bo, start), Ok(()));
        assert_eq!(rates.take(&ana, start + Duration::from_millis(100)), Ok(()));
        assert_eq!(rates.take(&ana, start + Duration::from_millis(100)), Err(1));
    }

    #[test]
    fn a_crowd_is_forgotten_when_it_has_rested() {
        let rates = SendRates::new(10, 20);
        let start = Clock.now();
        for number in 0..USERS_MAX {
            rates.take(&format!("user-{number}").parse().unwrap(), start).unwrap();
        }
        let late: UserId = "late".parse().unwrap();
        assert_eq!(rates.take(&late, start), Err(1));
        assert_eq!(rates.take(&late, start + Duration::from_secs(1)), Ok(()));
        assert_eq!(rates.buckets.lock().unwrap().len(), 1);
    }
}
