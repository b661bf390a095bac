//! A node that dies while its users are connected elsewhere too: what outlives it, and for how
//! long.

use std::time::Duration;

use heartline_runtime::Clock;
use heartline_testing::presence::{SENTINEL, is_known};
use tokio::time::sleep;

use crate::nodes::{Cluster, LEASE, Node, SLACK, SWEEP, now};
use crate::recording_socket::RecordingSocket;

/// How often it is looked whether a dead node is still named.
const SAMPLE: Duration = Duration::from_millis(100);

/// Every place where the dead node is still named for a user.
async fn namings(cluster: &Cluster, asked: &Node, user: &str, dead: &str) -> Vec<&'static str> {
    let mut places = Vec::new();
    if asked.listed_nodes(user).await.iter().any(|node| node == dead) {
        places.push("the operator's list");
    }
    let ends_at = cluster.redis.command(&["ZSCORE", "servers", dead]).parse::<u64>();
    let is_live = ends_at.is_ok_and(|ends_at| ends_at > cluster.redis_ms());
    if is_live && cluster.routed_nodes(user).iter().any(|node| node == dead) {
        places.push("the routes");
    }
    let nodes = asked.admin("GET", "/v1/admin/nodes").await;
    if nodes["items"].as_array().unwrap().iter().any(|node| node["node_id"] == dead) {
        places.push("the list of nodes");
    }
    places
}

#[tokio::test]
async fn a_killed_node_is_forgotten_although_the_user_stays_on_another() {
    let mut cluster = Cluster::start(2).await;
    let chat = cluster.node(1).create_group("bo", &["ana"]).await;
    let (_phone, _) = cluster.node(0).device("ana", "phone").await;
    let (mut laptop, kept) = cluster.node(1).device("ana", "laptop").await;
    let mut bo = cluster.node(1).connect("bo").await;
    bo.subscribe(&["ana", SENTINEL]).await;
    let dead = cluster.lose(0).await;
    let killed_at = now();
    let [node2] = cluster.all();
    let mut last_named = Duration::ZERO;
    while now() - killed_at < LEASE + SWEEP * 3 {
        if !namings(&cluster, node2, "ana", &dead).await.is_empty() {
            last_named = now() - killed_at;
        }
        sleep(SAMPLE).await;
    }
    assert!(last_named > LEASE / 2, "the node was named for only {last_named:?}: a void test");
    assert!(last_named <= LEASE + SLACK, "the dead node was named for {last_named:?}");
    assert_eq!(cluster.routed_nodes("ana"), [node2.id.as_str()]);
    assert_eq!(cluster.connections("ana"), [kept.id]);
    assert!(cluster.redis.command(&["SMEMBERS", &format!("server_connections:{dead}")]).is_empty());
    node2.receives_nothing_else(&mut bo).await;
    is_known(&node2.knows("bo", &["ana"]).await[0], "ana", "online");
    bo.send_acked(&chat, "m1", "still here").await;
    laptop.receives("still here").await;

    let left_at = Clock::system().wall().to_string();
    laptop.leaves().await;
    let offline = bo.presence("ana", "offline").await;
    is_known(&offline, "ana", "offline");
    let last_seen = offline["last_seen"].as_str().unwrap();
    assert!((left_at.as_str()..=Clock::system().wall().to_string().as_str()).contains(&last_seen));
    node2.receives_nothing_else(&mut bo).await;
}

#[tokio::test]
async fn who_was_only_on_the_killed_node_was_last_seen_at_its_last_renewal() {
    let mut cluster = Cluster::start(2).await;
    let (_phone, connection) = cluster.node(0).device("ana", "phone").await;
    let mut bo = cluster.node(1).connect("bo").await;
    bo.subscribe(&["ana", SENTINEL]).await;
    cluster.lose(0).await;
    let renewed_ms = cluster.lease_end(&connection).unwrap() - LEASE.as_millis() as u64;
    let offline = bo.presence("ana", "offline").await;
    let late = cluster.redis_ms() - renewed_ms;
    assert!(Duration::from_millis(late) <= LEASE + SWEEP + SLACK, "{late} ms");
    let renewed = heartline_protocol::Timestamp { unix_ms: renewed_ms }.to_string();
    assert_eq!(offline["last_seen"], renewed, "{offline}");
    let [node2] = cluster.all();
    node2.receives_nothing_else(&mut bo).await;
}

#[tokio::test]
async fn one_of_two_devices_that_leaves_in_order_tells_nobody() {
    let cluster = Cluster::start(3).await;
    let [node1, node2, node3] = cluster.all();
    let mut bo = node3.connect("bo").await;
    let (phone, _) = node1.device("ana", "phone").await;
    let laptop = RecordingSocket::of(node2.device("ana", "laptop").await.0);
    bo.subscribe(&["ana", SENTINEL]).await;
    phone.leaves().await;
    assert_eq!(cluster.routed_nodes("ana"), [node2.id.as_str()]);
    node1.receives_nothing_else(&mut bo).await;
    let (phone, _) = node1.device("ana", "phone").await;
    node2.receives_nothing_else(&mut bo).await;
    drop(laptop);
    node3.receives_nothing_else(&mut bo).await;
    phone.leaves().await;
    bo.presence("ana", "offline").await;
    node1.receives_nothing_else(&mut bo).await;
}
