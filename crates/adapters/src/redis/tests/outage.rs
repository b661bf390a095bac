use std::slice;
use std::time::Duration;

use heartline_engines::Redis;
use heartline_routing::{
    Answering, Connections, Leases, NodeRecord, Nodes, PresenceStates, Routes,
};
use heartline_runtime::Clock;
use tokio::time::sleep;

use super::{LEASE, client, config, directory, lease, policy, settled, user};
use crate::redis::{RedisDirectory, RedisDirectoryError};

/// The deadline, and what a loaded machine may take on top.
const ANSWERED: Duration = Duration::from_millis(900);

fn record(node: &str) -> NodeRecord {
    NodeRecord {
        node_id: node.parse().unwrap(),
        address: None,
        planes: "gateway".to_owned(),
        started_at: Clock::system().wall(),
        connections: 0,
    }
}

/// Whether every method fails, and each in time.
async fn every_call_fails_in_time(directory: &RedisDirectory) {
    let lease = lease("alice", "node-one", 1, 4);
    let (key, node) = (&lease.key, record("node-one"));
    for round in 0..3 {
        let started_at = Clock::system().now();
        let (users, keys) = ([user("alice")], slice::from_ref(key));
        let failed = tokio::join!(
            async { directory.register(lease.clone(), policy()).await.is_err() },
            async { directory.renew(keys, LEASE).await.is_err() },
            async { directory.extend(keys).await.is_err() },
            async { directory.unregister(key, Duration::ZERO).await.is_err() },
            async { directory.routes(&users, &key.node_id).await.is_err() },
            async { directory.by_user(&users).await.is_err() },
            async { directory.by_node(&key.node_id).await.is_err() },
            async { directory.by_connection(key.connection_id).await.is_err() },
            async { directory.sweep(10, policy()).await.is_err() },
            async { directory.presence(&users).await.is_err() },
            async { directory.announce(&node, LEASE).await.is_err() },
            async { directory.nodes().await.is_err() },
        );
        let all = (true, true, true, true, true, true, true, true, true, true, true, true);
        assert_eq!(failed, all, "in round {round}");
        assert!(Clock::system().now() - started_at < ANSWERED, "in round {round}");
    }
}

#[tokio::test]
async fn every_call_to_a_paused_redis_fails_in_time_and_the_outage_is_known() {
    let redis = Redis::start();
    let one = directory(&redis.url(), "node-one", 4).await;
    one.announce(&record("node-one"), LEASE).await.unwrap();
    assert_eq!(one.silence(), Duration::ZERO);
    redis.pause();
    let started_at = Clock::system().now();
    every_call_fails_in_time(&one).await;
    let silence = one.silence();
    assert!(silence > Duration::from_millis(400), "{silence:?}");
    assert!(silence <= Clock::system().now() - started_at + ANSWERED);
    redis.resume();
    while one.announce(&record("node-one"), LEASE).await.is_err() {
        assert!(Clock::system().now() - started_at < Duration::from_secs(20), "it comes back");
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(one.silence(), Duration::ZERO);
}

#[tokio::test]
async fn a_killed_redis_fails_every_call_and_serves_again_when_it_is_back() {
    let redis = Redis::start();
    let one = directory(&redis.url(), "node-one", 4).await;
    redis.stop();
    every_call_fails_in_time(&one).await;
    redis.restart();
    let started_at = Clock::system().now();
    while one.announce(&record("node-one"), LEASE).await.is_err() {
        assert!(Clock::system().now() - started_at < Duration::from_secs(20), "it comes back");
        sleep(Duration::from_millis(100)).await;
    }
    settled(&one).await;
    one.register(lease("alice", "node-one", 1, 4), policy()).await.unwrap();
}

#[tokio::test]
async fn a_full_redis_counts_as_down() {
    let redis = Redis::start();
    let one = directory(&redis.url(), "node-one", 4).await;
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let started_at = Clock::system().now();
    let lease = lease("alice", "node-one", 1, 4);
    one.register(lease.clone(), policy()).await.unwrap_err();
    one.announce(&record("node-one"), LEASE).await.unwrap_err();
    assert!(Clock::system().now() - started_at < ANSWERED);
    assert!(one.silence() > Duration::ZERO);
}

#[tokio::test]
async fn a_node_with_another_number_of_shards_refuses_to_start() {
    let redis = Redis::start();
    let one = directory(&redis.url(), "node-one", 4).await;
    let other =
        RedisDirectory::connect(client(&redis.url()), config("node-two", 5), Clock::system()).await;
    let refused = other.unwrap_err();
    assert!(matches!(refused, RedisDirectoryError::Shards { configured: 5, .. }));
    assert!(refused.to_string().contains("set it to 4"), "{refused}");
    redis.command(&["FLUSHALL"]);
    one.announce(&record("node-one"), LEASE).await.unwrap();
    let other =
        RedisDirectory::connect(client(&redis.url()), config("node-two", 5), Clock::system()).await;
    assert!(other.is_err(), "the number of shards is stored again after a wipe");
}

#[tokio::test]
async fn a_directory_without_a_server_fails_to_open() {
    let redis = Redis::start();
    let url = redis.url();
    drop(redis);
    let opened =
        RedisDirectory::connect(client(&url), config("node-one", 4), Clock::system()).await;
    assert!(matches!(opened.unwrap_err(), RedisDirectoryError::Redis(_)));
}
