//! A node that is paused and resumed, and nodes whose clocks are wrong.

use std::time::Duration;

use heartline_protocol::Timestamp;
use heartline_runtime::Clock;
use heartline_testing::presence::{SENTINEL, is_known, is_presence};
use heartline_testing::{PATIENCE, Socket, eventually, seconds_from_now, sign};
use serde_json::{Value, json};
use tokio::time::{sleep, sleep_until};

use crate::directory::Connection;
use crate::nodes::{Cluster, LEASE, Node, SLACK, SWEEP, Setup, now};
use crate::recording_socket::RecordingSocket;

/// The duration of the pause.
const PAUSE: Duration = Duration::from_secs(20);

/// Longer than the delay with which a last-seen time is stored.
const WRITTEN: Duration = Duration::from_secs(7);

#[tokio::test]
async fn a_node_that_stands_still_is_seen_to_leave_and_finds_itself_again() {
    let cluster = Cluster::start(3).await;
    let [node1, node2, node3] = cluster.all();
    let chat = node2.create_group("bo", &["ana", "cy"]).await;
    // Ana is only on the node that stops, cy is elsewhere too.
    let mut ana = RecordingSocket::of(node1.device("ana", "phone").await.0);
    let mut cy_here = RecordingSocket::of(node1.device("cy", "phone").await.0);
    let mut cy_there = RecordingSocket::of(node2.device("cy", "laptop").await.0);
    let mut bo = node2.connect("bo").await;
    let mut observer = node3.connect("observer").await;
    observer.subscribe(&["ana", "cy"]).await;
    let observer = RecordingSocket::of(observer);
    node1.signal("STOP").await;
    let stopped_at = now();
    let is_gone = |frame: &Value| is_presence(frame, "ana", "offline");
    let left = observer.receives("the departure", LEASE + SWEEP + SLACK, is_gone).await;
    assert!(left.at >= stopped_at + LEASE - Duration::from_secs(6), "not before its lease ended");
    bo.send_acked(&chat, "m1", "meanwhile").await;
    cy_there.receives_message("meanwhile", SLACK).await;
    // Each of its leases runs out by itself, the last one at most so late.
    let is_forgotten = async || {
        let nodes = node2.admin("GET", "/v1/admin/nodes").await;
        let is_listed = nodes["items"].as_array().unwrap().len() != 2;
        !is_listed && cluster.routed_nodes("cy") == [node2.id.as_str()]
    };
    let forgotten_at = stopped_at + LEASE + SWEEP + SLACK;
    eventually("the node is forgotten", forgotten_at - now(), is_forgotten).await;
    sleep_until(stopped_at + PAUSE).await;
    node1.signal("CONT").await;
    let resumed_at = now();
    let is_back = |frame: &Value| is_presence(frame, "ana", "online");
    observer.receives("the return", LEASE, is_back).await;
    println!("seen again after {:?}", now() - resumed_at);
    // No connection was closed, and clients that may have missed a message were told to sync.
    let is_resync = |frame: &Value| frame["type"] == "resync_required";
    for recording in [&ana, &cy_here] {
        recording.receives("resync_required", LEASE, is_resync).await;
        assert!(recording.is_open());
    }
    let is_routed = async || cluster.routes("ana").len() == 1 && cluster.routes("cy").len() == 2;
    eventually("every connection is routed to again", LEASE, is_routed).await;
    bo.send_acked(&chat, "m2", "afterwards").await;
    for recording in [&mut ana, &mut cy_here, &mut cy_there] {
        recording.receives_live_or_by_sync(&chat, "afterwards", PATIENCE).await;
    }
    sleep(LEASE + SWEEP * 2).await;
    assert_eq!(observer.presence_of("ana").len(), 2, "{:#?}", observer.presence_of("ana"));
    assert_eq!(observer.presence_of("cy").len(), 0, "{:#?}", observer.presence_of("cy"));
    for node in [node1, node2, node3] {
        assert_eq!(node.readiness().await.0, 200);
        let known = node.knows("somebody", &["ana", "cy"]).await;
        is_known(&known[0], "ana", "online");
        is_known(&known[1], "cy", "online");
    }
}

