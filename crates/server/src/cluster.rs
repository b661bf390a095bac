//! The directory of a node and its link to other nodes; in memory for a single node.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use heartline_adapters::direct::{ClusterSecret, DirectServer, DirectTasks, HttpCarrier};
use heartline_adapters::redis::{
    Finding, PresenceListener, RedisAvailability, RedisCarrier, RedisClient, RedisConfig,
    RedisCounters, RedisDirectory, RedisDirectoryConfig, RedisLinkTasks, Severity, check_settings,
};
use heartline_gateway::SessionPolicy;
use heartline_protocol::NodeId;
use heartline_routing::link::{
    ClusterLink, ClusterParts, LinkMetrics, RETURNS_MAX, Reception, Returned,
};
use heartline_routing::{
    Directory, Envelope, LocalLink, MemoryDirectory, NodeLink, NodeRecord, Planes,
};
use heartline_runtime::{Clock, Random};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::{debug, info, warn};

use crate::config::{self, Config};
use crate::lifecycle::Lifecycle;
use crate::patience::retry_while_down;

/// How long a starting node waits until its own subscriptions are confirmed.
const SUBSCRIBED_DEADLINE: Duration = Duration::from_secs(10);

/// The settings for the connection to the configured Redis.
pub(crate) fn redis_config(url: &str, config: &config::Redis) -> Result<RedisConfig> {
    let redis = RedisConfig::from_url(url, &config.key_prefix)?;
    let Some(path) = &config.tls_ca else { return Ok(redis) };
    let pem = std::fs::read(path).with_context(|| format!("redis.tls_ca = {}", path.display()))?;
    redis.with_tls_root(pem).with_context(|| format!("redis.tls_ca = {}", path.display()))
}

/// The connected directory and link of a node that has not announced itself yet.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// The directory of connections and presence.
    pub(crate) directory: Directory,
    /// The link to other nodes and to this one.
    pub(crate) link: Arc<dyn NodeLink>,
    /// Envelopes for the connections of this node.
    pub(crate) envelopes: mpsc::Receiver<Envelope>,
    /// The announcement of this node.
    pub(crate) record: NodeRecord,
    /// The transports to other nodes; none for a single node.
    pub(crate) others: Option<Others>,
    /// The Redis that nodes share; none for a single node.
    pub(crate) redis: Option<RedisClient>,
}

/// The transports to other nodes, not yet open.
#[derive(Debug)]
pub(crate) struct Others {
    pub(crate) link: Arc<ClusterLink>,
    server: DirectServer,
    returned: mpsc::Receiver<Returned>,
    presence_listener: PresenceListener,
    redis_tasks: RedisLinkTasks,
    direct_tasks: DirectTasks,
    availability: RedisAvailability,
}

impl Cluster {
    /// Connects to the engines that the configuration names.
    pub(crate) async fn connect(
        config: &Config,
        node_id: NodeId,
        clock: Clock,
        counters: RedisCounters,
        random: Random,
        registry: &mut Registry,
    ) -> Result<Self> {
        let record = Self::record(node_id, config.server.planes, clock);
        match (&config.redis.url, config.cluster.listen) {
            (Some(url), Some(listen)) => {
                let redis = redis_config(url, &config.redis).context("redis.url")?;
                let client = RedisClient::new(redis, clock, random, counters);
                let connecting =
                    Self::among_others(config, client, listen, record, random, registry);
                connecting.await.context("redis.url")
            }
            _ => Ok(Self::alone(config, record, clock)),
        }
    }

    /// The first announcement of a starting node.
    fn record(node_id: NodeId, planes: Planes, clock: Clock) -> NodeRecord {
        NodeRecord {
            node_id,
            address: None,
            planes: planes.to_string(),
            started_at: clock.wall(),
            connections: 0,
        }
    }

    /// The directory and link of a node that shares its process with others.
    pub(crate) fn in_process(
        node_id: NodeId,
        planes: Planes,
        directory: Arc<MemoryDirectory>,
        link: Arc<dyn NodeLink>,
        envelopes: mpsc::Receiver<Envelope>,
        clock: Clock,
    ) -> Self {
        let record = Self::record(node_id, planes, clock);
        let directory = Directory::new(directory);
        Self { directory, link, envelopes, record, others: None, redis: None }
    }

