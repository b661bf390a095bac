//! Probes whether the store accepts writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tracing::{info, warn};

use crate::store::Chain;
use crate::upkeep::Upkeep;

/// The time between two probes, and how long one may take.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// The engine of the store, as a label.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EngineLabel {
    engine: &'static str,
}

/// Whether the store accepts writes. Clones share it.
#[derive(Debug, Clone)]
pub struct Availability {
    is_available: Arc<AtomicBool>,
    gauge: Gauge,
}

impl Availability {
    /// A store of this engine, which counts as available until the first probe.
    pub fn new(engine: &'static str, registry: &mut Registry) -> Self {
        let gauges = Family::<EngineLabel, Gauge>::default();
        let gauge = gauges.get_or_create_owned(&EngineLabel { engine });
        gauge.set(1);
        let plane = registry.sub_registry_with_prefix("durability");
        plane.register("store_available", "Whether the store answers its probe", gauges);
        Self { is_available: Arc::new(AtomicBool::new(true)), gauge }
    }

    /// Whether the last probe succeeded.
    pub fn is_available(&self) -> bool {
        self.is_available.load(Ordering::Relaxed)
    }

    /// Probes the store for ever.
    pub async fn run(self, store: Arc<dyn Upkeep>) {
        let mut ticks = tokio::time::interval(PROBE_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let failure = match tokio::time::timeout(PROBE_INTERVAL, store.probe()).await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(Chain(&error).to_string()),
                Err(_) => Some("no answer in time".to_owned()),
            };
            self.found(failure.as_deref());
        }
    }

    fn found(&self, failure: Option<&str>) {
        let was_available = self.is_available.swap(failure.is_none(), Ordering::Relaxed);
        self.gauge.set(i64::from(failure.is_none()));
        match failure {
            Some(error) if was_available => warn!(error, "store writes failing"),
            None if !was_available => info!("store writes recovered"),
            Some(_) | None => {}
        }
    }
}
