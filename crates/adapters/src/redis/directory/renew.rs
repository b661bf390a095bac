//! Keeping leases, and what is stored beside them, alive.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use heartline_routing::LeaseKey;
use redis::{Pipeline, Value, cmd};

use super::RedisDirectory;
use crate::redis::client::typed;
use crate::redis::failure::RedisFailure;
use crate::redis::keys::member;
use crate::redis::scripts::{INDEX_TTL, SESSION_TTL, ms};

/// Leases in one command: enough to share its cost, few enough to let others in between.
const BATCH: usize = 100;

impl RedisDirectory {
    /// One `ZADD` for many leases, which makes none and shortens none. A count that falls short
    /// means that some are gone, and only then is it asked which.
    pub(super) async fn renew_leases(
        &self,
        leases: &[LeaseKey],
        duration: Duration,
    ) -> Result<Vec<LeaseKey>, RedisFailure> {
        let mut by_shard: BTreeMap<u16, Vec<&LeaseKey>> = BTreeMap::new();
        for lease in leases {
            by_shard.entry(self.keys.shard_of(&lease.user_id)).or_default().push(lease);
        }
        let shards: Vec<u16> = by_shard.keys().copied().collect();
        let now_ms: HashMap<u16, u64> = self.server_clock.now_ms(&shards).await?;
        let batches: Vec<(u16, &[&LeaseKey])> = by_shard
            .iter()
            .flat_map(|(shard, leases)| leases.chunks(BATCH).map(|batch| (*shard, batch)))
            .collect();
        let mut pipeline = Pipeline::with_capacity(batches.len());
        for (shard, batch) in &batches {
            let known = now_ms.get(shard).ok_or(RedisFailure::unexpected("no time"))?;
            let ends_at = known + ms(duration);
            let mut command = cmd("ZADD");
            command.arg(self.keys.leases(*shard)).arg("XX").arg("GT").arg("CH");
            for lease in *batch {
                command.arg(ends_at).arg(member(lease));
            }
            pipeline.add_command(command);
        }
        let counts = self.client.pipe(&pipeline).await?;
        let mut doubtful = Vec::new();
        for (batch, count) in batches.into_iter().zip(counts) {
            if typed::<usize>(count)? < batch.1.len() {
                doubtful.push(batch);
            }
        }
        self.lost_among(&doubtful).await
    }

    async fn lost_among(
        &self,
        batches: &[(u16, &[&LeaseKey])],
    ) -> Result<Vec<LeaseKey>, RedisFailure> {
        let mut pipeline = Pipeline::with_capacity(batches.len());
        for (shard, batch) in batches {
            let members: Vec<String> = batch.iter().map(|lease| member(lease)).collect();
            pipeline.cmd("ZMSCORE").arg(self.keys.leases(*shard)).arg(members);
        }
        let replies = self.client.pipe(&pipeline).await?;
        let mut lost = Vec::new();
        for ((_, batch), reply) in batches.iter().zip(replies) {
            let ends: Vec<Option<f64>> = typed(reply)?;
            let gone = batch.iter().zip(ends).filter(|(_, end)| end.is_none());
            lost.extend(gone.map(|(lease, _)| (*lease).clone()));
        }
        Ok(lost)
    }

    /// Extends the life of the index keys, and names the leases of which one is missing.
    pub(super) async fn extend_indexes(
        &self,
        leases: &[LeaseKey],
    ) -> Result<Vec<LeaseKey>, RedisFailure> {
        let mut lost = Vec::new();
        for batch in leases.chunks(BATCH) {
            let mut pipeline = Pipeline::with_capacity(batch.len() * 6 + 4);
            for lease in batch {
                self.extend_one(&mut pipeline, lease);
            }
            self.list(&mut pipeline, batch);
            let replies = self.client.pipe(&pipeline).await?;
            for (lease, replies) in batch.iter().zip(replies.chunks_exact(6)) {
                if is_incomplete(replies)? {
                    lost.push(lease.clone());
                }
            }
        }
        Ok(lost)
    }

    fn extend_one(&self, pipeline: &mut Pipeline, lease: &LeaseKey) {
        let (user_id, index_ttl) = (&lease.user_id, INDEX_TTL.as_secs());
        let connection = self.keys.connection(lease.connection_id);
        pipeline.cmd("HGET").arg(&connection).arg("kind");
        pipeline.cmd("EXPIRE").arg(connection).arg(index_ttl);
        pipeline.cmd("EXPIRE").arg(self.keys.user_connections(user_id)).arg(index_ttl);
        pipeline.cmd("EXPIRE").arg(self.keys.user_presence(user_id)).arg(index_ttl);
        pipeline.cmd("EXPIRE").arg(self.keys.user_servers(user_id)).arg(index_ttl);
        pipeline.cmd("EXPIRE").arg(self.keys.session(user_id)).arg(SESSION_TTL.as_secs());
    }
}

/// Whether one of the keys that a connection needs is gone. One that is no chat connection needs
/// no route, and only a single session has its own key.
fn is_incomplete(replies: &[Value]) -> Result<bool, RedisFailure> {
    let [kind, connection, user_connections, user_presence, user_servers, _session] = replies
    else {
        return Err(RedisFailure::unexpected("an extension"));
    };
    let kind: Option<String> = typed(kind.clone())?;
    let is_gone = |reply: &Value| typed::<u8>(reply.clone()).map(|extended| extended == 0);
    let is_route_needed = kind.as_deref() == Some("chat");
    Ok(is_gone(connection)?
        || is_gone(user_connections)?
        || is_gone(user_presence)?
        || (is_route_needed && is_gone(user_servers)?))
}
