mod client;
mod subscription;

use heartline_engines::{Redis, RedisCluster};
use heartline_routing::Clock;

use super::{RedisClient, RedisConfig, RedisCounters};

/// A client of its own, as a node has one.
fn client(url: &str) -> RedisClient {
    let config = RedisConfig::from_url(url, "").unwrap();
    RedisClient::new(config, Clock, RedisCounters::default())
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
