//! The acceptance vectors of the document that asks for connection routing and presence.
//!
//! Its mechanism was changed: one lease per connection in a sorted set decides, and its keys are
//! indexes beside it. So each vector is held to what it is there to verify.
//!
//! | vector | what is asserted |
//! |---|---|
//! | 4.1 a server crash causes entries to expire within the window | until the end of the lease that the node wrote last, at most 15 s after the crash, the connection is listed; one sweep later `connection:`, `user_connections:`, `user_servers:` and the lease are gone |
//! | 4.1 a reconnect updates the mapping idempotently | after the expiry and a reconnect elsewhere, routes, connections and the lease are those of the new connection and no other |
//! | 4.1 multi-device routing delivers to all servers | `user_servers:` names both nodes, the message is published on both channels, and both devices receive it |
//! | 4.1 a stale routing entry | a message to a dead node is acknowledged while the entry is there, the entry ends with its lease, the device gets the message by sync elsewhere |
//! | 4.2 the first connection transitions to online | `user_presence:` is online without a `last_seen`, and another node sends one event |
//! | 4.2 the last connection transitions to offline | `user_presence:` is offline, and one event has the time of the disconnect |
//! | 4.2 multi-device keeps the user online | one live lease is left (there is no `device_count`), the status stays, and no event is sent |
//! | 4.2 staleness is bounded by the window | another node reports offline long before 14 s, and still 21 s later, with the same `last_seen`; a user who stays connected stays online |
//! | 4.3 Redis unavailable degrades to broadcast | routes cannot be read, `fanout_broadcasts` rises, devices on all nodes receive it over the direct links, and no other device does |
//! | 4.3 Redis recovery rebuilds state | within the window after it is back, empty, every route is there again, and presence is derived from them |
//! | 4.3 split brain is prevented by unique connection ids | a reconnect before the expiry gets a new id; the old one is gone with the new registration if it was the same device, else with its lease; no id is ever on two nodes |

use std::collections::BTreeMap;
use std::time::Duration;

use heartline_runtime::Clock;
use heartline_testing::eventually;
use heartline_testing::presence::{SENTINEL, is_known};
use serde_json::Value;
use tokio::time::{sleep, sleep_until};

use crate::link_monitor::LinkMonitor;
use crate::nodes::{Cluster, LEASE, SLACK, SWEEP, now};
use crate::recording_socket::RecordingSocket;

fn routes_to(nodes: &[&str]) -> BTreeMap<String, String> {
    nodes.iter().map(|node| ((*node).to_owned(), "1".to_owned())).collect()
}

// === 4.1 Connection routing ===

#[tokio::test]
async fn v41_a_server_crash_causes_entries_to_expire_within_the_window() {
    let mut cluster = Cluster::start(2).await;
    let (_ana, connection) = cluster.node(0).device("ana", "phone").await;
    let dead = cluster.lose(0).await;
    let crashed_at = now();
    let [node2] = cluster.all();
    let (ends_at, redis_ms) = (cluster.lease_end(&connection).unwrap(), cluster.redis_ms());
    let left = Duration::from_millis(ends_at - redis_ms);
    assert!(left <= LEASE, "{left:?}");
    sleep(left - SLACK).await;
    assert_eq!(node2.listed_nodes("ana").await, [dead.as_str()], "it counts until its lease ends");
    assert_eq!(cluster.hash(&format!("connection:{}", connection.id))["node"], dead);
    sleep_until(crashed_at + left + SWEEP + SLACK).await;
    assert!(now() - crashed_at <= LEASE + SWEEP + SLACK * 2);
    assert!(cluster.hash(&format!("connection:{}", connection.id)).is_empty());
    assert!(cluster.connections("ana").is_empty());
    assert!(cluster.routes("ana").is_empty());
    assert_eq!(cluster.lease_end(&connection), None);
    assert!(node2.listed_nodes("ana").await.is_empty());
}

#[tokio::test]
async fn v41_a_reconnect_updates_the_mapping_idempotently() {
    let mut cluster = Cluster::start(2).await;
    let (_lost, old) = cluster.node(0).device("ana", "phone").await;
    cluster.lose(0).await;
    let is_over = async || cluster.routes("ana").is_empty();
    eventually("the old entry ends", LEASE + SWEEP + SLACK, is_over).await;
    let [node2] = cluster.all();
    let (_ana, new) = node2.device("ana", "phone").await;
    assert_eq!(cluster.routes("ana"), routes_to(&[&node2.id]));
    assert_eq!(cluster.connections("ana"), std::slice::from_ref(&new.id));
    assert_eq!(cluster.hash(&format!("connection:{}", new.id))["node"], node2.id);
    assert!(cluster.lease_end(&new).is_some());
    assert_eq!(cluster.lease_end(&old), None);
    assert!(cluster.hash(&format!("connection:{}", old.id)).is_empty());
}

