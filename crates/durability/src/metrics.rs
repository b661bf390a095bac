//! The metrics of the durability plane, defined in `docs/metrics.md`.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::breaker::BreakerMetrics;
use crate::log::AppendRefusal;

/// The outcome of a send, as a label.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct OutcomeLabel {
    /// `stored`, `duplicate`, or the reason of a failure.
    pub outcome: &'static str,
}

/// The plane's counters and histograms, as cheap handles.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Messages stored for the first time.
    pub messages_persisted: Counter,
    /// From being accepted to being known as committed.
    pub persist_seconds: Histogram,
    /// Messages stored together.
    pub batch_messages: Histogram,
    /// Sends that an earlier attempt had stored.
    pub idempotency_hits: Counter,
    /// Sends that reused a `client_message_id` for another message.
    pub conflicts: Counter,
    /// Sends to a halted chat.
    pub halted_sends: Counter,
    /// Sends by outcome.
    pub sends: Family<OutcomeLabel, Counter>,
    /// Messages that the relay announced.
    pub relayed: Counter,
    /// Reads refused because too many were pending.
    pub reads_busy: Counter,
    /// Reads that failed or were not answered in time.
    pub reads_failed: Counter,
    /// Watermarks and last-seen times that were dropped because too many were pending.
    pub lazy_writes_dropped: Counter,
    /// The breaker of the store's writes.
    pub write_breaker: BreakerMetrics,
    /// The breaker of the store's reads.
    pub read_breaker: BreakerMetrics,
}

/// The buckets up to the deadline of a send, with the documented thresholds among them.
const PERSIST_BUCKETS: [f64; 13] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];

const BATCH_BUCKETS: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

impl Default for Metrics {
    fn default() -> Self {
        Self {
            messages_persisted: Counter::default(),
            persist_seconds: Histogram::new(PERSIST_BUCKETS),
            batch_messages: Histogram::new(BATCH_BUCKETS),
            idempotency_hits: Counter::default(),
            conflicts: Counter::default(),
            halted_sends: Counter::default(),
            sends: Family::default(),
            relayed: Counter::default(),
            reads_busy: Counter::default(),
            reads_failed: Counter::default(),
            lazy_writes_dropped: Counter::default(),
            write_breaker: BreakerMetrics::default(),
            read_breaker: BreakerMetrics::default(),
        }
    }
}

impl Metrics {
    /// Registers every metric under its documented name.
    pub fn register(&self, registry: &mut Registry) {
        let plane = registry.sub_registry_with_prefix("durability");
        for (name, help, counter) in [
            ("messages_persisted", "Messages stored", &self.messages_persisted),
            ("idempotency_hits", "Sends that were stored before", &self.idempotency_hits),
            ("conflicts", "Sends that reused an id", &self.conflicts),
            ("halted_sends", "Sends to a halted chat", &self.halted_sends),
            ("messages_relayed", "Messages that the relay announced", &self.relayed),
            ("reads_busy", "Reads refused because too many were pending", &self.reads_busy),
            ("reads_failed", "Reads that failed", &self.reads_failed),
            (
                "lazy_writes_dropped",
                "Watermarks and last-seen times dropped",
                &self.lazy_writes_dropped,
            ),
        ] {
            plane.register(name, help, counter.clone());
        }
        plane.register("sends", "Sends by outcome", self.sends.clone());
        let persist = "From acceptance to commit";
        let seconds = Unit::Seconds;
        plane.register_with_unit("persist", persist, seconds, self.persist_seconds.clone());
        let batch = "Messages stored together";
        plane.register("batch_messages", batch, self.batch_messages.clone());
        for (name, breaker) in [("write", &self.write_breaker), ("read", &self.read_breaker)] {
            let state = format!("circuit_breaker_{name}_state");
            let help = "0 closed, 1 open, 2 waiting for its probe";
            plane.register(state, help, breaker.state.clone());
            let openings = format!("circuit_breaker_{name}_openings");
            plane.register(openings, "Times that it opened", breaker.openings.clone());
        }
    }

    pub(crate) fn sent(&self, outcome: &'static str) {
        self.sends.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    pub(crate) fn refused(&self, refusal: AppendRefusal) {
        match refusal {
            AppendRefusal::NotAMember => {}
            AppendRefusal::Conflict => {
                self.conflicts.inc();
            }
            AppendRefusal::Halted => {
                self.halted_sends.inc();
            }
        }
    }
}