/// Variables that move the clock that people read, and leave alone the one that timers use.
fn clock_moved(by: &str) -> Vec<(&str, &str)> {
    let library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
    assert!(std::path::Path::new(library).exists(), "on Debian, apt-get install faketime");
    vec![("LD_PRELOAD", library), ("FAKETIME", by), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")]
}

/// A socket with a token that is valid by any of the clocks.
async fn connect(node: &Node, user: &str) -> (Socket, Connection) {
    let token = sign(&json!({ "sub": user, "exp": seconds_from_now(48 * 3600) }));
    let bearer = format!("Bearer {token}");
    let (socket, established) = node.connect_with(&[("Authorization", &bearer)]).await;
    (socket, Connection::of(&established))
}

/// One node whose clock is an hour ahead, one whose clock is an hour behind, and one that is right.
async fn with_wrong_clocks() -> Cluster {
    let setup = Setup::nodes(3).environment(0, &clock_moved("+3600"));
    setup.environment(1, &clock_moved("-3600")).start().await
}

#[tokio::test]
async fn who_leaves_a_node_whose_clock_is_wrong_was_last_seen_now() {
    let cluster = with_wrong_clocks().await;
    let nodes: [&Node; 3] = cluster.all();
    let mut observer = connect(nodes[2], "observer").await.0;
    let mut told = Vec::new();
    for (node, user) in nodes.into_iter().zip(["ahead", "behind", "right"]) {
        let (leaver, _) = connect(node, user).await;
        assert_eq!(observer.subscribe(&[user]).await[0]["status"], "online");
        let before = Clock::system().wall().to_string();
        leaver.leaves().await;
        let offline = observer.presence(user, "offline").await;
        let last_seen = offline["last_seen"].as_str().unwrap();
        let after = Clock::system().wall().to_string();
        assert!((before.as_str()..=after.as_str()).contains(&last_seen), "{offline}, but {before}");
        told.push((user, last_seen.to_owned()));
    }
    // By then it is in the store, too.
    sleep(WRITTEN).await;
    for (user, last_seen) in told {
        let seen = nodes[2].seen("observer", user).await;
        assert_eq!(seen["last_seen"], last_seen, "{seen}");
    }
}

#[tokio::test]
async fn nodes_whose_clocks_are_an_hour_wrong_agree_with_the_others() {
    let mut cluster = with_wrong_clocks().await;
    let users = ["ahead", "behind", "right"];
    let mut sockets = Vec::new();
    for (number, user) in users.into_iter().enumerate() {
        sockets.push(connect(cluster.node(number), user).await);
    }
    let mut observer = connect(cluster.node(2), "observer").await.0;
    let snapshot = observer.subscribe(&[&users[..], &[SENTINEL]].concat()).await;
    assert!(snapshot[..3].iter().all(|seen| seen["status"] == "online"), "{snapshot:?}");

    // Nothing expires early: leases and nodes outlast several windows.
    sleep(LEASE + SWEEP * 5).await;
    let nodes: [&Node; 3] = cluster.all();
    nodes[2].receives_nothing_else(&mut observer).await;
    for (number, user) in users.into_iter().enumerate() {
        assert_eq!(cluster.routed_nodes(user), [nodes[number].id.as_str()]);
        let ends_at = cluster.lease_end(&sockets[number].1).unwrap();
        let left = ends_at as i64 - cluster.redis_ms() as i64;
        assert!((0..=LEASE.as_millis() as i64).contains(&left), "{user}: {left} ms");
    }

    // No route lives on.
    let mut observer = RecordingSocket::of(observer);
    for user in ["ahead", "behind"] {
        cluster.lose(0).await;
        let killed_at = now();
        let is_gone = |frame: &Value| is_presence(frame, user, "offline");
        let gone = observer.receives(user, LEASE + SWEEP + SLACK, is_gone).await;
        assert!(gone.at >= killed_at + LEASE - Duration::from_secs(6), "not early");
        let last_seen = gone.frame["last_seen"].as_str().unwrap().to_owned();
        let lease_ago = Timestamp { unix_ms: Clock::system().wall().unix_ms - 30_000 };
        assert!((lease_ago.to_string()..=Clock::system().wall().to_string()).contains(&last_seen));
        let is_over = async || cluster.routes(user).is_empty();
        eventually("its route is gone", SWEEP + SLACK, is_over).await;
    }
    observer.send(&json!({ "type": "heartbeat" })).await;
    assert!(observer.is_open());
}
