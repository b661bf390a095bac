//! The state of the servers of a directory, its nodes, and the sweeps of its shards.

use std::collections::HashMap;
use std::time::Duration;

use heartline_protocol::{NodeId, Timestamp};
use heartline_routing::{LiveNode, NodeRecord};
use redis::{AsyncConnectionConfig, Pipeline, ProtocolVersion, Value, cmd};

use crate::redis::client::{RedisClient, time_ms, typed};
use crate::redis::failure::RedisFailure;
use crate::redis::keys::Keys;
use crate::redis::topology::{connect, masters};

/// A shard that was not swept for this time has no sweeper: its scripts then begin a new epoch.
const SWEPT_WITHIN_MS: u64 = 5000;

/// The state of one server that holds data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vitals {
    /// The server, as `host:port`.
    pub server: String,
    /// The version of the server.
    pub version: String,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Bytes that the server may use: its limit, or the memory of its machine; none if unknown.
    pub bytes_max: Option<u64>,
    /// Keys that the server has evicted since it started.
    pub evicted_keys: u64,
    /// How far the clock of the server is ahead of this machine's, in milliseconds, with the error
    /// of a round trip.
    pub clock_ahead_ms: i64,
}

/// The nodes and the number of shards of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roster {
    /// The number of shards that the first node has stored; none if no node has.
    pub shards: Option<String>,
    /// The nodes whose lease is live.
    pub nodes: Vec<LiveNode>,
}

/// The sweeps of the shards of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sweeps {
    /// Shards in which leases are being made again, or were never made.
    pub rebuilding: Vec<u16>,
    /// Shards that no node has swept lately.
    pub late: Vec<u16>,
}

/// Reads the state of every server that holds data.
///
/// # Errors One of them could not be read.
pub async fn vitals(client: &RedisClient) -> Result<Vec<Vitals>, RedisFailure> {
    let config = client.config();
    let limits = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(config.deadline))
        .set_response_timeout(Some(config.deadline));
    let mut all = Vec::new();
    for master in masters(config).await? {
        let protocol = ProtocolVersion::RESP2;
        let mut connection = connect(config, &master.server, protocol, &limits).await?;
        let text: String = cmd("INFO").query_async(&mut connection).await?;
        let facts: HashMap<&str, &str> =
            text.lines().filter_map(|line| line.trim_end().split_once(':')).collect();
        let number = |name: &str| facts.get(name).and_then(|text| text.parse::<u64>().ok());
        let asked_at = client.clock().wall().unix_ms;
        let time: Value = cmd("TIME").query_async(&mut connection).await?;
        let answered_at = client.clock().wall().unix_ms;
        let between = asked_at.midpoint(answered_at);
        let bytes_max = number("maxmemory").filter(|bytes| *bytes > 0);
        all.push(Vitals {
            server: master.server.addr().to_string(),
            version: facts.get("redis_version").copied().unwrap_or("unknown").to_owned(),
            used_bytes: number("used_memory").unwrap_or_default(),
            bytes_max: bytes_max.or_else(|| number("total_system_memory")),
            evicted_keys: number("evicted_keys").unwrap_or_default(),
            clock_ahead_ms: time_ms(time)?.cast_signed() - between.cast_signed(),
        });
    }
    Ok(all)
}

/// Reads the nodes that announce themselves.
///
/// # Errors Redis could not be read.
pub async fn roster(client: &RedisClient) -> Result<Roster, RedisFailure> {
    // The number of shards is not part of the keys that are read.
    let keys = Keys::new(client.config(), 1);
    let shards: Option<String> = client.query(cmd("GET").arg(keys.routing_shards())).await?;
    let mut pipeline = Pipeline::new();
    pipeline.cmd("ZRANGE").arg(keys.servers()).arg(0).arg(-1).arg("WITHSCORES").cmd("TIME");
    let mut replies = client.pipe(&pipeline).await?;
    let now_ms = time_ms(replies.pop().unwrap_or(Value::Nil))?;
    let servers: Vec<(String, f64)> = typed(replies.pop().unwrap_or(Value::Nil))?;
    let mut nodes = Vec::new();
    for (name, ends_at) in servers {
        let (Ok(node_id), ends_at) = (name.parse::<NodeId>(), ends_at as u64) else { continue };
        if ends_at <= now_ms {
            continue;
        }
        let fields = ["address", "planes", "started_at", "connections"];
        let command = cmd("HMGET").arg(keys.server(&node_id)).arg(&fields).to_owned();
        type Fields = (Option<String>, Option<String>, Option<u64>, Option<usize>);
        let (address, planes, started_at, connections): Fields = client.query(&command).await?;
        let record = NodeRecord {
            node_id,
            address: address.filter(|address| !address.is_empty()),
            planes: planes.unwrap_or_default(),
            started_at: Timestamp { unix_ms: started_at.unwrap_or_default() },
            connections: connections.unwrap_or_default(),
        };
        nodes.push(LiveNode { record, remaining: Duration::from_millis(ends_at - now_ms) });
    }
    nodes.sort_by(|one, other| one.record.node_id.as_str().cmp(other.record.node_id.as_str()));
    Ok(Roster { shards, nodes })
}

/// Reads the sweeps of the shards.
///
/// # Errors Redis could not be read.
pub async fn sweeps(client: &RedisClient, shards: u16) -> Result<Sweeps, RedisFailure> {
    let keys = Keys::new(client.config(), shards);
    let mut found = Sweeps::default();
    for shard in 0..shards {
        let fields = ["rebuild_until", "swept_at"];
        let mut pipeline = Pipeline::new();
        pipeline.cmd("HMGET").arg(keys.epoch(shard)).arg(&fields).cmd("TIME");
        let mut replies = client.pipe(&pipeline).await?;
        let now_ms = time_ms(replies.pop().unwrap_or(Value::Nil))?;
        let epoch: (Option<u64>, Option<u64>) = typed(replies.pop().unwrap_or(Value::Nil))?;
        let (rebuild_until, swept_at) = epoch;
        if rebuild_until.is_none_or(|until| until > now_ms) {
            found.rebuilding.push(shard);
        }
        if swept_at.is_none_or(|at| at + SWEPT_WITHIN_MS < now_ms) {
            found.late.push(shard);
        }
    }
    Ok(found)
}
