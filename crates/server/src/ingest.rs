//! The ingest plane of a node: stores messages, publishes them, and keeps the store in order.

use std::sync::Arc;
use std::time::Duration;

use heartline_durability::catch_up::CatchUpParts;
use heartline_durability::ingest::{IngestParts, Shard};
use heartline_durability::relay::Relay;
use heartline_durability::{
    Availability, Breaker, BreakerConfig, CatchUp, Changes, ChatChanges, EventBus, Ingest,
    IngestLimits, LazyWrites, Metrics, Publications, retention,
};
use heartline_gateway::DurabilityPorts;
use heartline_rest::ChatParts;
use heartline_runtime::{Clock, Tasks};
use prometheus_client::registry::Registry;
use tracing::warn;

use crate::bus::Bus;
use crate::config::Config;
use crate::lifecycle::Lifecycle;
use crate::relations::StoreRelations;
use crate::store::Store;

/// How long the last writes of a stopping node may take.
const LAST_WRITES_DEADLINE: Duration = Duration::from_secs(5);

/// The ingest plane, put together and not yet running.
#[derive(Debug)]
pub(crate) struct IngestPlane {
    store: Store,
    ingest: Ingest,
    catch_up: Arc<CatchUp>,
    lazy_writes: LazyWrites,
    bus: Arc<dyn EventBus>,
    publications: Publications,
    availability: Availability,
    metrics: Metrics,
    shards: Vec<Shard>,
    changes: Tasks,
    retention: Option<Duration>,
}

/// The writes that are left when every connection is closed.
#[derive(Debug)]
pub(crate) struct LastWrites {
    store: Store,
    lazy_writes: LazyWrites,
    publications: Publications,
}

impl IngestPlane {
    /// Puts the plane together around an open store and a bus.
    pub(crate) fn new(
        store: Store,
        bus: &Bus,
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
        let (bus, publications) = (Arc::clone(&bus.publisher), bus.publications.clone());
        let lazy_writes = LazyWrites::new(metrics.clone());
        let (ingest, shards) = Ingest::new(IngestParts {
            limits: IngestLimits {
                per_chat: limits.ingest_per_chat,
                per_node: limits.ingest_per_node,
            },
            shards: store.ingest_shards,
            log: Arc::clone(&store.log),
            bus: Arc::clone(&bus),
            breaker: breaker("write", metrics.write_breaker.clone()),
            clock,
            metrics: metrics.clone(),
        });
        let catch_up = Arc::new(CatchUp::new(CatchUpParts {
            log: Arc::clone(&store.log),
            breaker: breaker("read", metrics.read_breaker.clone()),
            reads_max: limits.sync_reads,
            lazy_writes: lazy_writes.clone(),
            metrics: metrics.clone(),
        }));
        let availability = Availability::new(store.name, registry);
        let (changes, retention) = (Tasks::new(), config.store.retention);
        Self {
            store,
            ingest,
            catch_up,
            lazy_writes,
            bus,
            publications,
            availability,
            metrics,
            shards,
            changes,
            retention,
        }
    }

    /// The plane as the gateway of the same node uses it.
    pub(crate) fn ports(&self) -> DurabilityPorts {
        DurabilityPorts {
            sends: Arc::new(self.ingest.clone()),
            reads: Arc::clone(&self.catch_up) as _,
            records: Arc::new(self.lazy_writes.clone()),
            relations: Arc::new(StoreRelations(Arc::clone(&self.store.privacy))),
        }
    }

    /// The plane as the handlers of HTTP requests use it.
    pub(crate) fn parts(&self) -> ChatParts {
        let chat_changes = ChatChanges {
            changes: Changes::new(self.changes.clone()),
            chats: Arc::clone(&self.store.chats),
            people: Arc::clone(&self.store.people),
            bus: Arc::clone(&self.bus),
        };
        ChatParts {
            ingest: self.ingest.clone(),
            catch_up: Arc::clone(&self.catch_up),
            chats: Arc::clone(&self.store.chats),
            people: Arc::clone(&self.store.people),
            contacts: Arc::clone(&self.store.contacts),
            privacy: Arc::clone(&self.store.privacy),
            lazy_writes: self.lazy_writes.clone(),
            chat_changes,
            availability: self.availability.clone(),
        }
    }

    /// The watermarks and last-seen times that are written lazily.
    pub(crate) fn lazy_writes(&self) -> LazyWrites {
        self.lazy_writes.clone()
    }

    /// Starts every task of the plane. Returns the writes that are left when they have ended.
    pub(crate) fn start(self, lifecycle: &Lifecycle) -> LastWrites {
        let Self { store, lazy_writes, publications, .. } = self;
        for shard in self.shards {
            lifecycle.spawn_support("ingest", shard.run());
        }
        let relay = Relay {
            log: Arc::clone(&store.log),
            announcements: Arc::clone(&store.announcements),
            bus: self.bus,
            publications: publications.clone(),
            metrics: self.metrics,
        };
        lifecycle.spawn_support("relay", relay.run());
        lifecycle.spawn_support("availability", self.availability.run(Arc::clone(&store.upkeep)));
        let announcements = Arc::clone(&store.announcements);
        lifecycle.spawn_support("publications", publications.clone().run(announcements));
        let upkeep = Arc::clone(&store.upkeep);
        lifecycle.spawn_support("retention", retention::run(upkeep, self.retention));
        lifecycle.spawn_support("lazy writes", lazy_writes.clone().run(Arc::clone(&store.lazy)));
        // Changes whose caller has gone are finished, and announced, before the consumer ends.
        let (stop, changes) = (lifecycle.soft_stop(), self.changes);
        lifecycle.spawn("changes", async move {
            stop.cancelled().await;
            changes.join().await;
        });
        LastWrites { store, lazy_writes, publications }
    }
}

impl LastWrites {
    /// Writes what was kept in memory, and closes the store.
    pub(crate) async fn write(self) {
        let Self { store, lazy_writes, publications } = self;
        let writes = async {
            lazy_writes.write(&*store.lazy).await;
            publications.record(&*store.announcements).await;
            store.close().await;
        };
        if tokio::time::timeout(LAST_WRITES_DEADLINE, writes).await.is_err() {
            warn!("last watermarks not written: store timeout");
        }
    }
}
