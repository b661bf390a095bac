//! The live nodes, and the routes of users.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use heartline_protocol::{NodeId, Timestamp, UserId};
use heartline_routing::{LiveNode, NodeRecord, Route};
use redis::{Pipeline, Value};
use tokio::time::Instant;

use super::RedisDirectory;
use crate::redis::client::{RedisTime, time_ms, typed};
use crate::redis::failure::RedisFailure;
use crate::redis::scripts::ms;

/// How old the copy of the live nodes may be.
const COPY_AGE_MAX: Duration = Duration::from_secs(1);

/// A node that has been gone for so long is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// A copy of the live nodes and the ends of their leases.
#[derive(Debug, Default)]
pub(super) struct LiveNodes {
    copy: Mutex<Option<Copy>>,
}

#[derive(Debug)]
struct Copy {
    time: RedisTime,
    ends_at: HashMap<NodeId, u64>,
}

impl RedisDirectory {
    pub(super) async fn announce_node(
        &self,
        node: &NodeRecord,
        duration: Duration,
    ) -> Result<(), RedisFailure> {
        let servers = self.keys.servers();
        let time = self.client.time(&servers).await?;
        let mut pipeline = Pipeline::new();
        let ends_at = time.unix_ms + ms(duration);
        pipeline.cmd("ZADD").arg(&servers).arg(ends_at).arg(node.node_id.as_str());
        let forgotten = time.unix_ms.saturating_sub(ms(FORGOTTEN_AFTER));
        pipeline.cmd("ZREMRANGEBYSCORE").arg(&servers).arg("-inf").arg(forgotten);
        pipeline.cmd("ZRANGE").arg(&servers).arg(0).arg(-1).arg("WITHSCORES");
        let server = self.keys.server(&node.node_id);
        pipeline.cmd("HSET").arg(&server).arg("planes").arg(&node.planes);
        pipeline.arg("started_at").arg(node.started_at.unix_ms);
        pipeline.arg("connections").arg(node.connections);
        pipeline.arg("address").arg(node.address.as_deref().unwrap_or_default());
        pipeline.cmd("PEXPIRE").arg(server).arg(ms(duration));
        // A wiped Redis forgets how users are divided, and a node configured otherwise could start.
        let (key, shards) = (self.keys.routing_shards(), self.keys.shards());
        pipeline.cmd("SET").arg(key).arg(shards).arg("NX");
        let replies = self.client.pipe(&pipeline).await?;
        self.nodes.replace(time, replies.get(2).cloned().unwrap_or(Value::Nil))
    }

