//! The delay between attempts, which grows with every failure.

use std::time::Duration;

use heartline_protocol::limits::{
    RECONNECT_DELAY_MAX, RECONNECT_DELAY_MIN, RECONNECT_JITTER_PERCENT,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::reconnect_policy::SERVER_DELAY_MAX;

/// How delays grow. By default they double from 1 s to 16 s and vary by up to 20% at random, as the
/// protocol requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackOffConfig {
    /// The delay after the first failure.
    pub delay_min: Duration,
    /// The longest delay, before jitter.
    pub delay_max: Duration,
    /// The random variation of a delay up or down, in percent.
    pub jitter_percent: u32,
}

impl Default for BackOffConfig {
    fn default() -> Self {
        Self {
            delay_min: RECONNECT_DELAY_MIN,
            delay_max: RECONNECT_DELAY_MAX,
            jitter_percent: RECONNECT_JITTER_PERCENT,
        }
    }
}

/// The delays of one client. The jitter prevents all clients of a failed server from reconnecting
/// at the same time, so every client has its own seed.
#[derive(Debug)]
pub struct BackOff {
    config: BackOffConfig,
    /// Failures since the last success.
    failures: u32,
    rng: StdRng,
}

impl BackOff {
    /// Delays whose jitter follows from `seed`.
    pub fn new(config: BackOffConfig, seed: u64) -> Self {
        Self { config, failures: 0, rng: StdRng::seed_from_u64(seed) }
    }

    /// The delay after one more failure.
    pub fn next_delay(&mut self) -> Duration {
        let factor = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        self.failures = self.failures.saturating_add(1);
        let delay = self.config.delay_min.saturating_mul(factor).min(self.config.delay_max);
        let jitter = self.jitter();
        delay.mul_f64(self.rng.random_range(1.0 - jitter..=1.0 + jitter))
    }

    /// A delay that the server sends to all clients alike: never shorter, and slightly longer at
    /// random.
    pub fn at_least(&mut self, delay: Duration) -> Duration {
        let jitter = self.jitter();
        delay.mul_f64(self.rng.random_range(1.0..=1.0 + jitter))
    }

    /// The delay after a rejected request: the server's if it sent one, else the client's own.
    pub(crate) fn after_rejection(&mut self, retry_after_seconds: Option<u64>) -> Duration {
        match retry_after_seconds {
            None | Some(0) => self.next_delay(),
            Some(seconds) => self.at_least(Duration::from_secs(seconds).min(SERVER_DELAY_MAX)),
        }
    }

    /// Resets the delay to the shortest one, after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    fn jitter(&self) -> f64 {
        f64::from(self.config.jitter_percent.min(100)) / 100.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within_a_fifth(delay: Duration, middle_seconds: u64) -> bool {
        let middle = Duration::from_secs(middle_seconds);
        (middle.mul_f64(0.8)..=middle.mul_f64(1.2)).contains(&delay)
    }

    #[test]
    fn delays_double_from_one_to_sixteen_seconds_within_a_fifth() {
        for seed in 0..200 {
            let mut back_off = BackOff::new(BackOffConfig::default(), seed);
            for middle in [1, 2, 4, 8, 16, 16, 16] {
                let delay = back_off.next_delay();
                assert!(within_a_fifth(delay, middle), "{delay:?} is not about {middle} s");
            }
            back_off.reset();
            assert!(within_a_fifth(back_off.next_delay(), 1));
        }
    }

    #[test]
    fn delays_never_exceed_the_longest() {
        let mut back_off = BackOff::new(BackOffConfig::default(), 7);
        for _ in 0..1000 {
            back_off.next_delay();
        }
        assert!(within_a_fifth(back_off.next_delay(), 16));
    }

    #[test]
    fn delays_differ_between_clients_and_repeat_with_a_seed() {
        let delays = |seed| {
            let mut back_off = BackOff::new(BackOffConfig::default(), seed);
            [back_off.next_delay(), back_off.next_delay(), back_off.next_delay()]
        };
        assert_eq!(delays(1), delays(1));
        assert_ne!(delays(1), delays(2));
    }

    #[test]
    fn a_delay_that_the_server_sent_is_never_shortened() {
        let mut back_off = BackOff::new(BackOffConfig::default(), 3);
        let asked = Duration::from_secs(10);
        for _ in 0..1000 {
            let delay = back_off.at_least(asked);
            assert!(delay >= asked && delay <= asked.mul_f64(1.2), "{delay:?}");
        }
    }
}
