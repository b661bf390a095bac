//! Runs a load of pushes: an open loop at a fixed rate, or as fast as deliveries arrive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use heartline_runtime::{TaskSet, blocking};

use super::counters::{Counters, Epoch};

/// The first push is due this long after the start, when all threads run.
pub(super) const LEAD: Duration = Duration::from_millis(20);
/// How often a saturated pusher checks whether it may push again.
const POLL_INTERVAL: Duration = Duration::from_micros(100);

/// Pushes to groups of connections.
pub(super) trait Pusher: Send {
    /// The number of groups.
    fn groups(&self) -> usize;

    /// The number of connections in a group.
    fn connections(&self, group: usize) -> u64;

    /// Pushes to a group; returns the number of connections that the push was queued for.
    fn push(&mut self, group: usize, intended_nanos: u64) -> Result<u64>;
}

/// When pushes are sent.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pacing {
    /// Open loop: pushes are due at fixed times even if earlier ones are late.
    Rate {
        /// Pushes, not deliveries.
        pushes_per_second: f64,
    },
    /// A push is due when fewer than this many pushes have deliveries in flight. The server
    /// responds to a push when it is queued, so only arrivals show how much it has still to write.
    Saturate {
        /// Pushes, not deliveries.
        in_flight: u64,
    },
}

/// The pacing and duration of a load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// The pacing of the pushes.
    pub(super) pacing: Pacing,
    /// The duration.
    pub(super) duration: Duration,
}

/// The pushes of a load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LoadResult {
    /// Pushes with a response.
    pub(super) pushes: u64,
    /// Deliveries that these pushes were for.
    pub(super) expected: u64,
    /// Deliveries that the server reported as queued.
    pub(super) queued: u64,
    /// The smallest number of connections that a push was queued for.
    pub(super) fewest_connections: Option<u64>,
}

struct LoadRun {
    load: Load,
    epoch: Epoch,
    counters: Arc<Counters>,
    start_nanos: u64,
    delivered_before: u64,
    next_push: AtomicU64,
    sent: AtomicU64,
    /// Set by the first pusher that fails, so that the others stop.
    failed: AtomicBool,
}

/// Pushes through all pushers for one window, each on its own thread.
pub(super) async fn drive(
    pushers: Vec<Box<dyn Pusher>>,
    load: Load,
    epoch: Epoch,
    counters: &Arc<Counters>,
) -> Result<LoadResult> {
    let run = Arc::new(LoadRun {
        load,
        epoch,
        counters: counters.clone(),
        start_nanos: epoch.nanos() + LEAD.as_nanos() as u64,
        delivered_before: counters.deliveries(),
        next_push: AtomicU64::new(0),
        sent: AtomicU64::new(0),
        failed: AtomicBool::new(false),
    });
    let mut threads = TaskSet::new();
    for pusher in pushers {
        let run = run.clone();
        threads.spawn(blocking(move || run.push_until_end(pusher)));
    }
    let mut total = LoadResult::default();
    while let Some(finished) = threads.join_next().await {
        total.add(finished???);
    }
    Ok(total)
}

impl LoadRun {
    fn push_until_end(&self, mut pusher: Box<dyn Pusher>) -> Result<LoadResult> {
        let mut result = LoadResult::default();
        loop {
            let number = self.next_push.fetch_add(1, Ordering::Relaxed);
            let group = (number % pusher.groups() as u64) as usize;
            let connections = pusher.connections(group);
            let Some(intended_nanos) = self.wait_until_due(number, connections) else {
                return Ok(result);
            };
            self.sent.fetch_add(connections, Ordering::Relaxed);
            match pusher.push(group, intended_nanos) {
                Ok(queued) => result.add(LoadResult {
                    pushes: 1,
                    expected: connections,
                    queued,
                    fewest_connections: Some(queued),
                }),
                Err(error) => {
                    self.failed.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
    }

    /// Waits until a push is due and returns the due time; none when the window is over.
    fn wait_until_due(&self, number: u64, connections: u64) -> Option<u64> {
        let end_nanos = self.start_nanos + self.load.duration.as_nanos() as u64;
        match self.load.pacing {
            Pacing::Rate { pushes_per_second } => {
                let due = self.start_nanos + (number as f64 * 1e9 / pushes_per_second) as u64;
                if due >= end_nanos || self.failed.load(Ordering::Relaxed) {
                    return None;
                }
                thread::sleep(Duration::from_nanos(due.saturating_sub(self.epoch.nanos())));
                Some(due)
            }
            Pacing::Saturate { in_flight } => loop {
                let now = self.epoch.nanos();
                if now >= end_nanos || self.failed.load(Ordering::Relaxed) {
                    return None;
                }
                let arrived = self.counters.deliveries() - self.delivered_before;
                let in_flight_now = self.sent.load(Ordering::Relaxed).saturating_sub(arrived);
                if now >= self.start_nanos && in_flight_now < in_flight * connections {
                    return Some(now);
                }
                thread::sleep(POLL_INTERVAL);
            },
        }
    }
}

impl LoadResult {
    fn add(&mut self, other: Self) {
        self.pushes += other.pushes;
        self.expected += other.expected;
        self.queued += other.queued;
        self.fewest_connections =
            [self.fewest_connections, other.fewest_connections].into_iter().flatten().min();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pushes_of_all_pushers_are_added_up() {
        let one = LoadResult { pushes: 1, expected: 10, queued: 9, fewest_connections: Some(9) };
        let mut total = LoadResult::default();
        total.add(one);
        total.add(LoadResult { queued: 10, fewest_connections: Some(10), ..one });
        let both = LoadResult { pushes: 2, expected: 20, queued: 19, fewest_connections: Some(9) };
        assert_eq!(total, both);
    }
}
