//! Drives pushes through lanes: at a fixed rate whatever happens, or as fast as they arrive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use tokio::task::JoinSet;

use super::counters::{Counters, Epoch};

/// The first push is due this long after the start, when every lane's thread is up.
pub(super) const LEAD: Duration = Duration::from_millis(20);
/// How often a saturated lane looks whether it may push again.
const LOOK_EVERY: Duration = Duration::from_micros(100);

/// Something that carries pushes to groups of connections.
pub(super) trait Pusher: Send {
    /// How many groups there are.
    fn groups(&self) -> usize;

    /// How many connections a group has.
    fn connections(&self, group: usize) -> u64;

    /// Pushes to a group; answers how many connections it was queued for.
    fn push(&mut self, group: usize, intended_nanos: u64) -> Result<u64>;
}

/// When pushes are sent.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pacing {
    /// This many each second, due at fixed moments even when earlier ones are late.
    Rate {
        /// Pushes, not deliveries.
        pushes_per_second: f64,
    },
    /// As soon as fewer than this many pushes have deliveries under way. A push is answered when
    /// it is queued, so only arrivals tell how much the server has still to write.
    Saturate {
        /// Pushes, not deliveries.
        in_flight: u64,
    },
}

/// How many pushes, and for how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// When they are sent.
    pub(super) pacing: Pacing,
    /// For how long.
    pub(super) duration: Duration,
}

/// What was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Driven {
    /// Pushes that were answered.
    pub(super) pushes: u64,
    /// Deliveries that these pushes were for.
    pub(super) expected: u64,
    /// Deliveries that the server said it queued.
    pub(super) queued: u64,
    /// The smallest answer: a connection that is gone is missing in it.
    pub(super) fewest_connections: Option<u64>,
}

struct Course {
    load: Load,
    epoch: Epoch,
    counters: Arc<Counters>,
    start_nanos: u64,
    delivered_before: u64,
    tickets: AtomicU64,
    sent: AtomicU64,
    /// Set by the first lane that fails, so that the others do not go on alone.
    failed: AtomicBool,
}

/// Pushes through all lanes for one window.
pub(super) async fn drive(
    lanes: Vec<Box<dyn Pusher>>,
    load: Load,
    epoch: Epoch,
    counters: &Arc<Counters>,
) -> Result<Driven> {
    let course = Arc::new(Course {
        load,
        epoch,
        counters: counters.clone(),
        start_nanos: epoch.nanos() + LEAD.as_nanos() as u64,
        delivered_before: counters.deliveries(),
        tickets: AtomicU64::new(0),
        sent: AtomicU64::new(0),
        failed: AtomicBool::new(false),
    });
    let mut threads = JoinSet::new();
    for lane in lanes {
        let course = course.clone();
        threads.spawn_blocking(move || course.run(lane));
    }
    let mut total = Driven::default();
    while let Some(finished) = threads.join_next().await {
        total.add(finished??);
    }
    Ok(total)
}

impl Course {
    fn run(&self, mut lane: Box<dyn Pusher>) -> Result<Driven> {
        let mut driven = Driven::default();
        loop {
            let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
            let group = (ticket % lane.groups() as u64) as usize;
            let connections = lane.connections(group);
            let Some(intended_nanos) = self.wait_for_turn(ticket, connections) else {
                return Ok(driven);
            };
            self.sent.fetch_add(connections, Ordering::Relaxed);
            match lane.push(group, intended_nanos) {
                Ok(queued) => driven.add(Driven {
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

    /// Waits until a push is due and says when that was; none when the window is over.
    fn wait_for_turn(&self, ticket: u64, connections: u64) -> Option<u64> {
        let end_nanos = self.start_nanos + self.load.duration.as_nanos() as u64;
        match self.load.pacing {
            Pacing::Rate { pushes_per_second } => {
                let due = self.start_nanos + (ticket as f64 * 1e9 / pushes_per_second) as u64;
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
                let under_way = self.sent.load(Ordering::Relaxed).saturating_sub(arrived);
                if now >= self.start_nanos && under_way < in_flight * connections {
                    return Some(now);
                }
                thread::sleep(LOOK_EVERY);
            },
        }
    }
}

impl Driven {
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
    fn what_lanes_sent_is_added_up() {
        let one = Driven { pushes: 1, expected: 10, queued: 9, fewest_connections: Some(9) };
        let mut total = Driven::default();
        total.add(one);
        total.add(Driven { queued: 10, fewest_connections: Some(10), ..one });
        let both = Driven { pushes: 2, expected: 20, queued: 19, fewest_connections: Some(9) };
        assert_eq!(total, both);
    }
}
