//! The engines of a node: opened as its configuration says, or shared inside one process.

use std::sync::Arc;

use anyhow::{Context, Result};
use heartline_adapters::redis::RedisCounters;
use heartline_adapters::sqlite::SqliteStore;
use heartline_protocol::NodeId;
use heartline_routing::link::MemoryLinks;
use heartline_routing::{MemoryDirectory, RoutingMetrics};
use heartline_runtime::{Clock, Random};
use prometheus_client::registry::Registry;
use ulid::Ulid;

use crate::cluster::Cluster;
use crate::config::Loaded;
use crate::store::Store;

/// The engines of one node, open and not yet used.
#[derive(Debug)]
pub struct Engines {
    pub(crate) node_id: NodeId,
    pub(crate) store: Store,
    pub(crate) cluster: Cluster,
    /// The metrics of routing, which the directory updates too.
    pub(crate) routing: RoutingMetrics,
    /// The metrics of the engines, to which the planes add theirs.
    pub(crate) registry: Registry,
}

/// Engines inside one process, for nodes that share it. Clones share the same engines.
#[derive(Debug, Clone)]
pub struct InProcess {
    /// The store.
    pub store: SqliteStore,
    /// The directory.
    pub directory: Arc<MemoryDirectory>,
    /// The links between the nodes.
    pub links: MemoryLinks,
}

impl Engines {
    /// Opens the engines that the configuration names.
    ///
    /// # Errors
    /// A store or a server cannot be used.
    pub async fn open(loaded: &Loaded, clock: Clock, random: Random) -> Result<Self> {
        let config = &loaded.config;
        let node_id = node_id(&config.server.name, random)?;
        let mut registry = Registry::default();
        let routing = RoutingMetrics::default();
        routing.register(&mut registry);
        let rebuilds = routing.rebuilds.clone();
        let counters = RedisCounters { rebuilds, ..RedisCounters::default() };
        let store = Store::open(config, clock, random).await?;
        let id = node_id.clone();
        let connecting = Cluster::connect(config, id, clock, counters, random, &mut registry);
        let cluster = connecting.await?;
        Ok(Self { node_id, store, cluster, routing, registry })
    }

    /// Engines that several nodes of this process share.
    ///
    /// # Errors
    /// `server.name` is not a legal name.
    pub fn in_process(
        loaded: &Loaded,
        shared: InProcess,
        clock: Clock,
        random: Random,
    ) -> Result<Self> {
        let config = &loaded.config;
        let node_id = node_id(&config.server.name, random)?;
        let (link, envelopes) = shared.links.join(node_id.clone());
        let cluster = Cluster::in_process(
            node_id.clone(),
            config.server.planes,
            shared.directory,
            Arc::new(link),
            envelopes,
            clock,
        );
        let store = Store::sqlite(shared.store);
        let (routing, mut registry) = (RoutingMetrics::default(), Registry::default());
        routing.register(&mut registry);
        Ok(Self { node_id, store, cluster, routing, registry })
    }
}

/// `<name>-<boot suffix>`: a restarted node has a new id.
fn node_id(name: &str, random: Random) -> Result<NodeId> {
    let suffix = Ulid(random.draw()).to_string().to_lowercase();
    format!("{name}-{}", &suffix[suffix.len() - 8..]).parse().context("server.name")
}
