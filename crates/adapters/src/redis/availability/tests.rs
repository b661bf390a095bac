use heartline_engines::{Redis, RedisCluster};
use heartline_runtime::{Clock, Random};

use super::*;
use crate::redis::RedisCounters;

/// A prober of a Redis, and its metrics.
struct Stage {
    availability: RedisAvailability,
    registry: Registry,
}

impl Stage {
    fn new(url: &str) -> Self {
        let config = RedisConfig::from_url(url, "test:").unwrap();
        let client =
            RedisClient::new(config, Clock::system(), Random::system(), RedisCounters::default());
        let mut registry = Registry::default();
        let availability = RedisAvailability::new(client, &mut registry);
        Self { availability, registry }
    }

    async fn look(&mut self) {
        self.availability.look().await;
    }

    /// The value of a metric, if it is shown.
    fn value(&self, name: &str) -> Option<f64> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let line = text.lines().find(|line| line.split(' ').next() == Some(name))?;
        Some(line.rsplit(' ').next().unwrap().parse().unwrap())
    }
}

#[tokio::test]
async fn a_redis_that_stops_and_returns_is_seen_as_such() {
    let redis = Redis::start();
    let mut stage = Stage::new(&redis.url());
    assert_eq!(stage.value("redis_keys"), None, "nobody has asked yet");
    stage.look().await;
    assert_eq!(stage.value("redis_available"), Some(1.0));
    assert_eq!(stage.value("redis_keys"), Some(1.0), "the probe's own");
    assert_eq!(stage.value("redis_memory_used_ratio"), None, "there is no bound");

    redis.stop();
    stage.look().await;
    assert_eq!(stage.value("redis_available"), Some(0.0));
    assert_eq!(stage.value("redis_keys"), None, "old figures are not shown as new");

    redis.restart();
    stage.look().await;
    assert_eq!(stage.value("redis_available"), Some(1.0));
    redis.pause();
    stage.look().await;
    assert_eq!(stage.value("redis_available"), Some(0.0), "it accepts and does not answer");
    redis.resume();
    stage.look().await;
    assert_eq!(stage.value("redis_available"), Some(1.0));
}

#[tokio::test]
async fn the_figures_are_those_of_the_server() {
    let redis = Redis::start_with(&["--maxmemory", "1gb", "--maxmemory-policy", "noeviction"]);
    redis.command(&["MSET", "one", "1", "two", "2", "three", "3"]);
    redis.command(&["GET", "one"]);
    redis.command(&["MGET", "nothing", "nowhere"]);
    let mut stage = Stage::new(&redis.url());
    stage.look().await;
    assert_eq!(stage.value("redis_keys"), Some(4.0));
    assert_eq!(stage.value("redis_keyspace_hits_total"), Some(1.0));
    assert_eq!(stage.value("redis_keyspace_misses_total"), Some(2.0));
    assert_eq!(stage.value("redis_expired_keys_total"), Some(0.0));
    assert_eq!(stage.value("redis_evicted_keys_total"), Some(0.0));
    assert_eq!(stage.value("redis_connected_clients"), Some(1.0));
    assert_eq!(stage.value("redis_pubsub_channels"), Some(0.0));
    assert_eq!(stage.value("redis_pubsub_patterns"), Some(0.0));
    let used = stage.value("redis_memory_used_bytes").unwrap();
    let ratio = stage.value("redis_memory_used_ratio").unwrap();
    assert!((ratio - used / f64::from(1 << 30)).abs() < 1e-9, "{used} {ratio}");
}

#[tokio::test]
async fn a_full_redis_is_not_available() {
    let redis = Redis::start();
    let mut stage = Stage::new(&redis.url());
    stage.look().await;
    assert_eq!(stage.value("redis_available"), Some(1.0));
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    stage.look().await;
    assert_eq!(stage.value("redis_available"), Some(0.0));
}

#[tokio::test]
async fn a_redis_that_does_not_allow_info_has_no_figures() {
    let redis = Redis::start();
    redis.command(&["ACL", "SETUSER", "default", "-info"]);
    let mut stage = Stage::new(&redis.url());
    stage.look().await;
    assert_eq!(stage.value("redis_available"), Some(1.0));
    assert_eq!(stage.value("redis_keys"), None);
    redis.command(&["ACL", "SETUSER", "default", "+info", "-set"]);
    stage.look().await;
    assert_eq!(stage.value("redis_available"), Some(1.0), "what is forbidden was answered");
    assert_eq!(stage.value("redis_keys"), Some(1.0), "that of the first probe");
}

#[tokio::test]
async fn of_a_cluster_all_masters_count() {
    let cluster = RedisCluster::start();
    let bound = ["CONFIG", "SET", "maxmemory", "100mb"];
    cluster.masters[1].command(&bound);
    let mut stage = Stage::new(&cluster.url());
    stage.look().await;
    assert_eq!(stage.value("redis_available"), Some(1.0));
    assert_eq!(stage.value("redis_keys"), Some(3.0), "every master was written to");
    assert!(stage.value("redis_connected_clients").unwrap() >= 3.0);
    assert!(stage.value("redis_memory_used_ratio").is_some(), "one has a bound");
    cluster.masters[2].stop();
    stage.look().await;
    assert_eq!(stage.value("redis_available"), Some(0.0), "some of the users are out of reach");
    assert_eq!(stage.value("redis_keys"), None);
}

#[tokio::test]
async fn probes_do_not_count_as_calls_of_the_node() {
    let redis = Redis::start();
    let mut stage = Stage::new(&redis.url());
    stage.look().await;
    redis.stop();
    stage.look().await;
    let counters = stage.availability.client.counters();
    assert_eq!((counters.calls.get(), counters.breaker_openings.get()), (0, 0));
}
