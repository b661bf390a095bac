//! Presence across nodes for members of shared active chats, and for users who reconnect soon.

use std::time::Duration;

use heartline_testing::presence::{SENTINEL, is_known, is_presence};
use heartline_testing::token;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::nodes::{Cluster, LEASE, Node, SLACK, SWEEP, Setup, now};
use crate::recording_socket::RecordingSocket;

/// Deadline for presence events to members of a shared active chat.
const SOON: Duration = Duration::from_secs(1);

/// Creates a group with one recent message.
pub(crate) async fn active_group(node: &Node, owner: &str, members: &[&str]) {
    let chat = node.create_group(owner, members).await;
    let body = json!({ "client_message_id": "first", "content": "hello" });
    let path = format!("/v1/chats/{chat}/messages");
    let answer = node.http("POST", &path, &token(owner), Some(&body)).await;
    assert_eq!(answer.status, 201, "{answer:?}");
}

#[tokio::test]
async fn who_shares_an_active_chat_is_told_once_on_every_node() {
    let mut cluster = Cluster::start(3).await;
    let [node1, node2, node3] = cluster.all();
    active_group(node1, "ana", &["bo", "cy"]).await;
    active_group(node1, "eve", &["fay"]).await;
    let bo = RecordingSocket::of(node2.connect("bo").await);
    let cy = RecordingSocket::of(node3.connect("cy").await);
    let fay = RecordingSocket::of(node3.connect("fay").await);
    let is_online = |frame: &Value| is_presence(frame, "ana", "online");
    let is_offline = |frame: &Value| is_presence(frame, "ana", "offline");
    let came_at = now();
    let ana = node1.connect("ana").await;
    for recording in [&bo, &cy] {
        let told = recording.receives("the arrival", SOON * 2, is_online).await;
        is_known(&told.frame, "ana", "online");
        assert!(told.at - came_at <= SOON + SLACK / 2, "{:?}", told.at - came_at);
    }
    let left_at = now();
    ana.leaves().await;
    for recording in [&bo, &cy] {
        let told = recording.receives("the departure", SOON * 2, is_offline).await;
        assert!(told.at - left_at <= SOON + SLACK / 2, "{:?}", told.at - left_at);
    }
    // Only the node that detects a crash sends the presence event.
    let _ana = node1.connect("ana").await;
    cluster.lose(0).await;
    sleep(LEASE + SWEEP * 3).await;
    for recording in [&bo, &cy] {
        let told = recording.presence_of("ana");
        let statuses: Vec<&str> = told.iter().map(|it| it["status"].as_str().unwrap()).collect();
        assert_eq!(statuses, ["online", "offline", "online", "offline"]);
        let versions: Vec<u64> = told.iter().map(|it| it["version"].as_u64().unwrap()).collect();
        assert!(versions.is_sorted_by(|one, next| one < next), "{versions:?}");
    }
    assert!(fay.presence_of("ana").is_empty(), "who shares no chat is not told");
}

#[tokio::test]
async fn who_comes_back_within_the_linger_never_seemed_to_leave() {
    let cluster = Setup::nodes(3).set("presence.offline_linger", "4s").start().await;
    let [node1, node2, node3] = cluster.all();
    let mut bo = node3.connect("bo").await;
    let ana = node1.connect("ana").await;
    bo.subscribe(&["ana", SENTINEL]).await;
    let left_at = now();
    ana.leaves().await;
    sleep(Duration::from_millis(500)).await;
    let ana = node2.connect("ana").await;
    sleep(Duration::from_secs(6)).await;
    is_known(&node1.knows("bo", &["ana"]).await[0], "ana", "online");
    node1.receives_nothing_else(&mut bo).await;
    assert!(now() - left_at > Duration::from_secs(5), "a void test");
    let left_at = now();
    ana.leaves().await;
    let bo = RecordingSocket::of(bo);
    let is_offline = |frame: &Value| is_presence(frame, "ana", "offline");
    let told = bo.receives("the departure", Duration::from_secs(10), is_offline).await;
    let took = told.at - left_at;
    assert!(took >= Duration::from_secs(4), "{took:?}");
    assert!(took <= Duration::from_secs(4) + SWEEP + SLACK, "{took:?}");
}
