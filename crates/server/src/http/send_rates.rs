//! How fast each user may send without a socket: as fast as over one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use heartline_protocol::UserId;
use tokio::time::Instant;

/// Users that are remembered at once. One who has rested is as good as forgotten.
const USERS_MAX: usize = 100_000;

/// The rates of all users of this node. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct SendRates {
    /// What one message costs.
    cost: Duration,
    burst: u32,
    /// When each user's allowance is whole again.
    whole_at: Arc<Mutex<HashMap<UserId, Instant>>>,
}

impl SendRates {
    /// So many messages per second, of which so many may come at once.
    pub(super) fn new(per_second: u32, burst: u32) -> Self {
        let cost = Duration::from_secs(1) / per_second.max(1);
        Self { cost, burst, whole_at: Arc::default() }
    }

    /// Takes the allowance for one message, or says in how many seconds there is one.
    pub(super) fn take(&self, user_id: &UserId, now: Instant) -> Result<(), u64> {
        let mut users = self.whole_at.lock().unwrap_or_else(PoisonError::into_inner);
        if users.len() >= USERS_MAX && !users.contains_key(user_id) {
            users.retain(|_, whole_at| *whole_at > now);
            if users.len() >= USERS_MAX {
                return Err(1);
            }
        }
        let before = users.get(user_id).copied().unwrap_or(now).max(now);
        let after = before + self.cost;
        let missing = (after - now).saturating_sub(self.cost * self.burst);
        if !missing.is_zero() {
            return Err(missing.as_millis().div_ceil(1000).max(1) as u64);
        }
        users.insert(user_id.clone(), after);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(rates.whole_at.lock().unwrap().len(), 1);
    }
}
