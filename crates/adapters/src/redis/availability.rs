//! Probes every Redis server that holds data: whether it accepts writes, and its `INFO`.

use std::time::Duration;

use futures_util::future::join_all;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, cmd};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::{info, warn};

use super::client::RedisClient;
use super::config::RedisConfig;
use super::failure::RedisFailure;
use super::server_info::{ServerInfo, SharedServerInfo};
use super::topology::{Master, connect, masters};

/// How often Redis is probed, and how long a probe may take.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// How long the key of a probe is kept.
const PROBE_KEPT: Duration = Duration::from_secs(60);

/// After so many probes the masters are asked for again: a Cluster may have grown.
const PROBES_PER_TOPOLOGY: u32 = 12;

/// Names that are tried to find one that a master holds. One with so few slots that it holds none
/// of them is not written to.
const NAMES_TRIED: u32 = 1000;

/// Probes Redis over connections of its own: a probe neither waits behind the node's calls nor
/// opens their breaker.
#[derive(Debug)]
pub struct RedisAvailability {
    client: RedisClient,
    is_available: bool,
    gauge: Gauge,
    info: SharedServerInfo,
    servers: Vec<Server>,
    probes_left: u32,
}

/// A server that holds data.
#[derive(Debug)]
struct Server {
    connection: MultiplexedConnection,
    probe_key: Option<String>,
}

impl RedisAvailability {
    /// Probes the Redis of a client, which counts as available until the first probe.
    pub fn new(client: RedisClient, registry: &mut Registry) -> Self {
        let gauge = Gauge::default();
        gauge.set(1);
        let info = SharedServerInfo::default();
        let redis = registry.sub_registry_with_prefix("redis");
        redis.register("available", "Whether Redis answers its probe", gauge.clone());
        redis.register_collector(Box::new(info.clone()));
        let (servers, probes_left) = (Vec::new(), PROBES_PER_TOPOLOGY);
        Self { client, is_available: true, gauge, info, servers, probes_left }
    }

    /// Probes for ever.
    pub async fn run(mut self) {
        let mut ticks = interval(PROBE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.look().await;
        }
    }

    /// Probes once, and updates the metrics.
    async fn look(&mut self) {
        let asked = timeout(PROBE_INTERVAL, self.ask()).await;
        let asked = asked.unwrap_or(Err(RedisFailure::Timeout));
        self.probes_left -= 1;
        if asked.is_err() || self.probes_left == 0 {
            self.servers.clear();
            self.probes_left = PROBES_PER_TOPOLOGY;
        }
        self.gauge.set(i64::from(asked.is_ok()));
        match &asked {
            Err(failure) if self.is_available => warn!(%failure, "Redis rejects writes"),
            Ok(_) if !self.is_available => info!("Redis takes writes again"),
            Ok(_) | Err(_) => {}
        }
        self.is_available = asked.is_ok();
        // Without this, old values would look current.
        self.info.show(asked.ok().flatten());
    }

    /// The sums over all servers; none if one of them does not allow `INFO`.
    async fn ask(&mut self) -> Result<Option<ServerInfo>, RedisFailure> {
        if self.servers.is_empty() {
            let config = self.client.config();
            let masters = masters(config).await?;
            let opening = masters.iter().map(|master| Server::open(config, master));
            let opened = join_all(opening).await;
            self.servers = opened.into_iter().collect::<Result<_, _>>()?;
        }
        let answers = join_all(self.servers.iter_mut().map(Server::ask)).await;
        let mut total = Some(ServerInfo::default());
        for answer in answers {
            total = total.zip(answer?).map(|(total, info)| total.with(info));
        }
        Ok(total)
    }
}

// === impl Server ===

impl Server {
    async fn open(config: &RedisConfig, master: &Master) -> Result<Self, RedisFailure> {
        let limits = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(config.deadline))
            .set_response_timeout(Some(config.deadline));
        let protocol = ProtocolVersion::RESP2;
        let connection = connect(config, &master.server, protocol, &limits).await?;
        let prefix = config.key_prefix();
        let mut names = (0..NAMES_TRIED).map(|number| format!("{prefix}probe:{number}"));
        let probe_key = names.find(|name| master.holds(name));
        Ok(Self { connection, probe_key })
    }

    /// Writes, because a server that is full or a replica still reads, and asks how it is.
    async fn ask(&mut self) -> Result<Option<ServerInfo>, RedisFailure> {
        if let Some(probe_key) = &self.probe_key {
            let mut write = cmd("SET");
            write.arg(probe_key).arg(1).arg("PX").arg(PROBE_KEPT.as_millis() as u64);
            permitted::<()>(&mut self.connection, &write).await?;
        }
        let text = permitted::<String>(&mut self.connection, &cmd("INFO")).await?;
        Ok(text.map(|text| ServerInfo::read(&text)))
    }
}

/// The answer to a command, or none if the server works and does not allow it.
async fn permitted<T: redis::FromRedisValue>(
    connection: &mut MultiplexedConnection,
    command: &redis::Cmd,
) -> Result<Option<T>, RedisFailure> {
    match command.query_async(connection).await.map_err(RedisFailure::from) {
        Ok(value) => Ok(Some(value)),
        Err(RedisFailure::Rejected(_)) => Ok(None),
        Err(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests;
