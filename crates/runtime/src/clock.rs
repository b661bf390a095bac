//! The clocks of a node.

use std::fmt;
use std::time::SystemTime;

use heartline_protocol::Timestamp;
use tokio::time::Instant;

/// The source of the time of a [`Clock`].
pub trait TimeSource: Send + Sync + fmt::Debug {
    /// The monotonic time, which follows tokio's clock, so that sleeps and deadlines agree with it.
    fn now(&self) -> Instant;

    /// The time of day.
    fn wall(&self) -> Timestamp;
}

/// A handle to the clocks of a node. Copies share them.
#[derive(Debug, Clone, Copy)]
pub struct Clock(&'static dyn TimeSource);

impl Clock {
    /// The clocks of the machine.
    pub const fn system() -> Self {
        Self(&SystemTimeSource)
    }

    /// Clocks that read this source.
    pub const fn from_source(source: &'static dyn TimeSource) -> Self {
        Self(source)
    }

    /// Clocks that advance with tokio's, which a test may have paused; the time of day begins at
    /// `start`. The source lives as long as the process.
    pub fn simulated(start: Timestamp) -> Self {
        let begun = SystemTimeSource.now();
        Self(Box::leak(Box::new(SimulatedTimeSource { begun, start })))
    }

    /// The monotonic time, for every duration, deadline and lease.
    pub fn now(&self) -> Instant {
        self.0.now()
    }

    /// The time of day, only for timestamps that people and tokens see.
    pub fn wall(&self) -> Timestamp {
        self.0.wall()
    }
}

/// Waits until the deadline; forever without one.
pub async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

#[derive(Debug)]
struct SystemTimeSource;

#[expect(clippy::disallowed_methods, reason = "this is the place that the ban points to")]
impl TimeSource for SystemTimeSource {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn wall(&self) -> Timestamp {
        SystemTime::now().into()
    }
}

#[derive(Debug)]
struct SimulatedTimeSource {
    begun: Instant,
    start: Timestamp,
}

impl TimeSource for SimulatedTimeSource {
    fn now(&self) -> Instant {
        SystemTimeSource.now()
    }

    fn wall(&self) -> Timestamp {
        let elapsed = self.now() - self.begun;
        Timestamp { unix_ms: self.start.unix_ms + elapsed.as_millis() as u64 }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_simulated_day_passes_with_tokios_time() {
        let clock = Clock::simulated(Timestamp { unix_ms: 1_000 });
        let begun = clock.now();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(clock.now() - begun, Duration::from_secs(3600));
        assert_eq!(clock.wall(), Timestamp { unix_ms: 3_601_000 });
    }
}
