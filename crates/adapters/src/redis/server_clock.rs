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

/// How old a reading may be: about one tick. Until then the monotonic clock carries it on.
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

    /// The server's time in milliseconds now, by shard, for the shards asked for.
    pub(super) async fn now_ms(&self, shards: &[u16]) -> Result<HashMap<u16, u64>, RedisFailure> {
        let is_cluster = self.client.config().is_cluster();
        let clock_of = |shard: u16| if is_cluster { shard } else { 0 };
        let now = self.client.clock().now();
        let mut outdated: Vec<u16> = {
            let readings = self.lock();
            let is_recent = |reading: &RedisTime| now - reading.read_at <= READING_AGE_MAX;
            let clocks = shards.iter().map(|shard| clock_of(*shard));
            clocks.filter(|clock| !readings.get(clock).is_some_and(is_recent)).collect()
        };
        outdated.sort_unstable();
        outdated.dedup();
        self.read(&outdated).await?;
        let now = self.client.clock().now();
        let readings = self.lock();
        let known = |shard: &u16| readings.get(&clock_of(*shard)).map(|it| (*shard, it.at(now)));
        Ok(shards.iter().filter_map(known).collect())
    }

    /// The server's time in milliseconds now, as far as it is known without asking.
    pub(super) fn guess_ms(&self, shard: u16) -> Option<u64> {
        let clock = if self.client.config().is_cluster() { shard } else { 0 };
        let now = self.client.clock().now();
        self.lock().get(&clock).map(|reading| reading.at(now))
    }

    /// Takes over a reading that came with another answer of the same server.
    pub(super) fn note(&self, shard: u16, unix_ms: u64) {
        let clock = if self.client.config().is_cluster() { shard } else { 0 };
        let read_at = self.client.clock().now();
        self.lock().insert(clock, RedisTime { unix_ms, read_at });
    }

    async fn read(&self, clocks: &[u16]) -> Result<(), RedisFailure> {
        let mut pipeline = Pipeline::with_capacity(clocks.len() * 2);
        for clock in clocks {
            // On a Cluster a command without a key goes where the one before it goes.
            pipeline.cmd("EXISTS").arg(self.keys.leases(*clock)).cmd("TIME");
        }
        let replies = self.client.pipe(&pipeline).await?;
        for (clock, reply) in clocks.iter().zip(replies.into_iter().skip(1).step_by(2)) {
            self.note(*clock, time_ms(reply)?);
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u16, RedisTime>> {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
