//! Limits the rate of outgoing frames.

use std::time::Duration;

use tokio::time::Instant;

/// Keeps the client within a rate that the server has announced, because the server closes a
/// connection after too many rejections. Allows a burst and then one frame per interval.
#[derive(Debug)]
pub(crate) struct RateLimit {
    /// The time that one frame takes from the budget.
    interval: Duration,
    /// The size of the burst, as the time that the budget may be overdrawn.
    slack: Duration,
    /// When the whole burst is available again.
    full_at: Option<Instant>,
}

impl RateLimit {
    /// A limit of `rate` frames per second with a burst. A tenth of both stays unused, because the
    /// network may deliver frames in bursts.
    pub(crate) fn new(rate: u64, burst: u64) -> Self {
        let rate = (rate - rate / 10).clamp(1, 1_000_000);
        let burst = u32::try_from((burst - burst / 10).max(1)).unwrap_or(u32::MAX);
        let interval = Duration::from_micros(1_000_000 / rate);
        Self { interval, slack: interval.saturating_mul(burst - 1), full_at: None }
    }

    /// When the next frame may be sent.
    pub(crate) fn ready_at(&self, now: Instant) -> Instant {
        self.full_at
            .and_then(|full_at| full_at.checked_sub(self.slack))
            .map_or(now, |at| at.max(now))
    }

    /// A frame is sent.
    pub(crate) fn spend(&mut self, now: Instant) {
        let full_at = self.full_at.map_or(now, |full_at| full_at.max(now));
        self.full_at = Some(full_at + self.interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    fn sent_within(limit: &mut RateLimit, start: Instant, period: Duration) -> u32 {
        let mut now = start;
        let mut count = 0;
        while now < start + period {
            limit.spend(now);
            count += 1;
            now = limit.ready_at(now);
        }
        count
    }

    #[test]
    fn a_burst_is_sent_at_once_and_the_rest_at_the_rate() {
        let start = clock::now() + Duration::from_secs(100);
        let mut limit = RateLimit::new(10, 20);
        assert_eq!(sent_within(&mut limit, start, Duration::from_millis(1)), 18);
        let later = start + Duration::from_secs(100);
        let count = sent_within(&mut limit, later, Duration::from_secs(10));
        assert!((106..=109).contains(&count), "{count} frames in ten seconds");
    }

    #[test]
    fn extreme_limits_still_allow_frames() {
        for (rate, burst) in [(0, 0), (0, u64::MAX), (u64::MAX, 0), (u64::MAX, u64::MAX)] {
            let now = clock::now();
            let mut limit = RateLimit::new(rate, burst);
            assert_eq!(limit.ready_at(now), now);
            limit.spend(now);
            assert!(limit.ready_at(now) <= now + Duration::from_secs(1), "{rate} {burst}");
        }
    }
}
