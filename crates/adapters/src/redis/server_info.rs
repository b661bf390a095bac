//! Values of the servers' `INFO`, as metrics.
//!
//! Every node of a cluster shows the same values, because they are the server's and not the node's:
//! alert rules use the maximum over nodes and never the sum.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// The values of one server, or of several together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ServerInfo {
    /// Of the memory that it may use, the fullest server's; none without a bound.
    pub(super) memory_used_ratio: Option<f64>,
    pub(super) memory_used_bytes: u64,
    pub(super) keyspace_hits: u64,
    pub(super) keyspace_misses: u64,
    pub(super) expired_keys: u64,
    pub(super) evicted_keys: u64,
    pub(super) connected_clients: u64,
    /// Those of one slot of a Cluster included.
    pub(super) pubsub_channels: u64,
    pub(super) pubsub_patterns: u64,
    /// Of all users of this Redis.
    pub(super) keys: u64,
}

impl ServerInfo {
    /// Reads the reply to `INFO`. A missing value is 0.
    pub(super) fn read(text: &str) -> Self {
        let facts: HashMap<&str, &str> =
            text.lines().filter_map(|line| line.trim_end().split_once(':')).collect();
        let number = |name: &str| facts.get(name).and_then(|fact| fact.parse().ok()).unwrap_or(0);
        let (used, maximum): (u64, u64) = (number("used_memory"), number("maxmemory"));
        // `db0:keys=12,expires=3,avg_ttl=0`
        let keys_of =
            |fact: &str| fact.strip_prefix("keys=")?.split(',').next()?.parse::<u64>().ok();
        let databases = facts.iter().filter(|(name, _)| name.starts_with("db"));
        Self {
            memory_used_ratio: (maximum > 0).then(|| used as f64 / maximum as f64),
            memory_used_bytes: used,
            keyspace_hits: number("keyspace_hits"),
            keyspace_misses: number("keyspace_misses"),
            expired_keys: number("expired_keys"),
            evicted_keys: number("evicted_keys"),
            connected_clients: number("connected_clients"),
            pubsub_channels: number("pubsub_channels") + number("pubsubshard_channels"),
            pubsub_patterns: number("pubsub_patterns"),
            keys: databases.filter_map(|(_, fact)| keys_of(fact)).sum(),
        }
    }

    /// Together with those of another server.
    pub(super) fn with(self, other: Self) -> Self {
        let fullest = self.memory_used_ratio.into_iter().chain(other.memory_used_ratio);
        Self {
            memory_used_ratio: fullest.reduce(f64::max),
            memory_used_bytes: self.memory_used_bytes + other.memory_used_bytes,
            keyspace_hits: self.keyspace_hits + other.keyspace_hits,
            keyspace_misses: self.keyspace_misses + other.keyspace_misses,
            expired_keys: self.expired_keys + other.expired_keys,
            evicted_keys: self.evicted_keys + other.evicted_keys,
            connected_clients: self.connected_clients + other.connected_clients,
            pubsub_channels: self.pubsub_channels + other.pubsub_channels,
            pubsub_patterns: self.pubsub_patterns + other.pubsub_patterns,
            keys: self.keys + other.keys,
        }
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        if let Some(ratio) = self.memory_used_ratio {
            let help = "Memory in use, of what the fullest server may use";
            let unit = Unit::Other("ratio".to_owned());
            show(encoder, "memory_used", help, Some(&unit), &ConstGauge::new(ratio))?;
        }
        let (help, bytes) = ("Memory in use", ConstGauge::new(self.memory_used_bytes));
        show(encoder, "memory_used", help, Some(&Unit::Bytes), &bytes)?;
        for (name, help, value) in [
            ("connected_clients", "Connections to Redis", self.connected_clients),
            ("pubsub_channels", "Channels that somebody listens to", self.pubsub_channels),
            ("pubsub_patterns", "Patterns that somebody listens to", self.pubsub_patterns),
            ("keys", "Keys in Redis", self.keys),
        ] {
            show(encoder, name, help, None, &ConstGauge::new(value))?;
        }
        for (name, help, value) in [
            ("keyspace_hits", "Reads of keys that exist", self.keyspace_hits),
            ("keyspace_misses", "Reads of keys that do not exist", self.keyspace_misses),
            ("expired_keys", "Keys removed because their time was over", self.expired_keys),
            ("evicted_keys", "Keys removed for want of memory", self.evicted_keys),
        ] {
            show(encoder, name, help, None, &ConstCounter::new(value))?;
        }
        Ok(())
    }
}

fn show(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    metric: &impl EncodeMetric,
) -> fmt::Result {
    metric.encode(encoder.encode_descriptor(name, help, unit, metric.metric_type())?)
}

/// The latest values, if there are any, for the metrics endpoint.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedServerInfo {
    latest: Arc<Mutex<Option<ServerInfo>>>,
}

impl SharedServerInfo {
    /// Shows these from now on, or none.
    pub(super) fn show(&self, info: Option<ServerInfo>) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = info;
    }
}

impl Collector for SharedServerInfo {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let latest = *self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.map_or(Ok(()), |info| info.encode(&mut encoder))
    }
}
