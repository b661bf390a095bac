//! The configuration and the surroundings of party sessions, shared by all rooms.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use heartline_protocol::NodeId;
use heartline_runtime::{Clock, Random, Tasks};
use tokio::time::Instant;
use tracing::debug;

use crate::room::archive::PartyArchive;
use crate::room::archivist::Archivist;
use crate::room::metrics::PartyMetrics;
use crate::room::store::PartyStore;
use crate::value::limits::Limits;
use crate::value::log::LogLimits;

/// The configuration of party sessions.
#[derive(Debug, Clone, Copy)]
pub struct PartyConfig {
    /// Bounds of a session.
    pub limits: Limits,
    /// Bounds of its log.
    pub log: LogLimits,
    /// The time without changes after which a session is archived.
    pub archive_debounce: Duration,
    /// The time without members after which a session is ended; none for never.
    pub auto_end: Option<Duration>,
    /// The most buffered events of one subscriber before it gets the whole state instead.
    pub subscription_queue: usize,
}

/// The surroundings of the party sessions of a node.
#[derive(Debug)]
pub struct PartyParts {
    /// The store of live sessions.
    pub store: PartyStore,
    /// The archive of all sessions.
    pub archive: Arc<dyn PartyArchive>,
    /// The id of this node.
    pub node_id: NodeId,
    /// The configuration.
    pub config: PartyConfig,
    /// The clocks of this node.
    pub clock: Clock,
    /// The random source of this node.
    pub random: Random,
}

/// The parts that all rooms share.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) store: PartyStore,
    pub(crate) archive: Arc<dyn PartyArchive>,
    pub(crate) archivist: Archivist,
    pub(crate) node_id: NodeId,
    pub(crate) config: PartyConfig,
    pub(crate) clock: Clock,
    pub(crate) metrics: PartyMetrics,
    pub(crate) random: Random,
    /// Owns the tasks of rooms, and work that must be finished although its caller may give up.
    pub(crate) tasks: Tasks,
    /// The last reading of the store's clock, and the time of that reading.
    store_time: Mutex<(Instant, u64)>,
}

impl Parts {
    pub(crate) fn new(parts: PartyParts) -> Self {
        let PartyParts { store, archive, node_id, config, clock, random } = parts;
        let (debounce, metrics) = (config.archive_debounce, PartyMetrics::default());
        let archivist = Archivist::new(Arc::clone(&archive), debounce, clock, metrics.clone());
        Self {
            store,
            archive,
            archivist,
            node_id,
            config,
            clock,
            metrics,
            random,
            tasks: Tasks::new(),
            store_time: Mutex::new((clock.now(), clock.wall().unix_ms)),
        }
    }

    /// The time by the store's clock.
    pub(crate) fn now_ms(&self) -> u64 {
        let (read_at, read_ms) = *self.store_time.lock().unwrap_or_else(PoisonError::into_inner);
        read_ms + (self.clock.now() - read_at).as_millis() as u64
    }

    /// Reads the store's clock.
    pub(crate) async fn read_time(&self) {
        match self.store.activity.now_ms().await {
            Ok(now_ms) => {
                let read = (self.clock.now(), now_ms);
                *self.store_time.lock().unwrap_or_else(PoisonError::into_inner) = read;
            }
            Err(error) => debug!(%error, "reading the party store's clock failed"),
        }
    }
}