#[tokio::test]
async fn v41_multi_device_routing_delivers_to_all_servers() {
    let cluster = Cluster::start(3).await;
    let [node1, node2, node3] = cluster.all();
    let chat = node3.create_group("bo", &["ana"]).await;
    let (mut phone, _) = node1.device("ana", "phone").await;
    let (mut laptop, _) = node2.device("ana", "laptop").await;
    let mut bo = node3.connect("bo").await;
    assert_eq!(cluster.routes("ana"), routes_to(&[&node1.id, &node2.id]));
    let monitor = LinkMonitor::on(&cluster, &[node1, node2]).await;
    bo.send_acked(&chat, "m1", "to both of them").await;
    phone.receives("to both of them").await;
    laptop.receives("to both of them").await;
    for node in [node1, node2] {
        monitor.receives(&node.id, "to both of them", SLACK).await;
    }
}

#[tokio::test]
async fn v41_a_message_to_a_dead_server_is_delivered_by_sync() {
    let mut cluster = Cluster::start(2).await;
    let chat = cluster.node(1).create_group("bo", &["ana"]).await;
    let mut bo = cluster.node(1).connect("bo").await;
    let (_lost, connection) = cluster.node(0).device("ana", "phone").await;
    let dead = cluster.lose(0).await;
    bo.send_acked(&chat, "m1", "to nobody").await;
    assert_eq!(cluster.routed_nodes("ana"), [dead], "the entry is stale, and the send goes on");
    let is_over =
        async || cluster.routes("ana").is_empty() && cluster.lease_end(&connection).is_none();
    eventually("the entry ends", LEASE + SWEEP + SLACK, is_over).await;
    let [node2] = cluster.all();
    let (mut ana, _) = node2.device("ana", "phone").await;
    assert_eq!(ana.manifest_of(&chat).await, Some((1, 0)));
    let page = ana.sync(&chat, 0, None).await;
    assert_eq!(page["messages"][0]["content"], "to nobody", "{page}");
}

// === 4.2 Presence ===

#[tokio::test]
async fn v42_the_first_connection_transitions_to_online() {
    let cluster = Cluster::start(2).await;
    let [node1, node2] = cluster.all();
    let mut bo = node2.connect("bo").await;
    bo.subscribe(&["ana", SENTINEL]).await;
    let _ana = node1.connect("ana").await;
    is_known(&bo.presence("ana", "online").await, "ana", "online");
    let stored = cluster.hash("user_presence:ana");
    assert_eq!(stored["status"], "online");
    assert_eq!(stored.get("last_seen"), None);
    node1.receives_nothing_else(&mut bo).await;
}

#[tokio::test]
async fn v42_the_last_connection_transitions_to_offline() {
    let cluster = Cluster::start(2).await;
    let [node1, node2] = cluster.all();
    let mut bo = node2.connect("bo").await;
    let ana = node1.connect("ana").await;
    bo.subscribe(&["ana", SENTINEL]).await;
    let left_at = Clock::system().wall().to_string();
    ana.leaves().await;
    let offline = bo.presence("ana", "offline").await;
    is_known(&offline, "ana", "offline");
    let last_seen = offline["last_seen"].as_str().unwrap();
    assert!((left_at.as_str()..=Clock::system().wall().to_string().as_str()).contains(&last_seen));
    assert_eq!(cluster.hash("user_presence:ana")["status"], "offline");
    node1.receives_nothing_else(&mut bo).await;
}

#[tokio::test]
async fn v42_multi_device_keeps_the_user_online() {
    let cluster = Cluster::start(2).await;
    let [node1, node2] = cluster.all();
    let mut bo = node2.connect("bo").await;
    let (phone, gone) = node1.device("ana", "phone").await;
    let (_laptop, kept) = node2.device("ana", "laptop").await;
    bo.subscribe(&["ana", SENTINEL]).await;
    phone.leaves().await;
    node1.receives_nothing_else(&mut bo).await;
    assert_eq!(cluster.hash("user_presence:ana")["status"], "online");
    assert_eq!(cluster.connections("ana"), std::slice::from_ref(&kept.id));
    assert_eq!((cluster.lease_end(&gone), cluster.lease_end(&kept).is_some()), (None, true));
    is_known(&node1.knows("bo", &["ana"]).await[0], "ana", "online");
}

