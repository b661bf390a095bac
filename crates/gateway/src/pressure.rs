//! The slow-consumer rule, as a pure function of the load of a connection's data lane.

use std::time::Duration;

use heartline_protocol::limits::{
    OUTBOX_CRITICAL_PERCENT, OUTBOX_WARNING_PERCENT, SLOW_EPISODES_MAX, SLOW_EPISODES_WINDOW,
};
use tokio::time::Instant;

use crate::sliding_window::SlidingWindow;

/// The data lane's bounds.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Frames.
    pub messages: usize,
    /// Bytes.
    pub bytes: usize,
    /// How long a slow consumer has to recover.
    pub grace: Duration,
}

/// How full a data lane is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Frames.
    pub messages: usize,
    /// Bytes.
    pub bytes: usize,
}

/// The verdict of the rule about a new load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing to do.
    Fine,
    /// Log and count: the lane rose over the warning threshold.
    Elevated,
    /// Warn the client that it is slow: its grace begins.
    Slow,
    /// Close the connection now. If `warned` is false the client was not warned in this episode,
    /// and the warning must be sent together with the closing.
    Close {
        /// Whether this episode's warning was sent.
        warned: bool,
    },
}

/// The state of a connection under the rule.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    stage: Stage,
    episodes: SlidingWindow,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    #[default]
    Calm,
    Elevated,
    Slow {
        grace_ends: Instant,
    },
}

impl Bounds {
    /// Whether a load is over so many percent of either bound.
    fn over(&self, load: Load, percent: usize) -> bool {
        load.messages * 100 > self.messages * percent || load.bytes * 100 > self.bytes * percent
    }

    /// Whether a load is at the hard cap: another frame may not fit.
    fn at_cap(&self, load: Load) -> bool {
        load.messages >= self.messages || load.bytes >= self.bytes
    }
}

impl Pressure {
    /// Evaluates a lane that grew to `load`.
    pub(crate) fn grew(&mut self, load: Load, bounds: &Bounds, now: Instant) -> Verdict {
        let slow = matches!(self.stage, Stage::Slow { .. });
        if bounds.at_cap(load) {
            return Verdict::Close { warned: slow };
        }
        if slow {
            return Verdict::Fine;
        }
        if bounds.over(load, OUTBOX_CRITICAL_PERCENT) {
            let last = self.episodes.record(SLOW_EPISODES_MAX, SLOW_EPISODES_WINDOW, now);
            if last {
                return Verdict::Close { warned: false };
            }
            self.stage = Stage::Slow { grace_ends: now + bounds.grace };
            return Verdict::Slow;
        }
        if self.stage == Stage::Calm && bounds.over(load, OUTBOX_WARNING_PERCENT) {
            self.stage = Stage::Elevated;
            return Verdict::Elevated;
        }
        Verdict::Fine
    }

    /// Evaluates a lane that shrank to `load`: below the warning threshold every episode ends.
    pub(crate) fn shrank(&mut self, load: Load, bounds: &Bounds) {
        if !bounds.over(load, OUTBOX_WARNING_PERCENT) {
            self.stage = Stage::Calm;
        }
    }

    /// Restarts a running grace, because the process itself was paused.
    pub(crate) fn restart_grace(&mut self, bounds: &Bounds, now: Instant) {
        if let Stage::Slow { grace_ends } = &mut self.stage {
            *grace_ends = now + bounds.grace;
        }
    }

    /// When the grace of the present episode ends; the connection closes then.
    pub(crate) fn grace_ends(&self) -> Option<Instant> {
        match self.stage {
            Stage::Slow { grace_ends } => Some(grace_ends),
            Stage::Calm | Stage::Elevated => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use heartline_runtime::Clock;

    use super::*;

    const BOUNDS: Bounds =
        Bounds { messages: 1000, bytes: 1_000_000, grace: Duration::from_secs(5) };

    fn messages(messages: usize) -> Load {
        Load { messages, bytes: 0 }
    }

    #[test]
    fn each_threshold_is_reported_once_per_episode() {
        let (mut pressure, now) = (Pressure::default(), Clock::system().now());
        assert_eq!(pressure.grew(messages(800), &BOUNDS, now), Verdict::Fine);
        assert_eq!(pressure.grew(messages(801), &BOUNDS, now), Verdict::Elevated);
        assert_eq!(pressure.grew(messages(950), &BOUNDS, now), Verdict::Fine);
        assert_eq!(pressure.grew(messages(951), &BOUNDS, now), Verdict::Slow);
        assert_eq!(pressure.grace_ends(), Some(now + BOUNDS.grace));
        assert_eq!(pressure.grew(messages(999), &BOUNDS, now), Verdict::Fine);
        assert_eq!(pressure.grew(messages(1000), &BOUNDS, now), Verdict::Close { warned: true });
    }

    #[test]
    fn bytes_count_like_messages() {
        let (mut pressure, now) = (Pressure::default(), Clock::system().now());
        let load = |bytes| Load { messages: 1, bytes };
        assert_eq!(pressure.grew(load(950_001), &BOUNDS, now), Verdict::Slow);
        assert_eq!(pressure.grew(load(1_000_000), &BOUNDS, now), Verdict::Close { warned: true });
    }

    #[test]
    fn recovery_needs_to_fall_to_the_warning_threshold() {
        let (mut pressure, now) = (Pressure::default(), Clock::system().now());
        pressure.grew(messages(951), &BOUNDS, now);
        pressure.shrank(messages(801), &BOUNDS);
        assert!(pressure.grace_ends().is_some(), "801 of 1000 is not recovered");
        pressure.shrank(messages(800), &BOUNDS);
        assert_eq!(pressure.grace_ends(), None);
    }

    #[test]
    fn the_third_episode_in_a_minute_ends_it() {
        let (mut pressure, now) = (Pressure::default(), Clock::system().now());
        for second in [0, 20] {
            let now = now + Duration::from_secs(second);
            assert_eq!(pressure.grew(messages(951), &BOUNDS, now), Verdict::Slow);
            pressure.shrank(messages(0), &BOUNDS);
        }
        let third = now + Duration::from_secs(59);
        assert_eq!(pressure.grew(messages(951), &BOUNDS, third), Verdict::Close { warned: false });
        let much_later = now + Duration::from_secs(200);
        assert_eq!(pressure.grew(messages(951), &BOUNDS, much_later), Verdict::Slow);
    }

    #[test]
    fn a_flood_straight_to_the_cap_closes_without_an_earlier_warning() {
        let (mut pressure, now) = (Pressure::default(), Clock::system().now());
        let verdict = pressure.grew(messages(1000), &BOUNDS, now);
        assert_eq!(verdict, Verdict::Close { warned: false });
    }
}
