//! The durability plane of a node: its store, and everything that works on it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use heartline_adapters::sqlite::{SqliteConfig, SqliteStore};
use heartline_durability::catch_up::CatchUpParts;
use heartline_durability::ingest::{IngestParts, Shard};
use heartline_durability::relay::Relay;
use heartline_durability::{
    Availability, Breaker, BreakerConfig, CatchUp, ChatLog, Event, EventBus, InProcessBus, Ingest,
    IngestLimits, LazyWrites, Members, Metrics, Profiles, Publications, retention,
};
use heartline_fanout::{Consumer, Fanout};
use heartline_gateway::ChatPlane;
use heartline_routing::Clock;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;
use tracing::warn;

use crate::config::Config;
use crate::http::ChatParts;
use crate::lifecycle::Lifecycle;

/// How long the last writes of a stopping node may take.
const LAST_WRITES_DEADLINE: Duration = Duration::from_secs(5);

/// The durability plane, put together and not yet running.
#[derive(Debug)]
pub(crate) struct Chat {
    store: Arc<SqliteStore>,
    plane: ChatPlane,
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
    store: Arc<SqliteStore>,
    lazy_writes: LazyWrites,
    publications: Publications,
}

impl Chat {
    /// Opens the store and puts the plane together.
    pub(crate) fn open(config: &Config, clock: Clock, registry: &mut Registry) -> Result<Self> {
        let store = Arc::new(open_store(config, clock)?);
        store.counters().register(registry);
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
            // One thread writes to the file, so more shards would only make smaller batches.
            shards: 1,
            log: Arc::clone(&store) as Arc<dyn ChatLog>,
            bus: Arc::clone(&bus),
            breaker: breaker("write", metrics.write_breaker.clone()),
            clock,
            metrics: metrics.clone(),
        });
        let catch_up = Arc::new(CatchUp::new(CatchUpParts {
            log: Arc::clone(&store) as Arc<dyn ChatLog>,
            breaker: breaker("read", metrics.read_breaker.clone()),
            reads_max: limits.sync_reads,
            lazy_writes: lazy_writes.clone(),
            metrics: metrics.clone(),
        }));
        let plane = ChatPlane { ingest, catch_up, lazy_writes, bus };
        let publications = Publications::default();
        let availability = Availability::new("sqlite", registry);
        let retention = config.store.retention;
        Ok(Self {
            store,
            plane,
            publications,
            availability,
            metrics,
            shards,
            events,
            retention,
            clock,
        })
    }

    /// What the gateway works with.
    pub(crate) fn plane(&self) -> ChatPlane {
        self.plane.clone()
    }

    /// What the handlers of HTTP requests work with.
    pub(crate) fn parts(&self) -> ChatParts {
        let ChatPlane { ingest, catch_up, bus, .. } = self.plane();
        let (members, profiles) = (self.members(), self.profiles());
        let availability = self.availability.clone();
        ChatParts { ingest, catch_up, members, profiles, bus, availability }
    }

    fn members(&self) -> Arc<dyn Members> {
        Arc::clone(&self.store) as Arc<dyn Members>
    }

    fn profiles(&self) -> Arc<dyn Profiles> {
        Arc::clone(&self.store) as Arc<dyn Profiles>
    }

    /// Starts everything. Answers what must be done when it has ended.
    pub(crate) fn start(self, lifecycle: &Lifecycle, fanout: Fanout) -> LastWrites {
        let members = self.members();
        let profiles = self.profiles();
        let Self { store, plane, publications, availability, metrics, .. } = self;
        let (shards, events, retention, clock) =
            (self.shards, self.events, self.retention, self.clock);
        let log = Arc::clone(&store) as Arc<dyn ChatLog>;
        for shard in shards {
            lifecycle.spawn_support("ingest", shard.run());
        }
        let consumer = Consumer::new(fanout, Arc::clone(&members), publications.clone());
        lifecycle.spawn_support("fanout", consumer.run(events));
        let relay = Relay {
            log: Arc::clone(&log),
            bus: plane.bus,
            publications: publications.clone(),
            metrics,
        };
        lifecycle.spawn_support("relay", relay.run());
        lifecycle.spawn_support("availability", availability.run(Arc::clone(&members)));
        lifecycle.spawn_support("publications", publications.clone().run(Arc::clone(&log)));
        lifecycle.spawn_support("retention", retention::run(log, retention, clock));
        let lazy_writes = plane.lazy_writes;
        lifecycle.spawn_support("lazy writes", lazy_writes.clone().run(members, profiles));
        LastWrites { store, lazy_writes, publications }
    }
}

impl LastWrites {
    /// Writes what was kept in memory, and closes the store.
    pub(crate) async fn write(self) {
        let Self { store, lazy_writes, publications } = self;
        let writes = async {
            lazy_writes.write(&*store, &*store).await;
            publications.record(&*store).await;
            store.close().await;
        };
        if tokio::time::timeout(LAST_WRITES_DEADLINE, writes).await.is_err() {
            warn!("the store did not take the last watermarks in time");
        }
    }
}

fn open_store(config: &Config, clock: Clock) -> Result<SqliteStore> {
    let store = &config.store;
    let mut sqlite =
        SqliteConfig::from_url(&store.url, &config.server.data_dir).context("store.url")?;
    sqlite.disk_reserve_bytes = store.disk_reserve;
    sqlite.allow_unsafe = store.allow_unsafe;
    SqliteStore::open(&sqlite, clock).context("store.url")
}