#[tokio::test]
async fn v42_presence_staleness_is_bounded_by_the_window() {
    let cluster = Cluster::start(2).await;
    let [node1, node2] = cluster.all();
    let _cy = node1.connect("cy").await;
    let ana = node1.connect("ana").await;
    is_known(&node2.knows("bo", &["ana"]).await[0], "ana", "online");
    let left_at = now();
    ana.leaves().await;
    let is_offline = async || node2.seen("bo", "ana").await["status"] == "offline";
    eventually("the other node says so", Duration::from_secs(14), is_offline).await;
    let seen = node2.knows("bo", &["ana"]).await.remove(0);
    is_known(&seen, "ana", "offline");
    // Longer than anything that the document's keys would have lasted.
    sleep_until(left_at + Duration::from_secs(21)).await;
    for node in [node1, node2] {
        let known = node.knows("bo", &["ana", "cy"]).await;
        assert_eq!(known[0], seen);
        is_known(&known[1], "cy", "online");
    }
}

// === 4.3 Failure modes ===

#[tokio::test]
async fn v43_redis_unavailable_degrades_to_broadcast_routing() {
    let cluster = Cluster::start(3).await;
    let [node1, node2, node3] = cluster.all();
    let chat = node1.create_group("bo", &["ana"]).await;
    let mut bo = node1.connect("bo").await;
    let phone = RecordingSocket::of(node2.device("ana", "phone").await.0);
    let laptop = RecordingSocket::of(node3.device("ana", "laptop").await.0);
    let stranger = RecordingSocket::of(node3.connect("stranger").await);
    cluster.stop_redis();
    bo.send_acked(&chat, "m1", "without Redis").await;
    for device in [&phone, &laptop] {
        device.receives_message("without Redis", SLACK).await;
    }
    assert!(node1.metric("fanout_broadcasts_total").await > 0.0);
    assert!(!stranger.received().iter().any(|received| received.frame["type"] == "message"));
    assert!(bo.page(&chat, 0, None).await.0 == [1], "and it is stored once");
}

#[tokio::test]
async fn v43_redis_recovery_rebuilds_state() {
    let cluster = Cluster::start(2).await;
    let [node1, node2] = cluster.all();
    let names: Vec<String> = (0..20).map(|number| format!("user-{number}")).collect();
    let mut sockets = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let node = [node1, node2][number % 2];
        sockets.push(RecordingSocket::of(node.connect(name).await));
    }
    cluster.stop_redis();
    sleep(Duration::from_secs(6)).await;
    cluster.redis.restart();
    let is_rebuilt = async || {
        let node_of = |number: usize| [node1, node2][number % 2].id.as_str();
        names
            .iter()
            .enumerate()
            .all(|(number, name)| cluster.routes(name) == routes_to(&[node_of(number)]))
    };
    eventually("every route is there again", LEASE, is_rebuilt).await;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for node in [node1, node2] {
        for (seen, name) in node.knows("observer", &names).await.iter().zip(&names) {
            is_known(seen, name, "online");
        }
    }
    assert!(sockets.iter().all(RecordingSocket::is_open), "nobody was cut");
}

#[tokio::test]
async fn v43_split_brain_is_prevented_by_unique_connection_ids() {
    let mut cluster = Cluster::start(2).await;
    let (mut phone, old) = cluster.node(0).device("ana", "phone").await;
    let (_tablet, tablet) = cluster.node(0).device("ana", "tablet").await;
    let [_, node2] = cluster.all();
    let (_phone_again, new) = node2.device("ana", "phone").await;
    assert_ne!(old.id, new.id);
    assert_eq!(cluster.lease_end(&old), None, "replaced in the same step");
    assert!(cluster.hash(&format!("connection:{}", old.id)).is_empty());
    phone.closes("session_replaced", 4409).await;
    cluster.lose(0).await;
    let [node2] = cluster.all();
    let (_tablet_again, newer) = node2.device("ana", "other-tablet").await;
    assert_ne!(tablet.id, newer.id);
    let mut expected = vec![new.id.clone(), newer.id.clone()];
    expected.sort();
    let is_over = async || cluster.connections("ana") == expected;
    eventually("the lost connection ends with its lease", LEASE + SWEEP + SLACK, is_over).await;
    assert!(cluster.hash(&format!("connection:{}", tablet.id)).is_empty());
    let page = node2.admin("GET", "/v1/admin/users/ana/connections").await;
    let node_of = |item: &Value| item["node"].as_str().unwrap().to_owned();
    let nodes: Vec<String> = page["items"].as_array().unwrap().iter().map(node_of).collect();
    assert_eq!(nodes, [node2.id.as_str(), node2.id.as_str()]);
}
