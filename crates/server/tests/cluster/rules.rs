//! Limits that hold across nodes: single session, connections per user, operators, members.

use std::time::Duration;

use heartline_testing::{PATIENCE, bearer, eventually, service_token};
use serde_json::{Value, json};
use tokio::time::{sleep, sleep_until};

use crate::nodes::{Cluster, Node, Setup, now};
use crate::recording_socket::RecordingSocket;

#[tokio::test]
async fn a_single_session_is_one_on_all_nodes() {
    let cluster = Setup::nodes(2).set("gateway.session_policy", "single_session").start().await;
    let nodes: [&Node; 2] = cluster.all();
    let mut older = nodes[0].device("ana", "phone").await.0;
    for (round, device) in ["laptop", "tablet", "phone"].into_iter().enumerate() {
        let node = nodes[(round + 1) % 2];
        let (younger, connection) = node.device("ana", device).await;
        older.closes("session_replaced", 4409).await;
        assert_eq!(cluster.connections("ana"), std::slice::from_ref(&connection.id));
        let session: Value =
            serde_json::from_str(&cluster.redis.command(&["GET", "session:ana"])).unwrap();
        assert_eq!(session["connection_id"], connection.id);
        assert_eq!(session["node_id"], node.id);
        older = younger;
    }
    // Long enough for every node to renew what it holds.
    sleep(Duration::from_secs(7)).await;
    older.is_open().await;
    older.leaves().await;
    assert_eq!(cluster.redis.command(&["GET", "session:ana"]), "");
}

#[tokio::test]
async fn the_connections_of_a_user_are_counted_on_all_nodes_together() {
    let cluster = Setup::nodes(3).set("limits.connections_per_user", "3").start().await;
    let nodes: [&Node; 3] = cluster.all();
    let mut sockets = Vec::new();
    for (number, node) in nodes.into_iter().enumerate() {
        sockets.push(node.device("ana", &format!("device-{number}")).await.0);
    }
    let bearer = bearer("ana");
    for node in nodes {
        let headers = [("Authorization", bearer.as_str()), ("X-Device-ID", "one-more")];
        let (refused, _) = node.refused(&headers, 429, "RATE_LIMITED").await;
        assert!(refused.headers.contains_key("retry-after"));
    }
    // The same device again takes its own place, and one that leaves makes room elsewhere.
    let again = nodes[0].device("ana", "device-2").await.0;
    sockets.pop().unwrap().closes("session_replaced", 4409).await;
    again.leaves().await;
    let _one_more = nodes[1].device("ana", "one-more").await;
    assert_eq!(cluster.connections("ana").len(), 3);
}

#[tokio::test]
async fn an_operator_sees_and_ends_connections_on_every_node() {
    let cluster = Cluster::start(3).await;
    let [node1, node2, node3] = cluster.all();
    let (mut phone, on_first) = node1.device("ana", "phone").await;
    let (mut laptop, on_second) = node2.device("ana", "laptop").await;
    let page = node3.admin("GET", "/v1/admin/users/ana/connections").await;
    let items = page["items"].as_array().unwrap();
    for (connection, device) in [(&on_first, "phone"), (&on_second, "laptop")] {
        let is_it = |item: &&Value| item["connection_id"] == connection.id.as_str();
        let item = items.iter().find(is_it).unwrap_or_else(|| panic!("{page}"));
        assert_eq!(item["node"], connection.node);
        assert_eq!(item["device_id"], device);
        assert!(item["lease_ends_at"].is_string() && item["connected_at"].is_string(), "{item}");
    }
    let path = format!("/v1/admin/connections/{}", on_second.id);
    assert_eq!(node1.admin("DELETE", &path).await["connections"], 1);
    laptop.closes("session_ended", 4403).await;
    let is_over = async || node3.listed_nodes("ana").await == [node1.id.as_str()];
    eventually("it is listed no more", PATIENCE, is_over).await;
    let ended = node3.admin("DELETE", "/v1/admin/users/ana/connections").await;
    assert_eq!(ended["connections"], 1);
    phone.closes("session_ended", 4403).await;
    let again = node2.http("DELETE", &path, &service_token(), None).await;
    assert_eq!(again.status, 404, "{again:?}");
}

#[tokio::test]
async fn nodes_that_start_together_are_listed_on_every_node() {
    // They find an empty database and an empty Redis.
    let mut cluster = Setup::nodes(2).together().start().await;
    let _ana = cluster.node(0).connect("ana").await;
    cluster.add_node().await;
    let nodes: [&Node; 3] = cluster.all();
    for asked in nodes {
        let has_all = async || {
            let page = asked.admin("GET", "/v1/admin/nodes").await;
            let items = page["items"].as_array().unwrap();
            let counts: Vec<(&str, u64)> = items
                .iter()
                .map(|item| {
                    let id = item["node_id"].as_str().unwrap();
                    (id, item["connections"].as_u64().unwrap())
                })
                .collect();
            let count = |number: usize| u64::from(number == 0);
            let expected = nodes.iter().enumerate().map(|(at, node)| (node.id.as_str(), count(at)));
            counts == expected.collect::<Vec<_>>()
        };
        eventually("all nodes are listed with their connections", PATIENCE, has_all).await;
        let page = asked.admin("GET", "/v1/admin/nodes").await;
        for (item, number) in page["items"].as_array().unwrap().iter().zip(1..) {
            assert_eq!(item["name"], format!("node{number}"));
            assert!(item["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{item}");
            assert_eq!(item["planes"], json!(["gateway", "ingest", "fanout"]));
        }
    }
}

#[tokio::test]
async fn a_removed_member_hears_nothing_any_more_on_another_node() {
    let cluster = Cluster::start(2).await;
    let [node1, node2] = cluster.all();
    let chat = node1.create_group("ana", &["bo", "cy"]).await;
    let mut ana = node1.connect("ana").await;
    let bo = RecordingSocket::of(node2.connect("bo").await);
    let cy = RecordingSocket::of(node2.connect("cy").await);
    ana.send_acked(&chat, "before", "before").await;
    bo.receives_message("before", PATIENCE).await;
    node1.remove_member("ana", &chat, "bo").await;
    let removed_at = now();
    let mut last_id = String::new();
    for number in 0..15 {
        last_id = format!("m{number}");
        ana.send_acked(&chat, &last_id, &last_id).await;
        sleep_until(removed_at + Duration::from_millis(150) * (number + 1)).await;
    }
    cy.receives_message(&last_id, PATIENCE).await;
    let is_removed =
        |frame: &Value| frame["type"] == "chat_changed" && frame["change"] == "member_removed";
    let told = bo.receives("the removal", PATIENCE, is_removed).await;
    assert_eq!(told.frame.get("chat"), None, "{}", told.frame);
    assert!(told.at <= removed_at + Duration::from_secs(1));
    let late = bo.received().into_iter().filter(|received| {
        received.frame["type"] == "message" && received.at > removed_at + Duration::from_secs(1)
    });
    assert_eq!(late.count(), 0);
}
