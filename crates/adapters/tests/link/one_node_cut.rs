//! When one node cannot reach Redis, and the others can.

use std::time::Duration;

use heartline_engines::{FaultProxy, Redis};
use heartline_routing::NodeLink;
use heartline_runtime::Clock;

use crate::harness::{Cluster, PATIENCE, SWITCHED, after, until};

/// Node `b` is cut off; everybody still reaches everybody, and returns to Redis afterwards.
async fn survives(cut: fn(&FaultProxy)) {
    let redis = Redis::start();
    let mut cluster = Cluster::start(redis.port(), &["a", "b", "c"]).await;
    cluster.all_reach_all(1).await;
    let b = cluster.nodes[1].id.clone();
    let cut_at = Clock::system().now();
    cut(&cluster.proxies[&b]);
    after(cut_at, SWITCHED).await;
    for node in &mut cluster.nodes {
        node.empty();
        let is_b = node.id == b;
        assert_eq!(node.link.broker_is_healthy(), !is_b, "{}", node.id);
        let cut_off = if is_b { vec![] } else { vec![b.clone()] };
        assert_eq!(node.link.cut_off(), cut_off, "{}", node.id);
    }
    cluster.all_reach_all(100).await;
    after(cut_at, Duration::from_secs(11)).await;
    for node in &cluster.nodes {
        assert_eq!(node.link.is_worse_off(), node.id == b, "{}", node.id);
    }
    cluster.all_reach_all(200).await;
    cluster.proxies[&b].heal();
    cluster.wait_until_known().await;
    for node in &cluster.nodes {
        until("nobody being cut off", PATIENCE, || node.link.cut_off().is_empty()).await;
    }
    cluster.all_reach_all(300).await;
    assert!(!cluster.nodes[1].link.is_worse_off());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_cut_in_both_directions_is_reached_directly() {
    survives(FaultProxy::cut).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_cannot_speak_to_redis_is_reached_directly() {
    survives(FaultProxy::cut_upstream).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_does_not_hear_redis_is_reached_directly() {
    survives(FaultProxy::cut_downstream).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_redis_refuses_is_reached_directly() {
    survives(FaultProxy::refuse).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gap_of_a_node_that_does_not_hear_redis_is_reported_before_redis_returns() {
    let redis = Redis::start();
    let mut cluster = Cluster::start(redis.port(), &["a", "b"]).await;
    cluster.all_reach_all(1).await;
    let b = cluster.nodes[1].id.clone();
    cluster.proxies[&b].cut_downstream();
    // Redis accepts the parcel and counts a subscriber, which does not receive it.
    cluster.nodes[0].send(&b, 50).await.unwrap();
    cluster.nodes[1].resyncs(SWITCHED).await;
}
