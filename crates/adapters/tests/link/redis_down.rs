//! When Redis is down for everybody.

use std::time::Duration;

use heartline_engines::Redis;
use heartline_routing::NodeLink;
use heartline_routing::link::Transport;
use heartline_runtime::Clock;

use crate::harness::{Cluster, PATIENCE, SWITCHED, after, until};

/// The nodes go on without Redis, and return to it.
async fn survives(fail: impl FnOnce(&Redis), recover: impl FnOnce(&Redis)) {
    let redis = Redis::start();
    let mut cluster = Cluster::start(redis.port(), &["a", "b", "c"]).await;
    cluster.all_reach_all(1).await;
    let failed_at = Clock::system().now();
    fail(&redis);
    after(failed_at, SWITCHED).await;
    for node in &mut cluster.nodes {
        node.empty();
        assert!(!node.link.broker_is_healthy());
        assert_eq!(node.link.peers().len(), 2, "the nodes that were known last");
    }
    cluster.all_reach_all(100).await;
    // All nodes are cut off alike, so none counts as cut off from the others.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(!cluster.nodes[0].link.is_worse_off());
    recover(&redis);
    for node in &mut cluster.nodes {
        node.resyncs(PATIENCE).await;
    }
    cluster.wait_until_known().await;
    for node in &cluster.nodes {
        until("nobody being cut off", PATIENCE, || node.link.cut_off().is_empty()).await;
    }
    let before = cluster.nodes[0].sent(Transport::Broker);
    cluster.all_reach_all(200).await;
    let sender = &cluster.nodes[0];
    until("all being counted", PATIENCE, || sender.sent(Transport::Broker) == before + 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_reach_each_other_while_redis_is_killed() {
    survives(Redis::stop, Redis::restart).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_reach_each_other_while_redis_hangs() {
    survives(Redis::pause, Redis::resume).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envelopes_sent_during_the_failure_arrive_once() {
    let redis = Redis::start();
    let mut cluster = Cluster::start(redis.port(), &["a", "b"]).await;
    cluster.all_reach_all(1).await;
    let to = cluster.nodes[1].id.clone();
    redis.pause();
    for sequence in 100..200 {
        cluster.nodes[0].send(&to, sequence).await.unwrap();
    }
    let mut heard = cluster.nodes[1].hears(199, Duration::from_secs(5)).await.messages;
    // Redis has them too, and delivers them late.
    redis.resume();
    cluster.wait_until_known().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    heard.extend(cluster.nodes[1].empty().messages);
    heard.sort_unstable();
    assert_eq!(heard, Vec::from_iter(100..200));
}