    pub(super) async fn withdraw_node(&self, node_id: &NodeId) -> Result<(), RedisFailure> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("ZREM").arg(self.keys.servers()).arg(node_id.as_str());
        pipeline.cmd("DEL").arg(self.keys.server(node_id));
        self.client.pipe(&pipeline).await?;
        self.nodes.forget(node_id);
        Ok(())
    }

    pub(super) async fn live_nodes(&self) -> Result<Vec<LiveNode>, RedisFailure> {
        self.copy_nodes().await?;
        let live = self.nodes.live(self.clock.now());
        let mut pipeline = Pipeline::with_capacity(live.len());
        for (node_id, _) in &live {
            let fields = ["address", "planes", "started_at", "connections"];
            pipeline.cmd("HMGET").arg(self.keys.server(node_id)).arg(&fields);
        }
        let mut nodes = Vec::with_capacity(live.len());
        for ((node_id, remaining), reply) in
            live.into_iter().zip(self.client.pipe(&pipeline).await?)
        {
            type Fields = (Option<String>, Option<String>, Option<u64>, Option<usize>);
            let (address, planes, started_at, connections): Fields = typed(reply)?;
            // One that withdraws at this moment has no record any more.
            let Some(planes) = planes else { continue };
            let address = address.filter(|address| !address.is_empty());
            let started_at = Timestamp { unix_ms: started_at.unwrap_or_default() };
            let connections = connections.unwrap_or_default();
            let record = NodeRecord { node_id, address, planes, started_at, connections };
            nodes.push(LiveNode { record, remaining });
        }
        Ok(nodes)
    }

    /// One plain read per user, all together. A node counts while it announces itself.
    pub(super) async fn routes_to(
        &self,
        user_ids: &[UserId],
        own: &NodeId,
    ) -> Result<Vec<Route>, RedisFailure> {
        let mut pipeline = Pipeline::with_capacity(user_ids.len());
        for user_id in user_ids {
            pipeline.cmd("HGETALL").arg(self.keys.user_servers(user_id));
        }
        let mut routes: HashMap<NodeId, Route> = HashMap::new();
        for (user_id, reply) in user_ids.iter().zip(self.client.pipe(&pipeline).await?) {
            let servers: Vec<(String, usize)> = typed(reply)?;
            for (node_id, connections) in servers {
                let Ok(node_id) = node_id.parse::<NodeId>() else { continue };
                if node_id == *own {
                    continue;
                }
                let route = routes.entry(node_id.clone()).or_insert_with(|| Route {
                    node_id,
                    user_ids: Vec::new(),
                    connections: 0,
                });
                route.connections += connections;
                if route.user_ids.last() != Some(user_id) {
                    route.user_ids.push(user_id.clone());
                }
            }
        }
        if routes.is_empty() {
            return Ok(Vec::new());
        }
        let dead = self.dead_among(routes.keys()).await?;
        Ok(routes.into_values().filter(|route| !dead.contains(&route.node_id)).collect())
    }

    /// The nodes that do not announce themselves any more. One that the copy does not know as live
    /// is looked up, since it may have started within the last second.
    async fn dead_among(
        &self,
        node_ids: impl Iterator<Item = &NodeId>,
    ) -> Result<Vec<NodeId>, RedisFailure> {
        if !self.nodes.is_recent(self.clock.now()) {
            self.copy_nodes().await?;
        }
        let live = self.nodes.live(self.clock.now());
        let is_live = |node_id: &&NodeId| live.iter().any(|(live, _)| live == *node_id);
        let doubtful: Vec<NodeId> = node_ids.filter(|id| !is_live(id)).cloned().collect();
        if doubtful.is_empty() {
            return Ok(doubtful);
        }
        self.copy_nodes().await?;
        let live = self.nodes.live(self.clock.now());
        let is_dead = |node_id: &NodeId| !live.iter().any(|(live, _)| live == node_id);
        Ok(doubtful.into_iter().filter(is_dead).collect())
    }

    async fn copy_nodes(&self) -> Result<(), RedisFailure> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("ZRANGE").arg(self.keys.servers()).arg(0).arg(-1).arg("WITHSCORES");
        pipeline.cmd("TIME");
        let mut replies = self.client.pipe(&pipeline).await?;
        let unix_ms = time_ms(replies.pop().unwrap_or(Value::Nil))?;
        let time = RedisTime { unix_ms, read_at: self.clock.now() };
        self.nodes.replace(time, replies.pop().unwrap_or(Value::Nil))
    }
}

// === impl LiveNodes ===

impl LiveNodes {
    fn replace(&self, time: RedisTime, servers: Value) -> Result<(), RedisFailure> {
        let servers: Vec<(String, f64)> = typed(servers)?;
        let node =
            |(node_id, ends_at): (String, f64)| Some((node_id.parse().ok()?, ends_at as u64));
        let ends_at = servers.into_iter().filter_map(node).collect();
        *self.lock() = Some(Copy { time, ends_at });
        Ok(())
    }

    fn forget(&self, node_id: &NodeId) {
        if let Some(copy) = &mut *self.lock() {
            copy.ends_at.remove(node_id);
        }
    }

    fn is_recent(&self, now: Instant) -> bool {
        let copy = self.lock();
        copy.as_ref().is_some_and(|copy| now - copy.time.read_at <= COPY_AGE_MAX)
    }

    /// The nodes whose lease is ahead of the server's time, and by how much.
    fn live(&self, now: Instant) -> Vec<(NodeId, Duration)> {
        let copy = self.lock();
        let Some(copy) = &*copy else { return Vec::new() };
        let now_ms = copy.time.at(now);
        let live = copy.ends_at.iter().filter(|(_, ends_at)| **ends_at > now_ms);
        live.map(|(id, ends_at)| (id.clone(), Duration::from_millis(ends_at - now_ms))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Copy>> {
        self.copy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
