//! A circuit breaker for Redis, so that tasks do not pile up during an outage.
//!
//! Unlike the breaker of the store, this one opens after a few failures in a row and probes twice a
//! second: a node calls Redis many times a second, every call has its own deadline, and a node must
//! notice within a second that Redis is back.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use super::counters::RedisCounters;

/// Failures in a row that open the breaker.
const FAILURES_MAX: u32 = 5;

/// How often one call is let through while the breaker is open.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);

/// The breaker, shared by all callers of one client.
#[derive(Debug)]
pub(super) struct Breaker {
    counters: RedisCounters,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Closed { failures: u32 },
    Open { next_probe: Instant },
}

impl Breaker {
    /// A closed breaker.
    pub(super) fn new(counters: RedisCounters) -> Self {
        Self { counters, state: Mutex::new(State::Closed { failures: 0 }) }
    }

    /// Whether a call may be tried now. A call that is dropped halfway need not be reported.
    pub(super) fn admits(&self, now: Instant) -> bool {
        let mut state = self.lock();
        match &mut *state {
            State::Closed { .. } => true,
            State::Open { next_probe } if now < *next_probe => false,
            State::Open { next_probe } => {
                *next_probe = now + PROBE_INTERVAL;
                true
            }
        }
    }

    /// Redis answered.
    pub(super) fn succeeded(&self) {
        let mut state = self.lock();
        if matches!(*state, State::Open { .. }) {
            self.counters.breaker_state.set(0);
            info!("Redis answers again");
        }
        *state = State::Closed { failures: 0 };
    }

    /// Records a failure. Returns whether the breaker is open, so that the connection is suspect
    /// too.
    pub(super) fn failed(&self, now: Instant) -> bool {
        let mut state = self.lock();
        let State::Closed { failures } = &mut *state else { return true };
        *failures += 1;
        if *failures < FAILURES_MAX {
            return false;
        }
        *state = State::Open { next_probe: now + PROBE_INTERVAL };
        self.counters.breaker_state.set(1);
        self.counters.breaker_openings.inc();
        warn!(failures = FAILURES_MAX, "Redis is left alone: too many calls in a row failed");
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use heartline_runtime::Clock;

    use super::*;

    #[test]
    fn it_opens_after_failures_in_a_row_and_lets_one_probe_through_at_a_time() {
        let breaker = Breaker::new(RedisCounters::default());
        let start = Clock::system().now();
        for _ in 0..FAILURES_MAX - 1 {
            assert!(!breaker.failed(start));
        }
        breaker.succeeded();
        for _ in 0..FAILURES_MAX - 1 {
            assert!(!breaker.failed(start), "a success between begins the count anew");
        }
        assert!(breaker.failed(start));
        assert!(!breaker.admits(start));
        let later = start + PROBE_INTERVAL;
        assert!(breaker.admits(later), "the probe");
        assert!(!breaker.admits(later), "only one");
        assert!(breaker.failed(later));
        assert!(breaker.admits(later + PROBE_INTERVAL));
        breaker.succeeded();
        assert!(breaker.admits(later + PROBE_INTERVAL));
        assert!(breaker.admits(later + PROBE_INTERVAL), "it is closed again");
    }
}
