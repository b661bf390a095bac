//! The counters and latencies of client connections, and the epoch of their times.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use heartline_runtime::Clock;
use tokio::time::Instant;

use super::report::new_histogram;

/// Rejections that are kept for the report; the others are only counted.
const REJECTIONS_SHOWN: usize = 3;

/// The instant from which a run counts its times, the same for senders and readers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Epoch {
    start: Instant,
}

impl Epoch {
    /// An epoch that begins now.
    pub(super) fn begin() -> Self {
        Self { start: Clock::system().now() }
    }

    /// The epoch that lies `by` before this one.
    pub(super) fn moved_back(self, by: Duration) -> Result<Self> {
        let start = self
            .start
            .checked_sub(by)
            .context("the epoch lies before the start of the machine's clock")?;
        Ok(Self { start })
    }

    /// Nanoseconds since the epoch.
    pub(super) fn nanos(&self) -> u64 {
        Clock::system().now().duration_since(self.start).as_nanos() as u64
    }
}

/// The counters and latencies that readers record.
#[derive(Debug)]
pub(super) struct Counters {
    epoch: Epoch,
    tallies: [AtomicU64; Tally::COUNT],
    /// From the intended time of a delivery to its arrival.
    latency: Mutex<Histogram<u64>>,
    /// From the intended time of a message to its acknowledgement.
    ack_latency: Mutex<Histogram<u64>>,
    rejections: Mutex<Vec<String>>,
    /// Until this time, each acknowledgement is followed by the next message.
    repeat_until: AtomicU64,
}

/// A counter.
#[derive(Debug, Clone, Copy)]
pub(super) enum Tally {
    /// Pushes that arrived.
    Deliveries,
    /// Messages that were sent.
    Sent,
    /// Messages that were acknowledged.
    Acks,
    /// Requests that the server rejected.
    Rejections,
    /// Other text frames that arrived, mostly `heartbeat_ack`.
    OtherFrames,
    /// Heartbeats that were sent.
    Heartbeats,
    /// Connections that the server closed.
    Closed,
}

impl Tally {
    const COUNT: usize = Self::Closed as usize + 1;
}

impl Counters {
    /// Counters at zero.
    pub(super) fn new(epoch: Epoch) -> Arc<Self> {
        Arc::new(Self {
            epoch,
            tallies: std::array::from_fn(|_| AtomicU64::new(0)),
            latency: Mutex::new(new_histogram()),
            ack_latency: Mutex::new(new_histogram()),
            rejections: Mutex::default(),
            repeat_until: AtomicU64::new(0),
        })
    }

    /// The epoch of all times.
    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The value of a counter.
    pub(super) fn get(&self, tally: Tally) -> u64 {
        self.tallies[tally as usize].load(Ordering::Relaxed)
    }

    /// Adds to a counter.
    pub(super) fn add(&self, tally: Tally, more: u64) {
        if more > 0 {
            self.tallies[tally as usize].fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Pushes that arrived.
    pub(super) fn deliveries(&self) -> u64 {
        self.get(Tally::Deliveries)
    }

    /// Makes senders follow each acknowledgement with the next message until this time.
    pub(super) fn repeat_until(&self, nanos: u64) {
        self.repeat_until.store(nanos, Ordering::Relaxed);
    }

    /// Whether an acknowledgement at this time is followed by the next message.
    pub(super) fn repeats_at(&self, nanos: u64) -> bool {
        nanos < self.repeat_until.load(Ordering::Relaxed)
    }

    /// Removes and returns the recorded latencies of deliveries.
    pub(super) fn take_latency(&self) -> Histogram<u64> {
        std::mem::replace(&mut lock(&self.latency), new_histogram())
    }

    /// Removes and returns the recorded latencies of acknowledgements.
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

    /// Counts a rejection and keeps the text of the first few.
    pub(super) fn rejected(&self, head: &[u8]) {
        self.add(Tally::Rejections, 1);
        let mut rejections = lock(&self.rejections);
        if rejections.len() < REJECTIONS_SHOWN {
            rejections.push(String::from_utf8_lossy(head).into_owned());
        }
    }

    /// The text of the first few rejections.
    pub(super) fn rejections(&self) -> Vec<String> {
        lock(&self.rejections).clone()
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
    fn rejections_are_counted_and_the_first_are_kept() {
        let counters = Counters::new(Epoch::begin());
        for number in 0..10 {
            counters.rejected(format!("rejection {number}").as_bytes());
        }
        assert_eq!(counters.get(Tally::Rejections), 10);
        assert_eq!(counters.rejections(), ["rejection 0", "rejection 1", "rejection 2"]);
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
