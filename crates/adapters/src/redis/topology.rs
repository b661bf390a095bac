//! The masters of a Cluster and their slots.

use std::collections::HashSet;

use redis::aio::MultiplexedConnection;
use redis::cluster_routing::Slot;
use redis::{AsyncConnectionConfig, ConnectionInfo, ProtocolVersion, Value, cmd};

use super::client::typed;
use super::config::RedisConfig;
use super::failure::RedisFailure;

/// A server that holds data, and its slots if it is part of a Cluster.
#[derive(Debug, Clone)]
pub(super) struct Master {
    pub(super) server: ConnectionInfo,
    slots: Option<HashSet<Slot>>,
}

impl Master {
    /// Whether it holds this key or shard channel.
    pub(super) fn holds(&self, key: &str) -> bool {
        self.slots.as_ref().is_none_or(|slots| slots.contains(&Slot::for_key(key)))
    }
}

/// Connects to one server, whatever else there is, with the given protocol and settings.
pub(super) async fn connect(
    config: &RedisConfig,
    server: &ConnectionInfo,
    protocol: ProtocolVersion,
    settings: &AsyncConnectionConfig,
) -> Result<MultiplexedConnection, RedisFailure> {
    let client = config.client(server, protocol)?;
    Ok(client.get_multiplexed_async_connection_with_config(settings).await?)
}

/// The servers that hold data: the one that is configured, or the masters that the first seed
/// that answers names. The caller limits the time.
pub(super) async fn masters(config: &RedisConfig) -> Result<Vec<Master>, RedisFailure> {
    if !config.is_cluster() {
        return Ok(vec![Master { server: config.seeds()[0].clone(), slots: None }]);
    }
    let mut failure = RedisFailure::Connection("no seed of the Cluster answers".to_owned());
    for seed in config.seeds() {
        match masters_from(config, seed).await {
            Ok(masters) => return Ok(masters),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

async fn masters_from(
    config: &RedisConfig,
    seed: &ConnectionInfo,
) -> Result<Vec<Master>, RedisFailure> {
    let settings = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(config.deadline))
        .set_response_timeout(Some(config.deadline));
    let mut connection = connect(config, seed, ProtocolVersion::RESP2, &settings).await?;
    let reply: Vec<Vec<Value>> = cmd("CLUSTER").arg("SLOTS").query_async(&mut connection).await?;
    let mut masters: Vec<Master> = Vec::new();
    for range in reply {
        let [first, last, master, ..] = &range[..] else {
            return Err(RedisFailure::unexpected("CLUSTER SLOTS"));
        };
        let range = typed::<u16>(first.clone())?..=typed::<u16>(last.clone())?;
        let slots = range.filter_map(Slot::new);
        let address: Vec<Value> = typed(master.clone())?;
        let [host, port, ..] = &address[..] else {
            return Err(RedisFailure::unexpected("CLUSTER SLOTS"));
        };
        // A server that does not know its own address is where it was asked.
        let host: Option<String> = typed(host.clone())?;
        let server = config.server_at(&host.unwrap_or_default(), typed(port.clone())?);
        let known = masters.iter_mut().find(|known| known.server.addr() == server.addr());
        match known {
            Some(known) => known.slots.get_or_insert_default().extend(slots),
            None => masters.push(Master { server, slots: Some(slots.collect()) }),
        }
    }
    Ok(masters)
}
