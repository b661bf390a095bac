mod client;
mod contract;
mod subscription;

use std::time::Duration;

use heartline_engines::{Redis, RedisCluster};
use heartline_protocol::UserId;
use heartline_routing::{Clock, Directory, Policy, PresenceState};
use tokio::time::sleep;

use super::{RedisClient, RedisConfig, RedisCounters, RedisDirectory, RedisDirectoryConfig};

/// How long leases last in these tests, and so how long a rebuild takes.
const LEASE: Duration = Duration::from_secs(1);

/// A client of its own, as a node has one.
fn client(url: &str) -> RedisClient {
    let config = RedisConfig::from_url(url, "test:").unwrap();
    RedisClient::new(config, Clock, RedisCounters::default())
}

fn config(node: &str, shards: u16) -> RedisDirectoryConfig {
    RedisDirectoryConfig {
        shards,
        lease: LEASE,
        node_id: node.parse().unwrap(),
        sweep_spacing: Duration::ZERO,
    }
}

/// The directory of a node.
async fn directory(url: &str, node: &str, shards: u16) -> RedisDirectory {
    RedisDirectory::connect(client(url), config(node, shards), Clock).await.unwrap()
}

fn policy() -> Policy {
    Policy {
        single_session: false,
        connections_per_user: 20,
        lease: LEASE,
        offline_linger: Duration::ZERO,
    }
}

/// Waits until every shard's rebuild is over, as a node does that sweeps all the time.
async fn settled(directory: &RedisDirectory) {
    let users: Vec<UserId> =
        (0..500).map(|number| format!("stranger-{number}").parse().unwrap()).collect();
    loop {
        directory.sweep(0, policy()).await.unwrap();
        let states = directory.presence(&users).await.unwrap();
        if !states.contains(&PresenceState::Stale) {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// A server alone and a Cluster, for what must hold on both.
struct Engines {
    alone: Redis,
    cluster: RedisCluster,
}

impl Engines {
    fn start() -> Self {
        Self { alone: Redis::start(), cluster: RedisCluster::start() }
    }

    fn urls(&self) -> [String; 2] {
        [self.alone.url(), self.cluster.url()]
    }
}
