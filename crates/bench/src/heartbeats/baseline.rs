//! The layouts that Heartline's leases are compared with, each driven as fast as Redis answers.

use anyhow::Result;
use heartline_routing::Clock;
use rand::seq::SliceRandom;

use super::wire::{Commands, Wire};

/// Connections whose renewals are sent together: enough that round trips do not count.
const TOGETHER: usize = 1000;
/// The same where many are renewed by one command.
const BATCHED_TOGETHER: usize = 10_000;
/// Members of one `ZADD`.
const MEMBERS_TOGETHER: usize = 100;
/// Sorted sets that the members are spread over.
const SHARDS: usize = 100;
/// Seconds that a key lives. Longer than the documents' fifteen, which would cost Redis the same,
/// so that nothing ends while the other layouts have their turn.
const LIFETIME_SECONDS: &str = "600";

/// A way of keeping connections alive in Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Baseline {
    /// Each heartbeat a transaction of four `EXPIRE` and an `HSET`.
    Transaction,
    /// Each heartbeat one `SETEX`.
    Setex,
    /// One `ZADD` for many, and nothing that would notice a loss.
    Zadd,
}

impl Baseline {
    /// All of them, in the order in which they take turns.
    pub(super) const ALL: [Self; 3] = [Self::Transaction, Self::Setex, Self::Zadd];

    /// As it is called in reports.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Transaction => "MULTI of 4 EXPIRE and HSET",
            Self::Setex => "one SETEX",
            Self::Zadd => "bare batched ZADD",
        }
    }
}

/// Connections that are kept alive in all three ways.
#[derive(Debug)]
pub(super) struct Baselines {
    prefix: String,
    connections: Vec<Names>,
    /// In which order each layout renews them, in the order of [`Baseline::ALL`].
    orders: [Vec<usize>; 3],
    /// Where it goes on.
    next: [usize; 3],
}

/// The keys of one connection.
#[derive(Debug)]
struct Names {
    connection: String,
    user_connections: String,
    user_servers: String,
    flat: String,
    leases: String,
    member: String,
}

impl Baselines {
    /// Names for so many connections, each of another user.
    pub(super) fn new(prefix: &str, connections: usize) -> Self {
        let names = |number: usize| {
            let (user, connection) = (format!("user-{number:021}"), format!("conn-{number:021}"));
            Names {
                connection: format!("{prefix}connection:{connection}"),
                user_connections: format!("{prefix}user_connections:{user}"),
                user_servers: format!("{prefix}user_servers:{user}"),
                flat: format!("{prefix}flat:{connection}"),
                leases: format!("{prefix}leases:{}", number % SHARDS),
                member: format!("{user}/node-0123456789/{connection}"),
            }
        };
        // Clients send heartbeats in an order that has nothing to do with when they came; a node
        // renews whole shards, each in the order in which the sorted set has it.
        let by_chance = || {
            let mut order: Vec<usize> = (0..connections).collect();
            order.shuffle(&mut rand::rng());
            order
        };
        let mut by_shard: Vec<usize> = (0..connections).collect();
        by_shard.sort_by_key(|number| number % SHARDS);
        let orders = [by_chance(), by_chance(), by_shard];
        let connections = (0..connections).map(names).collect();
        Self { prefix: prefix.to_owned(), connections, orders, next: [0; 3] }
    }

    /// Makes the keys of every layout.
    pub(super) async fn prepare(&mut self, wire: &mut Wire) -> Result<()> {
        let server = self.server_key();
        for batch in self.connections.chunks(TOGETHER) {
            let mut commands = Commands::default();
            for names in batch {
                let (id, now) = (&names.member, "2026-01-01T00:00:00.000Z");
                let fields = ["user_id", "user", "device_id", "device", "server_id", "node"];
                let times = ["connected_at", now, "last_heartbeat", now];
                commands.add(&[&["HSET", &names.connection], &fields[..], &times[..]].concat());
                commands.add(&["SADD", &names.user_connections, id]);
                commands.add(&["SADD", &names.user_servers, "node"]);
                commands.add(&["SADD", &server, id]);
                commands.add(&["ZADD", &names.leases, "1", id]);
            }
            wire.send(&commands).await?;
        }
        for baseline in Baseline::ALL {
            let mut renewed = 0;
            while renewed < self.connections.len() as u64 {
                renewed += self.renew(baseline, wire).await?;
            }
        }
        Ok(())
    }

