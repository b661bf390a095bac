//! A circuit breaker: a failing store is not called for a while, and then tried by one probe.
//!
//! Only infrastructure failures and missed deadlines count. A refusal because of the request is a
//! success: a bad chat never opens the breaker.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use heartline_protocol::limits;
use heartline_runtime::Clock;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;
use tracing::{info, warn};

/// The number of parts of the window; old calls leave it part by part.
const BUCKETS: usize = 30;

/// When a breaker opens and how long it stays so.
#[derive(Debug, Clone, Copy)]
pub struct BreakerConfig {
    /// Failures within the window that open the breaker, if they are at least half of the calls.
    pub failures: usize,
    /// The window.
    pub window: Duration,
    /// How long the breaker stays open before a probe, and how long a probe may take.
    pub open: Duration,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self {
            failures: limits::BREAKER_FAILURES,
            window: limits::BREAKER_WINDOW,
            open: limits::BREAKER_OPEN,
        }
    }
}

/// The metrics of a breaker.
#[derive(Debug, Clone, Default)]
pub struct BreakerMetrics {
    /// 0 closed, 1 open, 2 waiting for its probe.
    pub state: Gauge,
    /// Times that the breaker opened.
    pub openings: Counter,
}

/// A circuit breaker, shared by all callers of the same part.
#[derive(Debug)]
pub struct Breaker {
    name: &'static str,
    config: BreakerConfig,
    clock: Clock,
    metrics: BreakerMetrics,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    window: Window,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Closed,
    Open {
        until: Instant,
    },
    /// One call is admitted as a probe; if it does not report by the deadline, another one may.
    Probing {
        until: Instant,
    },
}

/// The permission for one call. If it is dropped without a report, it counts as neither success nor
/// failure.
#[derive(Debug)]
pub struct Pass {
    breaker: Arc<Breaker>,
    is_probe: bool,
    is_settled: bool,
}

impl Breaker {
    /// A closed breaker. The name is for the log.
    pub fn new(
        name: &'static str,
        config: BreakerConfig,
        clock: Clock,
        metrics: BreakerMetrics,
    ) -> Self {
        let window = Window::new(clock.now(), config.window / BUCKETS as u32);
        let state = Mutex::new(State { phase: Phase::Closed, window });
        Self { name, config, clock, metrics, state }
    }

    /// Requests permission for a call; the error is the time to wait.
    pub fn admit(self: &Arc<Self>) -> Result<Pass, Duration> {
        let now = self.clock.now();
        let mut state = self.lock();
        let is_probe = match state.phase {
            Phase::Closed => false,
            Phase::Open { until } | Phase::Probing { until } if now < until => {
                return Err(until - now);
            }
            Phase::Open { .. } | Phase::Probing { .. } => {
                state.phase = Phase::Probing { until: now + self.config.open };
                self.metrics.state.set(2);
                info!(breaker = self.name, "breaker half-open: one call is admitted as a probe");
                true
            }
        };
        Ok(Pass { breaker: Arc::clone(self), is_probe, is_settled: false })
    }

    /// Whether calls are refused at the moment.
    pub fn is_open(&self) -> bool {
        self.lock().phase != Phase::Closed
    }

    fn succeeded(&self, is_probe: bool) {
        let now = self.clock.now();
        let mut state = self.lock();
        state.window.count(now, false);
        if is_probe && matches!(state.phase, Phase::Probing { .. }) {
            state.phase = Phase::Closed;
            state.window.clear();
            self.metrics.state.set(0);
            info!(breaker = self.name, "breaker closed");
        }
    }

    fn failed(&self, is_probe: bool) {
        let now = self.clock.now();
        let mut state = self.lock();
        state.window.count(now, true);
        let (calls, failures) = state.window.total(now);
        let opens = match state.phase {
            Phase::Closed => failures >= self.config.failures && failures * 2 >= calls,
            Phase::Probing { .. } => is_probe,
            Phase::Open { .. } => false,
        };
        if opens {
            state.phase = Phase::Open { until: now + self.config.open };
            self.metrics.state.set(1);
            self.metrics.openings.inc();
            warn!(breaker = self.name, failures, calls, "too many failures: calls are refused");
        }
    }

