//! The metrics of calls to Redis.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// The kind of a failure as a label.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct KindLabel {
    /// As [`super::RedisFailure::kind`] names it.
    pub kind: &'static str,
}

/// Counters of a Redis client. Cloning shares them, so that the server can register them.
#[derive(Debug, Clone)]
pub struct RedisCounters {
    /// Calls; a pipeline is one.
    pub calls: Counter,
    /// Calls that failed, by kind.
    pub failures: Family<KindLabel, Counter>,
    /// How long calls took, failed ones included.
    pub call_seconds: Histogram,
    /// 0 closed, 1 open.
    pub breaker_state: Gauge,
    /// Times that the breaker opened.
    pub breaker_openings: Counter,
    /// Connections made after the first one, subscriptions included.
    pub reconnects: Counter,
    /// Times that a subscription may have lost messages.
    pub subscription_losses: Counter,
    /// Messages dropped because their reader was too slow.
    pub messages_dropped: Counter,
    /// Times that a listener panicked and was restarted.
    pub listener_restarts: Counter,
    /// Sweeps that saw rebuilds of shards end: the counter of `RoutingMetrics`, which registers it.
    pub rebuilds: Counter,
}

/// Around a round trip within a data centre, up to the deadline.
const CALL_BUCKETS: [f64; 11] =
    [0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5];

impl Default for RedisCounters {
    fn default() -> Self {
        Self {
            calls: Counter::default(),
            failures: Family::default(),
            call_seconds: Histogram::new(CALL_BUCKETS),
            breaker_state: Gauge::default(),
            breaker_openings: Counter::default(),
            reconnects: Counter::default(),
            subscription_losses: Counter::default(),
            messages_dropped: Counter::default(),
            listener_restarts: Counter::default(),
            rebuilds: Counter::default(),
        }
    }
}

impl RedisCounters {
    /// Registers every metric under its documented name.
    pub fn register(&self, registry: &mut Registry) {
        let redis = registry.sub_registry_with_prefix("redis");
        for (name, help, counter) in [
            ("calls", "Calls to Redis", &self.calls),
            ("breaker_openings", "Times that the breaker opened", &self.breaker_openings),
            ("reconnects", "Connections made again", &self.reconnects),
            ("subscription_losses", "Times that messages may be lost", &self.subscription_losses),
            ("messages_dropped", "Messages dropped for a slow reader", &self.messages_dropped),
            ("listener_restarts", "Listeners restarted after a panic", &self.listener_restarts),
        ] {
            redis.register(name, help, counter.clone());
        }
        redis.register("failures", "Calls that failed, by kind", self.failures.clone());
        let duration = "How long calls took";
        redis.register_with_unit("call", duration, Unit::Seconds, self.call_seconds.clone());
        redis.register("breaker_state", "0 closed, 1 open", self.breaker_state.clone());
    }

    pub(super) fn failed(&self, kind: &'static str) {
        self.failures.get_or_create(&KindLabel { kind }).inc();
    }
}
