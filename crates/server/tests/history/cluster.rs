//! Three nodes that share a Redis and a PostgreSQL of their own.

use std::net::SocketAddr;

use heartline_engines::{HeldPort, Postgres, Redis, free_port, hold_port};
use tokio::task::block_in_place;

use crate::run::Target;
use crate::server::Server;

/// How many nodes there are.
pub(crate) const NODES: usize = 3;

/// The secret by which the nodes authenticate each other.
const CLUSTER_SECRET: &str = "what the nodes of a history know each other by";

/// The nodes and their engines.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Server>,
    redis: Redis,
    postgres: Postgres,
    /// The port of an engine that is down.
    port: Option<HeldPort>,
}

impl Cluster {
    /// Starts engines and nodes. `store` is added to the URL of the store, `more` to its section.
    pub(crate) async fn start_new(store: &str, more: &str) -> Self {
        let (redis, postgres) = block_in_place(|| (Redis::start(), Postgres::start()));
        let url = format!("{}{store}", postgres.url());
        let mut cluster = Self { nodes: Vec::new(), redis, postgres, port: None };
        for _ in 0..NODES {
            // A breaker opens when half of the calls in its window fail: in the usual window the
            // few of a short outage may be too few among all that went well before.
            let configuration = format!(
                "breaker_window = \"2s\"\n[redis]\nurl = \"{}\"\n[cluster]\nlisten = \"127.0.0.1:{}\"\nsecret = \"{CLUSTER_SECRET}\"\n\
                 [store]\nurl = \"{url}\"\n{more}",
                cluster.redis.url(),
                free_port(),
            );
            cluster.nodes.push(Server::start_new(None, "data", &configuration).await);
        }
        cluster
    }

    /// Kills every process of PostgreSQL.
    pub(crate) fn kill_store(&mut self) {
        block_in_place(|| self.postgres.stop());
        self.port = Some(hold_port(self.postgres.port()));
    }

    /// Starts PostgreSQL again on what its disk has.
    pub(crate) fn start_store(&mut self) {
        self.port = None;
        block_in_place(|| self.postgres.restart());
    }

    /// Stops every process of PostgreSQL where it stands.
    pub(crate) fn pause_store(&self) {
        block_in_place(|| self.postgres.pause());
    }

    /// Resumes PostgreSQL.
    pub(crate) fn resume_store(&self) {
        block_in_place(|| self.postgres.resume());
    }

    /// Kills Redis, which keeps nothing.
    pub(crate) fn kill_redis(&mut self) {
        block_in_place(|| self.redis.stop());
        self.port = Some(hold_port(self.redis.port()));
    }

    /// Starts Redis again, empty.
    pub(crate) fn start_redis(&mut self) {
        self.port = None;
        block_in_place(|| self.redis.restart());
    }

    /// Stops Redis where it stands.
    pub(crate) fn pause_redis(&self) {
        block_in_place(|| self.redis.pause());
    }

    /// Resumes Redis.
    pub(crate) fn resume_redis(&self) {
        block_in_place(|| self.redis.resume());
    }

    /// Removes everything that Redis holds.
    pub(crate) fn wipe_redis(&self) {
        block_in_place(|| self.redis.command(&["FLUSHALL"]));
    }
}

impl Target for Cluster {
    fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.address).collect()
    }

    fn logs(&self) -> Vec<String> {
        self.nodes.iter().map(Server::log).collect()
    }
}
