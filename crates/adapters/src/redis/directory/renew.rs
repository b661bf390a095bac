//! Renews leases and extends their indexes.

use std::collections::BTreeMap;
use std::time::Duration;

use heartline_routing::LeaseKey;
use redis::{Pipeline, cmd};

use super::RedisDirectory;
use crate::redis::client::typed;
use crate::redis::failure::RedisFailure;
use crate::redis::keys::member;
use crate::redis::scripts::{INDEX_TTL, SESSION_TTL, ms};

/// Leases in one command: enough to share its cost, few enough to let others in between.
const BATCH: usize = 100;

impl RedisDirectory {
    /// One `ZADD` for many leases, which makes none and shortens none. A count that falls short
    /// means that some are gone, and only then is it asked which. On a Cluster a master that does
    /// not answer costs no lease on the others.
    pub(super) async fn renew_leases(
        &self,
        leases: &[LeaseKey],
        duration: Duration,
    ) -> Result<Vec<LeaseKey>, RedisFailure> {
        let mut by_shard: BTreeMap<u16, Vec<&LeaseKey>> = BTreeMap::new();
        for lease in leases {
            by_shard.entry(self.keys.shard_of(&lease.user_id)).or_default().push(lease);
        }
        // In the order of the sorted set, each lease moves from its front to its end, which are the
        // positions that Redis finds at once.
        for leases in by_shard.values_mut() {
            leases.sort_unstable_by_key(|lease| (lease.user_id.as_str(), lease.connection_id));
        }
        let shards: Vec<u16> = by_shard.keys().copied().collect();
        let (now_ms, mut failure) = self.server_clock.now_ms(&shards).await;
        let batches: Vec<(u16, &[&LeaseKey])> = by_shard
            .iter()
            .filter(|(shard, _)| now_ms.contains_key(shard))
            .flat_map(|(shard, leases)| leases.chunks(BATCH).map(|batch| (*shard, batch)))
            .collect();
        let mut pipeline = Pipeline::with_capacity(batches.len());
        for (shard, batch) in &batches {
            let ends_at = now_ms[shard] + ms(duration);
            let mut command = cmd("ZADD");
            command.arg(self.keys.leases(*shard)).arg("XX").arg("GT").arg("CH");
            for lease in *batch {
                command.arg(ends_at).arg(member(lease));
            }
            pipeline.add_command(command);
        }
        let counts = self.client.pipe_each(&pipeline).await;
        let mut doubtful = Vec::new();
        for (batch, count) in batches.into_iter().zip(counts) {
            match count.and_then(typed::<usize>) {
                Ok(count) if count < batch.1.len() => doubtful.push(batch),
                Ok(_) => {}
                Err(error) => failure = Some(error),
            }
        }
        let lost = self.lost_among(&doubtful, &mut failure).await;
        // Lost leases must be returned although a master failed: they are registered again now, and
        // the leases on that master are renewed next time.
        match failure {
            Some(failure) if lost.is_empty() => Err(failure),
            _ => Ok(lost),
        }
    }

    async fn lost_among(
        &self,
        batches: &[(u16, &[&LeaseKey])],
        failure: &mut Option<RedisFailure>,
    ) -> Vec<LeaseKey> {
        let mut pipeline = Pipeline::with_capacity(batches.len());
        for (shard, batch) in batches {
            let members: Vec<String> = batch.iter().map(|lease| member(lease)).collect();
            pipeline.cmd("ZMSCORE").arg(self.keys.leases(*shard)).arg(members);
        }
        let replies = self.client.pipe_each(&pipeline).await;
        let mut lost = Vec::new();
        for ((_, batch), reply) in batches.iter().zip(replies) {
            match reply.and_then(typed::<Vec<Option<f64>>>) {
                Ok(ends) => {
                    let gone = batch.iter().zip(ends).filter(|(_, end)| end.is_none());
                    lost.extend(gone.map(|(lease, _)| (*lease).clone()));
                }
                Err(error) => *failure = Some(error),
            }
        }
        lost
    }

    /// Extends the life of the index keys, and names the leases of which one is missing.
    pub(super) async fn extend_indexes(
        &self,
        leases: &[LeaseKey],
    ) -> Result<Vec<LeaseKey>, RedisFailure> {
        let mut lost = Vec::new();
        for batch in leases.chunks(BATCH) {
            let keys = if self.config.single_session { 5 } else { 4 };
            let mut pipeline = Pipeline::with_capacity(batch.len() * keys + 4);
            for lease in batch {
                self.extend_one(&mut pipeline, lease);
            }
            self.list(&mut pipeline, batch);
            let replies = self.client.pipe(&pipeline).await?;
            let mut without_route = Vec::new();
            for (lease, replies) in batch.iter().zip(replies.chunks_exact(keys)) {
                let extended: Vec<bool> =
                    replies.iter().map(|reply| typed(reply.clone())).collect::<Result<_, _>>()?;
                match extended[..] {
                    // Only a single session has a key of its own, and not always.
                    [true, true, true, true, ..] => {}
                    [true, true, true, false, ..] => without_route.push(lease),
                    _ => lost.push(lease.clone()),
                }
            }
            lost.extend(self.chat_connections_among(&without_route).await?);
        }
        Ok(lost)
    }

    /// Those that need a route: a connection that is not for chat needs none.
    async fn chat_connections_among(
        &self,
        leases: &[&LeaseKey],
    ) -> Result<Vec<LeaseKey>, RedisFailure> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipeline = Pipeline::with_capacity(leases.len());
        for lease in leases {
            pipeline.cmd("HGET").arg(self.keys.connection(lease.connection_id)).arg("kind");
        }
        let kinds = self.client.pipe(&pipeline).await?.into_iter();
        let kinds = kinds.map(typed::<Option<String>>).collect::<Result<Vec<_>, _>>()?;
        let chat = leases.iter().zip(kinds).filter(|(_, kind)| kind.as_deref() == Some("chat"));
        Ok(chat.map(|(lease, _)| (*lease).clone()).collect())
    }

    fn extend_one(&self, pipeline: &mut Pipeline, lease: &LeaseKey) {
        let (user_id, index_ttl) = (&lease.user_id, INDEX_TTL.as_secs());
        let connection = self.keys.connection(lease.connection_id);
        pipeline.cmd("EXPIRE").arg(connection).arg(index_ttl);
        pipeline.cmd("EXPIRE").arg(self.keys.user_connections(user_id)).arg(index_ttl);
        pipeline.cmd("EXPIRE").arg(self.keys.user_presence(user_id)).arg(index_ttl);
        pipeline.cmd("EXPIRE").arg(self.keys.user_servers(user_id)).arg(index_ttl);
        if self.config.single_session {
            pipeline.cmd("EXPIRE").arg(self.keys.session(user_id)).arg(SESSION_TTL.as_secs());
        }
    }
}
