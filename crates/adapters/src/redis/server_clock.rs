//! The time of Redis, as far as this node knows it.
//!
//! The end of a lease is the server's time plus the lease: no clock of a node ever enters, so a
//! node whose clock is wrong neither loses leases early nor holds them for ever.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::Pipeline;

use super::client::{RedisClient, RedisTime, time_ms};
use super::failure::RedisFailure;
use super::keys::Keys;

/// How old a reading may be: about one tick. Until then the monotonic clock extends it.
const READING_AGE_MAX: Duration = Duration::from_secs(1);

/// Readings of the server's time. A Cluster has a clock per master, so there is one per shard.
#[derive(Debug)]
pub(super) struct ServerClock {
    client: RedisClient,
    keys: Keys,
    readings: Mutex<HashMap<u16, RedisTime>>,
}

impl ServerClock {
    pub(super) fn new(client: RedisClient, keys: Keys) -> Self {
        Self { client, keys, readings: Mutex::default() }
    }

    /// The server's time in milliseconds now, by shard, for those of the shards asked for whose
    /// master answers, and why others are missing.
    pub(super) async fn now_ms(&self, shards: &[u16]) -> (HashMap<u16, u64>, Option<RedisFailure>) {
        let is_cluster = self.client.config().is_cluster();
        let clock_of = |shard: u16| if is_cluster { shard } else { 0 };
        let since = self.client.clock().now();
        let is_recent = |reading: &&RedisTime| {
            since.saturating_duration_since(reading.read_at) <= READING_AGE_MAX
        };
        let mut outdated: Vec<u16> = {
            let readings = self.lock();
            let clocks = shards.iter().map(|shard| clock_of(*shard));
            clocks.filter(|clock| readings.get(clock).filter(is_recent).is_none()).collect()
        };
        outdated.sort_unstable();
        outdated.dedup();
        let failure = self.read(&outdated).await;
        let now = self.client.clock().now();
        let readings = self.lock();
        let recent = |shard: &u16| readings.get(&clock_of(*shard)).filter(is_recent);
        let known = |shard: &u16| recent(shard).map(|reading| (*shard, reading.at(now)));
        (shards.iter().filter_map(known).collect(), failure)
    }

    /// The server's time in milliseconds now, as far as it is known without asking.
    pub(super) fn guess_ms(&self, shard: u16) -> Option<u64> {
        let clock = if self.client.config().is_cluster() { shard } else { 0 };
        let now = self.client.clock().now();
        self.lock().get(&clock).map(|reading| reading.at(now))
    }

    /// Stores a reading that came with another reply of the same server.
    pub(super) fn note(&self, shard: u16, unix_ms: u64) {
        let clock = if self.client.config().is_cluster() { shard } else { 0 };
        let read_at = self.client.clock().now();
        self.lock().insert(clock, RedisTime { unix_ms, read_at });
    }

    /// Reads the clocks of the servers that answer. Returns a failure, if there was one.
    async fn read(&self, clocks: &[u16]) -> Option<RedisFailure> {
        let mut pipeline = Pipeline::with_capacity(clocks.len() * 2);
        for clock in clocks {
            // On a Cluster a command without a key goes where the one before it goes.
            pipeline.cmd("EXISTS").arg(self.keys.leases(*clock)).cmd("TIME");
        }
        let replies = self.client.pipe_each(&pipeline).await;
        let mut failure = None;
        for (clock, reply) in clocks.iter().zip(replies.into_iter().skip(1).step_by(2)) {
            match reply.and_then(time_ms) {
                Ok(unix_ms) => self.note(*clock, unix_ms),
                Err(error) => failure = Some(error),
            }
        }
        failure
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u16, RedisTime>> {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
