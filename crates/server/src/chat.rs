//! The durability plane of a node: its store, and everything that works on it.

use std::sync::Arc;
use std::time::Duration;

use heartline_durability::catch_up::CatchUpParts;
use heartline_durability::ingest::{IngestParts, Shard};
use heartline_durability::relay::Relay;
use heartline_durability::{
    Availability, Breaker, BreakerConfig, CatchUp, Event, EventBus, InProcessBus, Ingest,
    IngestLimits, LazyWrites, Metrics, Publications, retention,
};
use heartline_fanout::{Consumer, Fanout, PresenceFanout};
use heartline_gateway::DurabilityPorts;
use heartline_rest::ChatParts;
use heartline_routing::{Clock, PresenceStates};
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;
use tracing::warn;

use crate::config::Config;
use crate::lifecycle::Lifecycle;
use crate::relations::StoreRelations;
use crate::store::Store;

/// How long the last writes of a stopping node may take.
const LAST_WRITES_DEADLINE: Duration = Duration::from_secs(5);

/// The durability plane, put together and not yet running.
#[derive(Debug)]
pub(crate) struct Chat {
    store: Store,
    ingest: Ingest,
    catch_up: Arc<CatchUp>,
    lazy_writes: LazyWrites,
    bus: Arc<dyn EventBus>,
    publications: Publications,
    availability: Availability,
    metrics: Metrics,
    shards: Vec<Shard>,
    events: mpsc::Receiver<Event>,
    retention: Option<Duration>,
    clock: Clock,
}

/// What is left to do when everybody is gone.
#[derive(Debug)]
pub(crate) struct LastWrites {
    store: Store,
    lazy_writes: LazyWrites,
    publications: Publications,
}

impl Chat {
    /// Puts the plane together around an open store.
    pub(crate) fn new(
        store: Store,
        config: &Config,
        clock: Clock,
        registry: &mut Registry,
    ) -> Self {
        store.register(registry);
        let metrics = Metrics::default();
        metrics.register(registry);
        let limits = &config.limits;
        let breaker_config = BreakerConfig {
            failures: limits.breaker_failures,
            window: limits.breaker_window,
            open: limits.breaker_open,
        };
        let breaker = |name, metrics| Arc::new(Breaker::new(name, breaker_config, clock, metrics));
        let (bus, events) = InProcessBus::new();
        let bus: Arc<dyn EventBus> = Arc::new(bus);
        let lazy_writes = LazyWrites::new(metrics.clone());
        let (ingest, shards) = Ingest::new(IngestParts {
            limits: IngestLimits {
                per_chat: limits.ingest_per_chat,
                per_node: limits.ingest_per_node,
            },
            shards: store.ingest_shards(),
            log: store.log(),
            bus: Arc::clone(&bus),
            breaker: breaker("write", metrics.write_breaker.clone()),
            clock,
            metrics: metrics.clone(),
        });
        let catch_up = Arc::new(CatchUp::new(CatchUpParts {
            log: store.log(),
            breaker: breaker("read", metrics.read_breaker.clone()),
            reads_max: limits.sync_reads,
            lazy_writes: lazy_writes.clone(),
            metrics: metrics.clone(),
        }));
        Self {
            publications: Publications::default(),
            availability: Availability::new(store.engine(), registry),
            retention: config.store.retention,
            store,
            ingest,
            catch_up,
            lazy_writes,
            bus,
            metrics,
            shards,
            events,
            clock,
        }
    }

    /// What the gateway works with.
    pub(crate) fn ports(&self) -> DurabilityPorts {
        DurabilityPorts {
            sends: Arc::new(self.ingest.clone()),
            reads: Arc::clone(&self.catch_up) as _,
            records: Arc::new(self.lazy_writes.clone()),
            relations: Arc::new(StoreRelations(self.store.profiles())),
        }
    }

    /// Where events are announced.
    pub(crate) fn bus(&self) -> Arc<dyn EventBus> {
        Arc::clone(&self.bus)
    }

    /// What the handlers of HTTP requests work with.
    pub(crate) fn parts(&self) -> ChatParts {
        ChatParts {
            ingest: self.ingest.clone(),
            catch_up: Arc::clone(&self.catch_up),
            members: self.store.members(),
            profiles: self.store.profiles(),
            lazy_writes: self.lazy_writes.clone(),
            bus: Arc::clone(&self.bus),
            availability: self.availability.clone(),
        }
    }

    /// Starts everything. Answers what must be done when it has ended.
    pub(crate) fn start(
        self,
        lifecycle: &Lifecycle,
        fanout: Fanout,
        states: &dyn PresenceStates,
    ) -> LastWrites {
        let (log, members) = (self.store.log(), self.store.members());
        let profiles = self.store.profiles();
        let Self { store, lazy_writes, bus, publications, availability, metrics, .. } = self;
        let (shards, events, retention, clock) =
            (self.shards, self.events, self.retention, self.clock);
        for shard in shards {
            lifecycle.spawn_support("ingest", shard.run());
        }
        let consumer = Consumer::new(fanout.clone(), Arc::clone(&members), publications.clone());
        lifecycle.spawn_support("fanout", consumer.run(events));
        let presence =
            PresenceFanout::new(fanout, states, Arc::clone(&members), lazy_writes.clone());
        lifecycle.spawn_support("presence fanout", presence.run());
        let relay =
            Relay { log: Arc::clone(&log), bus, publications: publications.clone(), metrics };
        lifecycle.spawn_support("relay", relay.run());
        lifecycle.spawn_support("availability", availability.run(Arc::clone(&members)));
        lifecycle.spawn_support("publications", publications.clone().run(Arc::clone(&log)));
        lifecycle.spawn_support("retention", retention::run(log, retention, clock));
        lifecycle.spawn_support("lazy writes", lazy_writes.clone().run(members, profiles));
        LastWrites { store, lazy_writes, publications }
    }
}

impl LastWrites {
    /// Writes what was kept in memory, and closes the store.
    pub(crate) async fn write(self) {
        let Self { store, lazy_writes, publications } = self;
        let writes = async {
            lazy_writes.write(&*store.members(), &*store.profiles()).await;
            publications.record(&*store.log()).await;
            store.close().await;
        };
        if tokio::time::timeout(LAST_WRITES_DEADLINE, writes).await.is_err() {
            warn!("last watermarks not written: store timeout");
        }
    }
}
