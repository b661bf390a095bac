//! Links without faults.

use std::time::Duration;

use heartline_engines::{Redis, RedisCluster};
use heartline_routing::NodeLink;
use heartline_routing::link::Transport;

use crate::directory::Listed;
use crate::harness::{Cluster, Node, PATIENCE, PROMPT, Setting, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envelopes_go_through_redis_in_order() {
    let redis = Redis::start();
    let mut cluster = Cluster::start(redis.port(), &["a", "b"]).await;
    let to = cluster.nodes[1].id.clone();
    for sequence in 1..=2000 {
        cluster.nodes[0].send(&to, sequence).await.unwrap();
        if sequence % 500 == 0 {
            let heard = cluster.nodes[1].hears(sequence, PATIENCE).await;
            assert_eq!(heard.messages, Vec::from_iter(sequence - 499..=sequence));
            assert_eq!(heard.resyncs, 0);
        }
    }
    let sender = &cluster.nodes[0];
    // Counted when Redis has answered, which may be later than the receiver hears.
    until("all being counted", PATIENCE, || sender.sent(Transport::Broker) == 2000).await;
    assert_eq!(sender.sent(Transport::Direct), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_begin_and_idle_see_no_gap() {
    let redis = Redis::start();
    let mut cluster = Cluster::start(redis.port(), &["a", "b", "c"]).await;
    cluster.all_reach_all(1).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    cluster.all_reach_all(100).await;
    for node in &mut cluster.nodes {
        assert_eq!(node.empty().resyncs, 0);
        assert_eq!(node.metrics.resyncs.get(), 0);
        assert_eq!(node.link.peers().len(), 2);
        assert!(node.link.cut_off().is_empty() && !node.link.is_worse_off());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_cluster_carries_envelopes_too() {
    let redis = RedisCluster::start();
    let listed = Listed::default();
    let a = Node::start(Setting::new("a", Some(redis.url()), &listed)).await;
    let mut b = Node::start(Setting::new("b", Some(redis.url()), &listed)).await;
    a.announce();
    b.announce();
    until("a knowing b", PATIENCE, || !a.link.peers().is_empty()).await;
    for sequence in 1..=200 {
        a.send(&b.id, sequence).await.unwrap();
    }
    let heard = b.hears(200, PATIENCE).await;
    assert_eq!(heard.messages, Vec::from_iter(1..=200));
    // Counted when Redis has answered, which may be later than the receiver hears.
    until("all being counted", PATIENCE, || a.sent(Transport::Broker) == 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_nobody_has_listed_yet_is_reached() {
    let redis = Redis::start();
    let listed = Listed::default();
    let a = Node::start(Setting::new("a", Some(redis.url()), &listed)).await;
    let mut b = Node::start(Setting::new("b", Some(redis.url()), &listed)).await;
    a.send(&b.id, 1).await.unwrap();
    b.hears(1, PROMPT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_that_redis_ends_is_reported_as_a_gap() {
    let redis = Redis::start();
    let mut cluster = Cluster::start(redis.port(), &["a", "b"]).await;
    let mut gaps = cluster.nodes[1].link.gaps();
    redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    cluster.nodes[1].resyncs(PATIENCE).await;
    assert!(gaps.has_changed().unwrap());
    gaps.mark_unchanged();
    cluster.all_reach_all(1).await;
}
