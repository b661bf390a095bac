//! Whether the store works, found out by asking it and not by waiting for a send to fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tracing::{info, warn};

use crate::members::Members;

/// How often the store is asked, and how long it may take.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// Which store, as a label.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EngineLabel {
    engine: &'static str,
}

/// Whether the store works. Clones share it.
#[derive(Debug, Clone)]
pub struct Availability {
    is_available: Arc<AtomicBool>,
    gauge: Gauge,
}

impl Availability {
    /// A store of this engine, taken to work until it is asked.
    pub fn new(engine: &'static str, registry: &mut Registry) -> Self {
        let gauges = Family::<EngineLabel, Gauge>::default();
        let gauge = gauges.get_or_create_owned(&EngineLabel { engine });
        gauge.set(1);
        let plane = registry.sub_registry_with_prefix("durability");
        plane.register("store_available", "Whether the store answers its probe", gauges);
        Self { is_available: Arc::new(AtomicBool::new(true)), gauge }
    }

    /// Whether the store answered when it was last asked.
    pub fn is_available(&self) -> bool {
        self.is_available.load(Ordering::Relaxed)
    }

    /// Asks for ever, by a write of nothing, which goes the way of every write.
    pub async fn run(self, members: Arc<dyn Members>) {
        let mut ticks = tokio::time::interval(PROBE_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let probe = members.record_watermarks(Vec::new());
            let failure = match tokio::time::timeout(PROBE_INTERVAL, probe).await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.reason),
                Err(_) => Some("no answer in time".to_owned()),
            };
            self.found(failure.as_deref());
        }
    }

    fn found(&self, failure: Option<&str>) {
        let was_available = self.is_available.swap(failure.is_none(), Ordering::Relaxed);
        self.gauge.set(i64::from(failure.is_none()));
        match failure {
            Some(reason) if was_available => warn!(reason, "the store does not take writes"),
            None if !was_available => info!("the store takes writes again"),
            Some(_) | None => {}
        }
    }
}