    fn alone(config: &Config, record: NodeRecord, clock: Clock) -> Self {
        let (link, envelopes) = LocalLink::new(record.node_id.clone());
        let directory = MemoryDirectory::new(config.routing.shards, clock);
        let (directory, link) = (Directory::new(Arc::new(directory)), Arc::new(link));
        Self { directory, link, envelopes, record, others: None, redis: None }
    }

    async fn among_others(
        config: &Config,
        client: RedisClient,
        listen: SocketAddr,
        record: NodeRecord,
        random: Random,
        registry: &mut Registry,
    ) -> Result<Self> {
        let (node_id, clock) = (record.node_id.clone(), client.clock());
        client.counters().register(registry);
        let availability = RedisAvailability::new(client.clone(), registry);
        retry_while_down(clock, || check_redis(client.clone())).await?;
        let directory = RedisDirectoryConfig {
            shards: config.routing.shards,
            lease: config.routing.lease,
            single_session: config.gateway.session_policy == SessionPolicy::SingleSession,
            ..RedisDirectoryConfig::new(node_id.clone())
        };
        let directory = retry_while_down(clock, || {
            RedisDirectory::connect(client.clone(), directory.clone(), clock)
        });
        let (directory, presence_listener) = directory.await?;
        let directory = Directory::new(Arc::new(directory));

        let metrics = LinkMetrics::new(RedisCarrier::TRANSPORT);
        metrics.register(registry);
        let (reception, envelopes) = Reception::new(node_id.clone(), clock, metrics.clone());
        let (returns, returned) = mpsc::channel(RETURNS_MAX);
        let (broker, redis_tasks) =
            RedisCarrier::new(client.clone(), node_id.clone(), Arc::clone(&reception), returns);
        let secret = ClusterSecret::new(config.cluster.secret.expose());
        let secret = secret.ok_or_else(|| anyhow!("cluster.secret must be printable ASCII"))?;
        let (direct, direct_tasks) =
            HttpCarrier::new(node_id.clone(), secret.clone(), clock, random, metrics);
        let advertised = config.cluster.advertise.clone();
        let address = advertised.unwrap_or_else(|| listen.to_string());
        let link = ClusterLink::new(ClusterParts {
            address: Some(address.clone()),
            peers: config.cluster.peers.clone(),
            reception: Arc::clone(&reception),
            broker,
            direct,
            nodes: Arc::clone(&directory.nodes),
            clock,
        });
        let server = DirectServer::new(node_id, secret, reception);
        let others = Others {
            link: Arc::clone(&link),
            server,
            returned,
            presence_listener,
            redis_tasks,
            direct_tasks,
            availability,
        };
        let record = NodeRecord { address: Some(address), ..record };
        let (others, redis) = (Some(others), Some(client));
        Ok(Self { directory, link, envelopes, record, others, redis })
    }
}

impl Others {
    /// Opens the transports: accepts other nodes, and returns once this node receives what is sent
    /// to it. Only then may the node announce itself and register connections.
    pub(crate) async fn open(self, lifecycle: &Lifecycle, listener: TcpListener) -> Result<()> {
        let Self { link, server, returned, .. } = self;
        let address = listener.local_addr()?;
        // They run until the last connection is closed, so that envelopes are delivered during the
        // drain.
        lifecycle.spawn_support("direct listener", server.serve(listener, std::future::pending()));
        lifecycle.spawn_support("direct links", self.direct_tasks.run());
        lifecycle.spawn_support("Redis link", self.redis_tasks.run());
        lifecycle.spawn_support("presence listener", self.presence_listener.run());
        lifecycle.spawn_support("Redis availability", self.availability.run());
        lifecycle.spawn_support("link", Arc::clone(&link).run(returned));
        timeout(SUBSCRIBED_DEADLINE, link.subscribed()).await.map_err(|_| {
            anyhow!("redis.url: this node does not receive its own messages; check that the ACL allows PUBLISH")
        })?;
        info!(%address, "direct listener open");
        Ok(())
    }
}

/// Rejects a Redis whose settings could lose entries, and warns about lesser faults.
async fn check_redis(client: RedisClient) -> Result<()> {
    for finding in check_settings(&client).await? {
        let Finding { severity, server, setting, value, advice } = finding;
        let value = value.as_deref().unwrap_or("not readable");
        match severity {
            Severity::Refuse => bail!("{setting} of the Redis {server} is {value}: {advice}"),
            Severity::Warn => {
                warn!(%server, setting, value, advice, "Redis setting should be changed")
            }
            Severity::Unchecked => debug!(%server, setting, advice, "Redis setting not readable"),
        }
    }
    Ok(())
}
