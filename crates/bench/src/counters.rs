//! What the connections of a fleet have seen, and the moment that their times count from.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use heartline_routing::Clock;
use tokio::time::Instant;

use super::report::new_histogram;

/// How many of the server's refusals are kept to be shown; the others are only counted.
const REFUSALS_SHOWN: usize = 3;

/// The moment that a run's times count from, the same for senders and readers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Epoch {
    start: Instant,
}

impl Epoch {
    /// Begins now.
    pub(super) fn begin() -> Self {
        Self { start: Clock::system().now() }
    }

    /// The moment that lies so much before this one.
    pub(super) fn moved_back(self, by: Duration) -> Result<Self> {
        let start = self.start.checked_sub(by).context("this machine has not run for so long")?;
        Ok(Self { start })
    }

    /// Nanoseconds since the beginning.
    pub(super) fn nanos(&self) -> u64 {
        Clock::system().now().duration_since(self.start).as_nanos() as u64
    }
}

/// What the readers of a fleet have seen.
#[derive(Debug)]
pub(super) struct Counters {
    epoch: Epoch,
    tallies: [AtomicU64; Tally::COUNT],
    /// From the intended time of a delivery to its arrival.
    latency: Mutex<Histogram<u64>>,
    /// From the intended time of a message to its acknowledgement.
    ack_latency: Mutex<Histogram<u64>>,
    refusals: Mutex<Vec<String>>,
    /// Until this moment every answer is followed by the next message.
    repeat_until: AtomicU64,
}

/// What is counted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Tally {
    /// Pushes that arrived.
    Deliveries,
    /// Messages that were sent.
    Sent,
    /// Messages that were acknowledged.
    Acks,
    /// Requests that the server refused.
    Refusals,
    /// Other text frames that arrived: the answers to heartbeats.
    OtherFrames,
    /// Heartbeats that were sent.
    Heartbeats,
    /// Connections that the server ended.
    Closed,
}

impl Tally {
    const COUNT: usize = Self::Closed as usize + 1;
}

impl Counters {
    /// Nothing seen as yet.
    pub(super) fn new(epoch: Epoch) -> Arc<Self> {
        Arc::new(Self {
            epoch,
            tallies: std::array::from_fn(|_| AtomicU64::new(0)),
            latency: Mutex::new(new_histogram()),
            ack_latency: Mutex::new(new_histogram()),
            refusals: Mutex::default(),
            repeat_until: AtomicU64::new(0),
        })
    }

    /// The moment that times count from.
    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// How many there were.
    pub(super) fn get(&self, tally: Tally) -> u64 {
        self.tallies[tally as usize].load(Ordering::Relaxed)
    }

    /// Counts some more.
    pub(super) fn add(&self, tally: Tally, more: u64) {
        if more > 0 {
            self.tallies[tally as usize].fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Pushes that arrived.
    pub(super) fn deliveries(&self) -> u64 {
        self.get(Tally::Deliveries)
    }

    /// Has every acknowledgement followed by the next message until this moment.
    pub(super) fn repeat_until(&self, nanos: u64) {
        self.repeat_until.store(nanos, Ordering::Relaxed);
    }

    /// Whether an acknowledgement at this moment is followed by the next message.
    pub(super) fn repeats_at(&self, nanos: u64) -> bool {
        nanos < self.repeat_until.load(Ordering::Relaxed)
    }

    /// The latencies of deliveries recorded since this was last asked.
    pub(super) fn take_latency(&self) -> Histogram<u64> {
        std::mem::replace(&mut lock(&self.latency), new_histogram())
    }

    /// The latencies of acknowledgements recorded since this was last asked.
    pub(super) fn take_ack_latency(&self) -> Histogram<u64> {
        std::mem::replace(&mut lock(&self.ack_latency), new_histogram())
    }

    /// Records latencies of deliveries.
    pub(super) fn record(&self, latencies: &[u64]) {
        record(&self.latency, latencies);
    }

    /// Records latencies of acknowledgements.
    pub(super) fn record_acks(&self, latencies: &[u64]) {
        record(&self.ack_latency, latencies);
    }

    /// Counts a refusal and keeps the first few as the server said them.
    pub(super) fn refused(&self, head: &[u8]) {
        self.add(Tally::Refusals, 1);
        let mut refusals = lock(&self.refusals);
        if refusals.len() < REFUSALS_SHOWN {
            refusals.push(String::from_utf8_lossy(head).into_owned());
        }
    }

    /// The first few refusals.
    pub(super) fn refusals(&self) -> Vec<String> {
        lock(&self.refusals).clone()
    }
}

fn record(histogram: &Mutex<Histogram<u64>>, latencies: &[u64]) {
    if latencies.is_empty() {
        return;
    }
    let mut histogram = lock(histogram);
    for nanos in latencies {
        histogram.saturating_record(*nanos);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_counted_and_the_first_are_shown() {
        let counters = Counters::new(Epoch::begin());
        for number in 0..10 {
            counters.refused(format!("refusal {number}").as_bytes());
        }
        assert_eq!(counters.get(Tally::Refusals), 10);
        assert_eq!(counters.refusals(), ["refusal 0", "refusal 1", "refusal 2"]);
    }

    #[test]
    fn latencies_are_taken_once() {
        let counters = Counters::new(Epoch::begin());
        counters.record(&[1000, 2000]);
        counters.record_acks(&[3000]);
        assert_eq!(counters.take_latency().len(), 2);
        assert_eq!(counters.take_ack_latency().len(), 1);
        assert!(counters.take_latency().is_empty());
    }
}