    /// Renews the next connections, and says how many.
    pub(super) async fn renew(&mut self, baseline: Baseline, wire: &mut Wire) -> Result<u64> {
        let mut commands = Commands::default();
        let (order, from) = (&self.orders[baseline as usize], self.next[baseline as usize]);
        let together = if baseline == Baseline::Zadd { BATCHED_TOGETHER } else { TOGETHER };
        let until = (from + together).min(order.len());
        let batch = || order[from..until].iter().map(|number| &self.connections[*number]);
        let now = Clock::system().wall().unix_ms.to_string();
        match baseline {
            Baseline::Transaction => {
                let server = self.server_key();
                for names in batch() {
                    let connection = &names.connection;
                    commands.add(&["MULTI"]);
                    let others = [&names.user_connections, &names.user_servers, &server];
                    for key in [connection].into_iter().chain(others) {
                        commands.add(&["EXPIRE", key, LIFETIME_SECONDS]);
                    }
                    commands.add(&["HSET", connection, "last_heartbeat", &now]);
                    commands.add(&["EXEC"]);
                }
            }
            Baseline::Setex => {
                for names in batch() {
                    commands.add(&["SETEX", &names.flat, LIFETIME_SECONDS, &now]);
                }
            }
            Baseline::Zadd => {
                let batch: Vec<&Names> = batch().collect();
                for names in batch.chunk_by(|one, other| one.leases == other.leases) {
                    for names in names.chunks(MEMBERS_TOGETHER) {
                        add_zadd(&mut commands, names, &now);
                    }
                }
            }
        }
        wire.send(&commands).await?;
        self.next[baseline as usize] = if until == order.len() { 0 } else { until };
        Ok((until - from) as u64)
    }

    /// Removes every key.
    pub(super) async fn remove(&self, wire: &mut Wire) -> Result<()> {
        for batch in self.connections.chunks(TOGETHER) {
            let mut commands = Commands::default();
            for names in batch {
                let Names { connection, user_connections, user_servers, flat, leases, .. } = names;
                commands.add(&["DEL", connection, user_connections, user_servers, flat, leases]);
            }
            wire.send(&commands).await?;
        }
        let mut commands = Commands::default();
        commands.add(&["DEL", &self.server_key()]);
        wire.send(&commands).await
    }

    fn server_key(&self) -> String {
        format!("{}server_connections:node", self.prefix)
    }
}

fn add_zadd(commands: &mut Commands, names: &[&Names], end: &str) {
    commands.begin(5 + 2 * names.len());
    for argument in ["ZADD", &names[0].leases, "XX", "GT", "CH"] {
        commands.argument(argument);
    }
    for names in names {
        commands.argument(end);
        commands.argument(&names.member);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn connections_have_keys_of_their_own_and_share_the_sorted_sets() {
        let baselines = Baselines::new("p:", 1000);
        let distinct = |key: fn(&Names) -> &String| {
            baselines.connections.iter().map(key).collect::<HashSet<_>>().len()
        };
        assert_eq!(distinct(|names| &names.connection), 1000);
        assert_eq!(distinct(|names| &names.flat), 1000);
        assert_eq!(distinct(|names| &names.leases), SHARDS);
        assert_eq!(Baseline::ALL.map(|baseline| baseline as usize), [0, 1, 2]);
        for order in &baselines.orders {
            assert_eq!(order.iter().collect::<HashSet<_>>().len(), 1000, "everybody has a turn");
        }
    }
}