    /// An abandoned probe lets the next call probe.
    fn abandoned(&self) {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Probing { .. }) {
            state.phase = Phase::Probing { until: self.clock.now() };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Pass ===

impl Pass {
    /// Reports that the call was answered.
    pub fn succeeded(mut self) {
        self.is_settled = true;
        self.breaker.succeeded(self.is_probe);
    }

    /// Reports that the call failed, or was not answered in time.
    pub fn failed(mut self) {
        self.is_settled = true;
        self.breaker.failed(self.is_probe);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if self.is_probe && !self.is_settled {
            self.breaker.abandoned();
        }
    }
}

/// The recent calls and failures, in buckets of equal length.
#[derive(Debug)]
struct Window {
    buckets: [(usize, usize); BUCKETS],
    start: Instant,
    bucket_length: Duration,
    /// The number of the newest bucket since `start`.
    newest: u64,
}

impl Window {
    fn new(start: Instant, bucket_length: Duration) -> Self {
        let bucket_length = bucket_length.max(Duration::from_millis(1));
        Self { buckets: [(0, 0); BUCKETS], start, bucket_length, newest: 0 }
    }

    fn count(&mut self, now: Instant, is_failure: bool) {
        self.advance(now);
        let (calls, failures) = &mut self.buckets[self.newest as usize % BUCKETS];
        *calls += 1;
        *failures += usize::from(is_failure);
    }

    fn total(&mut self, now: Instant) -> (usize, usize) {
        self.advance(now);
        let sum = |a: (usize, usize), b: &(usize, usize)| (a.0 + b.0, a.1 + b.1);
        self.buckets.iter().fold((0, 0), sum)
    }

    fn clear(&mut self) {
        self.buckets = [(0, 0); BUCKETS];
    }

    /// Empties the buckets that have left the window.
    fn advance(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.start).as_nanos();
        let number = (since / self.bucket_length.as_nanos()) as u64;
        let passed = number.saturating_sub(self.newest).min(BUCKETS as u64);
        for step in 1..=passed {
            self.buckets[(self.newest + step) as usize % BUCKETS] = (0, 0);
        }
        if number > self.newest {
            // After a long pause all buckets were emptied, whatever the position of the newest one.
            self.newest = number;
            if passed == BUCKETS as u64 {
                self.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: BreakerConfig = BreakerConfig {
        failures: 5,
        window: Duration::from_secs(30),
        open: Duration::from_secs(30),
    };

    fn breaker() -> Arc<Breaker> {
        Arc::new(Breaker::new("test", CONFIG, Clock::system(), BreakerMetrics::default()))
    }

    fn fail(breaker: &Arc<Breaker>, times: usize) {
        for _ in 0..times {
            breaker.admit().unwrap().failed();
        }
    }

    async fn pass(time: Duration) {
        tokio::time::advance(time).await;
    }

    #[tokio::test(start_paused = true)]
    async fn five_failures_open_it_and_four_do_not() {
        let breaker = breaker();
        fail(&breaker, 4);
        assert!(breaker.admit().is_ok());
        fail(&breaker, 1);
        assert_eq!(breaker.admit().unwrap_err(), CONFIG.open);
        assert_eq!((breaker.metrics.state.get(), breaker.metrics.openings.get()), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_that_are_the_smaller_half_do_not_open_it() {
        let breaker = breaker();
        for _ in 0..11 {
            breaker.admit().unwrap().succeeded();
        }
        fail(&breaker, 10);
        assert!(!breaker.is_open());
        fail(&breaker, 1);
        assert!(breaker.is_open());
    }

    #[tokio::test(start_paused = true)]
    async fn failures_older_than_the_window_are_forgotten() {
        let breaker = breaker();
        for _ in 0..10 {
            fail(&breaker, 4);
            pass(CONFIG.window + Duration::from_secs(1)).await;
        }
        fail(&breaker, 4);
        assert!(!breaker.is_open());
    }

    #[tokio::test(start_paused = true)]
    async fn one_probe_decides() {
        let breaker = breaker();
        fail(&breaker, 5);
        pass(CONFIG.open).await;
        let probe = breaker.admit().unwrap();
        assert!(breaker.admit().is_err(), "there is one probe at a time");
        probe.failed();
        assert!(breaker.admit().is_err(), "it failed");
        pass(CONFIG.open).await;
        breaker.admit().unwrap().succeeded();
        assert!(!breaker.is_open());
        fail(&breaker, 4);
        assert!(!breaker.is_open(), "the failures before are forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn an_abandoned_probe_lets_the_next_call_probe() {
        let breaker = breaker();
        fail(&breaker, 5);
        pass(CONFIG.open).await;
        drop(breaker.admit().unwrap());
        breaker.admit().unwrap().succeeded();
        assert!(!breaker.is_open());
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_success_of_an_earlier_call_does_not_close_it() {
        let breaker = breaker();
        let early = breaker.admit().unwrap();
        fail(&breaker, 5);
        early.succeeded();
        assert!(breaker.is_open());
        pass(CONFIG.open).await;
        let late = breaker.admit().unwrap();
        pass(CONFIG.open).await;
        let probe = breaker.admit().expect("a probe without a report is abandoned");
        drop((late, probe));
    }
}
