//! The layouts that Heartline's leases are compared with, each renewed as fast as Redis replies.

use anyhow::Result;
use heartline_runtime::{Clock, Random};
use rand::seq::SliceRandom;

use super::redis_connection::{Commands, RedisConnection};

/// Connections per pipeline: enough that round trips do not matter.
const PIPELINED: usize = 1000;
/// Connections per pipeline for `ZADD`, which renews many with one command.
const BATCHED_PIPELINED: usize = 10_000;
/// Members of one `ZADD`.
const MEMBERS_PER_ZADD: usize = 100;
/// Number of sorted sets over which the members are spread.
const SHARDS: usize = 100;
/// The expiry of a key. Longer than the lease of 15 seconds, at the same cost for Redis, so that no
/// key expires while the other layouts are measured.
const TTL_SECONDS: &str = "600";

/// A layout for the liveness of connections in Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Baseline {
    /// One transaction of four `EXPIRE` and an `HSET` for each heartbeat.
    Transaction,
    /// One `SETEX` for each heartbeat.
    Setex,
    /// One `ZADD` for many heartbeats, without detection of lost leases.
    Zadd,
}

impl Baseline {
    /// All layouts, in the order of their windows.
    pub(super) const ALL: [Self; 3] = [Self::Transaction, Self::Setex, Self::Zadd];

    /// The name in reports.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Transaction => "MULTI of 4 EXPIRE and HSET",
            Self::Setex => "one SETEX",
            Self::Zadd => "bare batched ZADD",
        }
    }
}

/// The connections of all three layouts.
#[derive(Debug)]
pub(super) struct Baselines {
    prefix: String,
    connections: Vec<Keys>,
    /// The order in which each layout renews the connections, indexed like [`Baseline::ALL`].
    orders: [Vec<usize>; 3],
    /// The next position of each layout in its order.
    next: [usize; 3],
}

/// The keys of one connection.
#[derive(Debug)]
struct Keys {
    connection: String,
    user_connections: String,
    user_servers: String,
    flat: String,
    leases: String,
    member: String,
}

impl Baselines {
    /// The keys of this many connections, each of another user.
    pub(super) fn new(prefix: &str, connections: usize) -> Self {
        let keys = |number: usize| {
            let (user, connection) = (format!("user-{number:021}"), format!("conn-{number:021}"));
            Keys {
                connection: format!("{prefix}connection:{connection}"),
                user_connections: format!("{prefix}user_connections:{user}"),
                user_servers: format!("{prefix}user_servers:{user}"),
                flat: format!("{prefix}flat:{connection}"),
                leases: format!("{prefix}leases:{}", number % SHARDS),
                member: format!("{user}/node-0123456789/{connection}"),
            }
        };
        // Heartbeats arrive in random order, while a node renews whole shards, each in the order of
        // its sorted set.
        let random_order = || {
            let mut order: Vec<usize> = (0..connections).collect();
            order.shuffle(&mut Random::system());
            order
        };
        let mut by_shard: Vec<usize> = (0..connections).collect();
        by_shard.sort_by_key(|number| number % SHARDS);
        let orders = [random_order(), random_order(), by_shard];
        let connections = (0..connections).map(keys).collect();
        Self { prefix: prefix.to_owned(), connections, orders, next: [0; 3] }
    }

    /// Creates the keys of all layouts.
    pub(super) async fn prepare(&mut self, redis: &mut RedisConnection) -> Result<()> {
        let server = self.server_key();
        for batch in self.connections.chunks(PIPELINED) {
            let mut commands = Commands::default();
            for keys in batch {
                let (id, now) = (&keys.member, "2026-01-01T00:00:00.000Z");
                let fields = ["user_id", "user", "device_id", "device", "server_id", "node"];
                let times = ["connected_at", now, "last_heartbeat", now];
                commands.add(&[&["HSET", &keys.connection], &fields[..], &times[..]].concat());
                commands.add(&["SADD", &keys.user_connections, id]);
                commands.add(&["SADD", &keys.user_servers, "node"]);
                commands.add(&["SADD", &server, id]);
                commands.add(&["ZADD", &keys.leases, "1", id]);
            }
            redis.send(&commands).await?;
        }
        for baseline in Baseline::ALL {
            let mut renewed = 0;
            while renewed < self.connections.len() as u64 {
                renewed += self.renew(baseline, redis).await?;
            }
        }
        Ok(())
    }

