//! Nodes on a Redis Cluster, where keys are spread over servers and pub/sub is sharded.

use heartline_engines::RedisCluster;
use heartline_testing::presence::{SENTINEL, is_known, is_presence};
use heartline_testing::{PATIENCE, eventually};
use serde_json::Value;
use tokio::time::sleep;

use crate::nodes::{Cluster, LEASE, SLACK, SWEEP, Setup};
use crate::recording_socket::RecordingSocket;

#[tokio::test]
async fn nodes_on_a_redis_cluster_find_each_other_and_forget_the_dead() {
    let redis = RedisCluster::start();
    let mut cluster = Setup::nodes(3).redis_url(&redis.url()).start().await;
    let [node1, node2, node3] = cluster.all();
    let chat = node1.create_group("ana", &["bo", "cy"]).await;
    let mut ana = node1.connect("ana").await;
    let bo_here = RecordingSocket::of(node1.device("bo", "phone").await.0);
    let bo_there = RecordingSocket::of(node2.device("bo", "laptop").await.0);
    let _cy = node1.connect("cy").await;
    let mut observer = node3.connect("observer").await;
    let seen = observer.subscribe(&["bo", "cy", SENTINEL]).await;
    is_known(&seen[0], "bo", "online");
    is_known(&seen[1], "cy", "online");
    ana.send_acked(&chat, "m1", "to all of them").await;
    for device in [&bo_here, &bo_there] {
        device.receives_message("to all of them", PATIENCE).await;
    }
    // The same device again, elsewhere.
    let moved = RecordingSocket::of(node3.device("bo", "phone").await.0);
    let is_replaced = |frame: &Value| frame["reason"] == "session_replaced";
    bo_here.receives("session_replaced", PATIENCE, is_replaced).await;
    node2.receives_nothing_else(&mut observer).await;
    let observer = RecordingSocket::of(observer);

    let dead = cluster.lose(0).await;
    let is_gone = |frame: &Value| is_presence(frame, "cy", "offline");
    observer.receives("the departure", LEASE + SWEEP + SLACK, is_gone).await;
    let [node2, node3] = cluster.all();
    let is_forgotten = async || {
        let nodes = node2.admin("GET", "/v1/admin/nodes").await;
        !nodes["items"].as_array().unwrap().iter().any(|node| node["node_id"] == dead)
    };
    eventually("the dead node is forgotten", SWEEP + SLACK, is_forgotten).await;
    let mut nodes = node3.listed_nodes("bo").await;
    nodes.sort();
    assert_eq!(nodes, [node2.id.as_str(), node3.id.as_str()]);
    assert!(observer.presence_of("bo").is_empty());
    assert!(moved.is_open() && bo_there.is_open());
}

#[tokio::test]
async fn a_server_of_a_redis_cluster_that_is_wiped_is_filled_again() {
    let redis = RedisCluster::start();
    let cluster: Cluster = Setup::nodes(2).redis_url(&redis.url()).start().await;
    let [node1, node2] = cluster.all();
    let names: Vec<String> = (0..30).map(|number| format!("user-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut sockets = Vec::new();
    for name in &names {
        sockets.push(RecordingSocket::of(node1.connect(name).await));
    }
    let mut observer = node2.connect("observer").await;
    observer.subscribe(&names).await;
    let observer = RecordingSocket::of(observer);
    redis.masters[0].command(&["FLUSHALL"]);
    sleep(LEASE + SWEEP * 3).await;
    let all_are_listed = async || {
        for name in &names {
            if node2.listed_nodes(name).await != [node1.id.as_str()] {
                return false;
            }
        }
        true
    };
    eventually("every connection is listed again", PATIENCE, all_are_listed).await;
    for (seen, name) in node2.knows("somebody", &names).await.iter().zip(&names) {
        is_known(seen, name, "online");
    }
    let told: Vec<Value> = observer.received().into_iter().map(|received| received.frame).collect();
    let is_wrong =
        |frame: &&Value| frame["type"] == "presence_changed" && frame["status"] != "unknown";
    assert_eq!(told.iter().filter(is_wrong).count(), 0, "{told:#?}");
    assert!(sockets.iter().all(RecordingSocket::is_open));
}
