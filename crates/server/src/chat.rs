//! The durability plane of a node: its store, and everything that works on it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use heartline_durability::catch_up::CatchUpParts;
use heartline_durability::ingest::{IngestParts, Shard};
use heartline_durability::relay::Relay;
use heartline_durability::{
    Availability, Breaker, BreakerConfig, CatchUp, Chain, Changes, ChatChanges, EventBus,
    EventSource, InProcessBus, Ingest, IngestLimits, LazyWrites, Metrics, Publications, retention,
};
use heartline_fanout::{
    Consumer, Fanout, PresenceFanout, TypingFanout, TypingQueue, TypingReceiver,
};
use heartline_gateway::{DurabilityPorts, TypingNotices};
use heartline_protocol::{ChatId, UserId};
use heartline_rest::ChatParts;
use heartline_routing::{Clock, PresenceStates};
use heartline_runtime::{Supervisor, Tasks};
use prometheus_client::registry::Registry;
use tracing::{error, warn};

use crate::config::Config;
use crate::lifecycle::Lifecycle;
use crate::relations::StoreRelations;
use crate::store::Store;

/// How long the last writes of a stopping node may take.
const LAST_WRITES_DEADLINE: Duration = Duration::from_secs(5);

/// The pause before a consumer whose source failed is started again.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// The durability plane, put together and not yet running.
#[derive(Debug)]
pub(crate) struct Chat {
    store: Store,
    ingest: Ingest,
    catch_up: Arc<CatchUp>,
    lazy_writes: LazyWrites,
    typing_queue: TypingQueue,
    bus: Bus,
    publications: Publications,
    availability: Availability,
    metrics: Metrics,
    shards: Vec<Shard>,
    typing: TypingReceiver,
    changes: Tasks,
    retention: Option<Duration>,
    clock: Clock,
}

/// Both ends of the event bus.
#[derive(Clone)]
struct Bus {
    publisher: Arc<dyn EventBus>,
    /// Opens the consuming end, at the start and after a consumer has failed.
    open_source: Arc<dyn Fn() -> Box<dyn EventSource> + Send + Sync>,
}

/// The writes that are left when every connection is closed.
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
        fanout_metrics: heartline_fanout::Metrics,
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
        let publications = Publications::default();
        let bus = Bus::in_process(publications.clone(), clock);
        let lazy_writes = LazyWrites::new(metrics.clone());
        let (ingest, shards) = Ingest::new(IngestParts {
            limits: IngestLimits {
                per_chat: limits.ingest_per_chat,
                per_node: limits.ingest_per_node,
            },
            shards: store.ingest_shards,
            log: Arc::clone(&store.log),
            bus: Arc::clone(&bus.publisher),
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
        let (typing_queue, typing) = TypingQueue::new(fanout_metrics);
        let availability = Availability::new(store.name, registry);
        let retention = config.store.retention;
        Self {
            store,
            ingest,
            catch_up,
            lazy_writes,
            typing_queue,
            bus,
            publications,
            availability,
            metrics,
            shards,
            typing,
            changes: Tasks::new(),
            retention,
            clock,
        }
    }

    /// What the gateway works with.
    pub(crate) fn ports(&self) -> DurabilityPorts {
        DurabilityPorts {
            sends: Arc::new(self.ingest.clone()),
            reads: Arc::clone(&self.catch_up) as _,
            records: Arc::new(self.lazy_writes.clone()),
            relations: Arc::new(StoreRelations(Arc::clone(&self.store.privacy))),
        }
    }

    /// Where the gateway sends typing notices.
    pub(crate) fn typing(&self) -> Arc<dyn TypingNotices> {
        Arc::new(QueuedTyping(self.typing_queue.clone()))
    }

    /// What the handlers of HTTP requests work with.
    pub(crate) fn parts(&self) -> ChatParts {
        let chat_changes = ChatChanges {
            changes: Changes::new(self.changes.clone()),
            chats: Arc::clone(&self.store.chats),
            people: Arc::clone(&self.store.people),
            bus: Arc::clone(&self.bus.publisher),
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

    /// Starts every task of the plane. Answers the writes that are left when they have ended.
    pub(crate) fn start(
        self,
        lifecycle: &Lifecycle,
        fanout: Fanout,
        states: &dyn PresenceStates,
    ) -> LastWrites {
        let Self { store, lazy_writes, bus, publications, availability, metrics, .. } = self;
        let (shards, typing, retention, clock) =
            (self.shards, self.typing, self.retention, self.clock);
        for shard in shards {
            lifecycle.spawn_support("ingest", shard.run());
        }
        let relay = Relay {
            log: Arc::clone(&store.log),
            announcements: Arc::clone(&store.announcements),
            bus: Arc::clone(&bus.publisher),
            publications: publications.clone(),
            metrics,
        };
        lifecycle.spawn_support("relay", relay.run());
        lifecycle.spawn_support("fanout", consume(bus, fanout.clone(), store.clone(), clock));
        let typing = TypingFanout::new(typing, fanout.clone(), Arc::clone(&store.audiences));
        lifecycle.spawn_support("typing", typing.run());
        let audiences = Arc::clone(&store.audiences);
        let presence = PresenceFanout::new(fanout, states, audiences, lazy_writes.clone());
        lifecycle.spawn_support("presence fanout", presence.run());
        lifecycle.spawn_support("availability", availability.run(Arc::clone(&store.upkeep)));
        let announcements = Arc::clone(&store.announcements);
        lifecycle.spawn_support("publications", publications.clone().run(announcements));
        let upkeep = Arc::clone(&store.upkeep);
        lifecycle.spawn_support("retention", retention::run(upkeep, retention));
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

/// Consumes events for ever. A consumer that fails or panics is started again: events that it had
/// received and not reported come again.
async fn consume(bus: Bus, fanout: Fanout, store: Store, clock: Clock) {
    let restarts = fanout.metrics.consumer_restarts.clone();
    let supervisor = Supervisor::new("fanout", clock, restarts.clone());
    loop {
        let start = || {
            let consumer = Consumer::new(fanout.clone(), Arc::clone(&store.audiences));
            consumer.run((bus.open_source)())
        };
        if let Err(error) = supervisor.run(start).await {
            let restarts = restarts.inc() + 1;
            error!(error = %Chain(&error), restarts, "consuming events failed: restarting");
        }
        tokio::time::sleep(RESTART_PAUSE).await;
    }
}

impl Bus {
    /// The bus inside of this process.
    fn in_process(publications: Publications, clock: Clock) -> Self {
        let bus = Arc::new(InProcessBus::new(publications, clock));
        let publisher = Arc::clone(&bus) as Arc<dyn EventBus>;
        Self { publisher, open_source: Arc::new(move || Box::new(bus.source())) }
    }
}

impl fmt::Debug for Bus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.publisher.fmt(formatter)
    }
}

/// Fanout's queue, as the gateway's port.
#[derive(Debug)]
struct QueuedTyping(TypingQueue);

impl TypingNotices for QueuedTyping {
    fn typing(&self, chat_id: ChatId, user_id: UserId, is_typing: bool) -> bool {
        self.0.typing(chat_id, user_id, is_typing)
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