    /// Renews the connections of the next pipeline; returns their number.
    pub(super) async fn renew(
        &mut self,
        baseline: Baseline,
        redis: &mut RedisConnection,
    ) -> Result<u64> {
        let mut commands = Commands::default();
        let (order, from) = (&self.orders[baseline as usize], self.next[baseline as usize]);
        let pipelined = if baseline == Baseline::Zadd { BATCHED_PIPELINED } else { PIPELINED };
        let until = (from + pipelined).min(order.len());
        let batch = || order[from..until].iter().map(|number| &self.connections[*number]);
        let now = Clock::system().wall().unix_ms.to_string();
        match baseline {
            Baseline::Transaction => {
                let server = self.server_key();
                for keys in batch() {
                    let connection = &keys.connection;
                    commands.add(&["MULTI"]);
                    let others = [&keys.user_connections, &keys.user_servers, &server];
                    for key in [connection].into_iter().chain(others) {
                        commands.add(&["EXPIRE", key, TTL_SECONDS]);
                    }
                    commands.add(&["HSET", connection, "last_heartbeat", &now]);
                    commands.add(&["EXEC"]);
                }
            }
            Baseline::Setex => {
                for keys in batch() {
                    commands.add(&["SETEX", &keys.flat, TTL_SECONDS, &now]);
                }
            }
            Baseline::Zadd => {
                let batch: Vec<&Keys> = batch().collect();
                for keys in batch.chunk_by(|one, other| one.leases == other.leases) {
                    for keys in keys.chunks(MEMBERS_PER_ZADD) {
                        add_zadd(&mut commands, keys, &now);
                    }
                }
            }
        }
        redis.send(&commands).await?;
        self.next[baseline as usize] = if until == order.len() { 0 } else { until };
        Ok((until - from) as u64)
    }

    /// Removes the keys of all layouts.
    pub(super) async fn remove(&self, redis: &mut RedisConnection) -> Result<()> {
        for batch in self.connections.chunks(PIPELINED) {
            let mut commands = Commands::default();
            for keys in batch {
                let Keys { connection, user_connections, user_servers, flat, leases, .. } = keys;
                commands.add(&["DEL", connection, user_connections, user_servers, flat, leases]);
            }
            redis.send(&commands).await?;
        }
        let mut commands = Commands::default();
        commands.add(&["DEL", &self.server_key()]);
        redis.send(&commands).await
    }

    fn server_key(&self) -> String {
        format!("{}server_connections:node", self.prefix)
    }
}

fn add_zadd(commands: &mut Commands, keys: &[&Keys], end: &str) {
    commands.begin(5 + 2 * keys.len());
    for argument in ["ZADD", &keys[0].leases, "XX", "GT", "CH"] {
        commands.argument(argument);
    }
    for connection in keys {
        commands.argument(end);
        commands.argument(&connection.member);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn connections_have_separate_keys_and_share_the_sorted_sets() {
        let baselines = Baselines::new("p:", 1000);
        let distinct = |key: fn(&Keys) -> &String| {
            baselines.connections.iter().map(key).collect::<HashSet<_>>().len()
        };
        assert_eq!(distinct(|keys| &keys.connection), 1000);
        assert_eq!(distinct(|keys| &keys.flat), 1000);
        assert_eq!(distinct(|keys| &keys.leases), SHARDS);
        assert_eq!(Baseline::ALL.map(|baseline| baseline as usize), [0, 1, 2]);
        for order in &baselines.orders {
            assert_eq!(
                order.iter().collect::<HashSet<_>>().len(),
                1000,
                "every connection is renewed"
            );
        }
    }
}
