//! Devices that move between nodes: the newer connection stays, and the older one is closed with a
//! reason.

use std::time::Duration;

use heartline_testing::presence::SENTINEL;
use heartline_testing::{PATIENCE, Socket, eventually};
use serde_json::Value;
use tokio::time::sleep;

use crate::nodes::{Cluster, LEASE, Network, Node, SLACK, Setup, is_long};
use crate::recording_socket::RecordingSocket;

/// Longer than it takes until every lease was renewed.
const RENEWED: Duration = Duration::from_secs(7);

fn is_replaced(frame: &Value) -> bool {
    frame["type"] == "connection_closing" && frame["reason"] == "session_replaced"
}

/// The device ended up where it should be, and can be pushed to there.
async fn is_only_on(cluster: &Cluster, node: &Node, user: &str, socket: &RecordingSocket) {
    assert!(socket.is_open(), "the younger socket stays: {:#?}", socket.received());
    assert_eq!(cluster.routed_nodes(user), [node.id.as_str()]);
    assert_eq!(cluster.routes(user)[&node.id], "1");
    for asked in cluster.all::<2>() {
        assert_eq!(asked.listed_nodes(user).await, [node.id.as_str()]);
        asked.push(&[user], "ping", Value::Null).await;
    }
    let has_both = async || {
        socket.received().iter().filter(|received| received.frame["type"] == "event").count() >= 2
    };
    eventually("pushes from both nodes arrive", PATIENCE, has_both).await;
}

#[tokio::test]
async fn a_device_that_moves_while_both_nodes_renew_stays_where_it_went_last() {
    let cluster = Cluster::start(2).await;
    let nodes: [&Node; 2] = cluster.all();
    let mut older = RecordingSocket::of(nodes[0].device("ana", "phone").await.0);
    for round in 1..4 {
        let younger = RecordingSocket::of(nodes[round % 2].device("ana", "phone").await.0);
        older.receives("session_replaced", SLACK * 2, is_replaced).await;
        older = younger;
    }
    sleep(RENEWED).await;
    is_only_on(&cluster, nodes[1], "ana", &older).await;
}

#[tokio::test]
async fn a_device_that_moves_while_its_node_is_stopped_stays_where_it_went() {
    let cluster = Cluster::start(2).await;
    let [node1, node2] = cluster.all();
    for stopped in [Duration::from_secs(2), LEASE + SLACK * 5] {
        let older = RecordingSocket::of(node1.device("ana", "phone").await.0);
        node1.signal("STOP").await;
        let younger = RecordingSocket::of(node2.device("ana", "phone").await.0);
        sleep(stopped).await;
        node1.signal("CONT").await;
        older.receives("session_replaced", RENEWED, is_replaced).await;
        sleep(RENEWED).await;
        is_only_on(&cluster, node2, "ana", &younger).await;
    }
}

#[tokio::test]
async fn of_two_sockets_that_were_opened_without_redis_the_younger_stays() {
    let cluster = Cluster::start(2).await;
    let nodes: [&Node; 2] = cluster.all();
    cluster.stop_redis();
    let mut pairs = Vec::new();
    for (user, first, second) in [("ana", 0, 1), ("bo", 1, 0)] {
        let older = RecordingSocket::of(nodes[first].device(user, "phone").await.0);
        sleep(Duration::from_millis(300)).await;
        let younger = RecordingSocket::of(nodes[second].device(user, "phone").await.0);
        pairs.push((user, second, older, younger));
    }
    sleep(SLACK).await;
    assert!(pairs.iter().all(|(_, _, older, _)| older.is_open()), "nobody could know");
    cluster.redis.restart();
    for (user, second, older, younger) in &pairs {
        older.receives("session_replaced", LEASE, is_replaced).await;
        sleep(RENEWED).await;
        is_only_on(&cluster, nodes[*second], user, younger).await;
    }
}

#[tokio::test]
async fn a_device_that_has_moved_stays_where_it_went_over_a_wipe() {
    let cluster = Cluster::start(2).await;
    let [node1, node2] = cluster.all();
    let older = RecordingSocket::of(node1.device("ana", "phone").await.0);
    // Its node does not hear that it was replaced before everything is forgotten.
    node1.signal("STOP").await;
    let younger = RecordingSocket::of(node2.device("ana", "phone").await.0);
    cluster.redis.command(&["FLUSHALL"]);
    node1.signal("CONT").await;
    older.receives("session_replaced", LEASE, is_replaced).await;
    sleep(RENEWED).await;
    is_only_on(&cluster, node2, "ana", &younger).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_departure_does_not_take_the_new_connection_with_it() {
    let cluster = Setup::nodes(2).network(Network::FaultyToRedis).start().await;
    let [node1, node2] = cluster.all();
    let mut bo = node2.connect("bo").await;
    let (phone, _) = node1.device("ana", "phone").await;
    bo.subscribe(&["ana", SENTINEL]).await;
    node1.network().cut_upstream();
    drop(phone);
    let younger = RecordingSocket::of(node2.device("ana", "phone").await.0);
    sleep(Duration::from_secs(3)).await;
    node1.network().heal();
    sleep(Duration::from_secs(3)).await;
    is_only_on(&cluster, node2, "ana", &younger).await;
    let told = node2.frames_until_sentinel(&mut bo).await;
    let is_told = told.iter().any(|frame| frame["type"] == "presence_changed");
    assert!(!is_told, "{told:#?}");
}

#[tokio::test]
async fn two_devices_that_come_in_the_same_instant_on_two_nodes_are_one_arrival() {
    let cluster = Cluster::start(3).await;
    let [node1, node2, node3] = cluster.all();
    let mut bo = node3.connect("bo").await;
    bo.subscribe(&["ana", SENTINEL]).await;
    for _ in 0..20 {
        let (phone, laptop) =
            tokio::join!(node1.device("ana", "phone"), node2.device("ana", "laptop"));
        bo.presence("ana", "online").await;
        tokio::join!(phone.0.leaves(), laptop.0.leaves());
        bo.presence("ana", "offline").await;
    }
    node1.receives_nothing_else(&mut bo).await;
}

#[tokio::test]
async fn a_connection_that_comes_while_another_goes_never_loses_its_route() {
    let cluster = Cluster::start(2).await;
    let nodes: [&Node; 2] = cluster.all();
    let mut bo = nodes[1].connect("bo").await;
    let rounds = if is_long() { 1000 } else { 200 };
    let mut old: Socket = nodes[0].device("ana", "phone").await.0;
    bo.subscribe(&["ana", SENTINEL]).await;
    for round in 1..=rounds {
        let node = nodes[round % 2];
        // In turn the same device and another, an end in order and a lost connection.
        let device = ["phone", "laptop"][round / 2 % 2];
        let leave = async { if round % 3 == 0 { drop(old) } else { old.leaves().await } };
        let ((), (new, connection)) = tokio::join!(leave, node.device("ana", device));
        let is_routed = async || cluster.connections("ana") == [connection.id.clone()];
        eventually("the old connection is gone", PATIENCE, is_routed).await;
        assert_eq!(cluster.routed_nodes("ana"), [node.id.as_str()], "round {round}");
        assert!(cluster.lease_end(&connection).is_some(), "round {round}");
        old = new;
    }
    let ana = RecordingSocket::of(old);
    is_only_on(&cluster, nodes[rounds % 2], "ana", &ana).await;
    // A user who was offline for a short time was reported as offline; at the end all are online.
    let told = nodes[1].frames_until_sentinel(&mut bo).await;
    let last = told.last().map_or(&Value::Null, |seen| &seen["status"]);
    assert!(last.is_null() || *last == "online", "{last}");
}
