//! A failure that lasts: logged once when it begins and once when it ends.

use std::time::Duration;

use tokio::time::Instant;

/// Whether an operation fails at present, since when and how often.
#[derive(Debug, Default)]
pub(crate) struct Episode(Option<Failing>);

#[derive(Debug)]
struct Failing {
    since: Instant,
    failures: u64,
}

/// A finished episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    /// How long it lasted.
    pub(crate) lasted: Duration,
    /// How many attempts failed in it.
    pub(crate) failures: u64,
}

impl Episode {
    /// Records a failure. Returns whether it is the first of the episode.
    pub(crate) fn fail(&mut self, now: Instant) -> bool {
        let is_first = self.0.is_none();
        self.0.get_or_insert(Failing { since: now, failures: 0 }).failures += 1;
        is_first
    }

    /// Records a success. Returns the episode that it ends.
    pub(crate) fn succeed(&mut self, now: Instant) -> Option<Ended> {
        let Failing { since, failures } = self.0.take()?;
        Some(Ended { lasted: now.saturating_duration_since(since), failures })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heartline_runtime::Clock;

    #[test]
    fn an_episode_is_reported_when_it_begins_and_when_it_ends() {
        let (start, mut episode) = (Clock::system().now(), Episode::default());
        assert_eq!(episode.succeed(start), None);
        assert!(episode.fail(start));
        assert!(!episode.fail(start + Duration::from_secs(1)));
        let lasted = Duration::from_secs(3);
        assert_eq!(episode.succeed(start + lasted), Some(Ended { lasted, failures: 2 }));
        assert_eq!(episode.succeed(start + lasted), None);
    }
}
