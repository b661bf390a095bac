//! Privacy across nodes: an observer who may no longer see a user sees nothing after one second, on
//! any node.

use std::time::Duration;

use heartline_testing::eventually;
use heartline_testing::presence::unknown;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::nodes::{Cluster, Node, Setup, now};
use crate::recording_socket::RecordingSocket;

/// How soon a change takes effect everywhere.
const SOON: Duration = Duration::from_secs(1);

/// Waits until the last presence event of a user has this status; it must arrive within a second.
async fn is_told(observer: &RecordingSocket, user: &str, status: &str, since: Instant) {
    let is_last =
        async || observer.presence_of(user).last().is_some_and(|seen| seen["status"] == status);
    eventually(&format!("{user} is told to be {status}"), SOON, is_last).await;
    assert!(now() - since <= SOON + Duration::from_millis(200), "{:?}", now() - since);
    let told = observer.presence_of(user);
    if status == "unknown" {
        let last = told.last().unwrap();
        assert_eq!(
            (last.get("version"), last.get("last_seen"), last.get("stale")),
            (None, None, None)
        );
    }
}

/// Whether an observer who asks this node sees a user; asked again for at most a second.
async fn is_seen(node: &Node, observer: &str, user: &str, status: &str) {
    let has_status = async || {
        tokio::time::sleep(Duration::from_millis(60)).await;
        node.seen(observer, user).await["status"] == status
    };
    eventually(&format!("{user} is seen {status} by {observer}"), SOON, has_status).await;
    if status == "unknown" {
        assert_eq!(node.seen(observer, user).await, unknown(user), "and nothing else");
    }
}

#[tokio::test]
async fn who_chooses_to_be_seen_by_nobody_is_unknown_on_another_node_at_once() {
    let cluster = Cluster::start(2).await;
    let [node1, node2] = cluster.all();
    let _ana = node1.connect("ana").await;
    let mut bo = node2.connect("bo").await;
    assert_eq!(bo.subscribe(&["ana"]).await[0]["status"], "online");
    let bo = RecordingSocket::of(bo);
    for _ in 0..3 {
        for (visibility, status) in [("nobody", "unknown"), ("everyone", "online")] {
            let since = now();
            node1.set_visibility("ana", visibility).await;
            is_told(&bo, "ana", status, since).await;
            is_seen(node2, "bo", "ana", status).await;
        }
    }
    // Chosen through the observer's node, it holds on the chooser's as well.
    node2.set_visibility("ana", "nobody").await;
    is_seen(node1, "bo", "ana", "unknown").await;
}

#[tokio::test]
async fn a_choice_that_is_made_again_is_told_although_it_was_stored_before() {
    let cluster = Cluster::start(2).await;
    let [node1, node2] = cluster.all();
    let _ana = node1.connect("ana").await;
    let mut bo = node2.connect("bo").await;
    assert_eq!(bo.subscribe(&["ana"]).await[0]["status"], "online");
    let bo = RecordingSocket::of(bo);
    // Whatever else makes a node look at them has passed.
    tokio::time::sleep(SOON).await;
    // The state that a node leaves if it crashes after storing the setting and before announcing
    // it.
    cluster.sql(
        "INSERT INTO heartline.users (user_id, visibility) VALUES ('ana', 2)
         ON CONFLICT (user_id) DO UPDATE SET visibility = 2",
    );
    let since = now();
    node1.set_visibility("ana", "nobody").await;
    is_told(&bo, "ana", "unknown", since).await;
}

#[tokio::test]
async fn who_is_a_contact_no_more_sees_nothing_on_another_node_at_once() {
    let cluster = Setup::nodes(2).set("presence.default_visibility", "contacts_only").start().await;
    let [node1, node2] = cluster.all();
    let _ana = node1.connect("ana").await;
    let mut bo = node2.connect("bo").await;
    let mut cy = node2.connect("cy").await;
    for observer in [&mut bo, &mut cy] {
        assert_eq!(observer.subscribe(&["ana"]).await, [unknown("ana")]);
    }
    let (bo, cy) = (RecordingSocket::of(bo), RecordingSocket::of(cy));
    for _ in 0..3 {
        node1.add_contact("ana", "bo").await;
        let since = now();
        node2.add_contact("bo", "ana").await;
        is_told(&bo, "ana", "online", since).await;
        is_seen(node2, "bo", "ana", "online").await;
        let since = now();
        node1.remove_contact("ana", "bo").await;
        is_told(&bo, "ana", "unknown", since).await;
        is_seen(node2, "bo", "ana", "unknown").await;
    }
    assert!(cy.presence_of("ana").is_empty(), "who was never a contact was never told");
}

#[tokio::test]
async fn whoever_hides_types_unseen_on_another_node() {
    let cluster = Cluster::start(2).await;
    let [node1, node2] = cluster.all();
    let chat = node1.create_group("ana", &["bo"]).await;
    let mut ana = node1.connect("ana").await;
    let bo = RecordingSocket::of(node2.connect("bo").await);
    let is_typing = |frame: &Value| frame["type"] == "typing_indicator";
    ana.types(&chat).await;
    let seen = bo.receives("typing", SOON * 5, is_typing).await;
    assert_eq!((&seen.frame["user_id"], &seen.frame["chat_id"]), (&json!("ana"), &json!(chat)));
    node1.set_visibility("ana", "nobody").await;
    tokio::time::sleep(SOON).await;
    ana.types(&chat).await;
    ana.send_acked(&chat, "m1", "after typing").await;
    bo.receives_message("after typing", SOON * 5).await;
    tokio::time::sleep(SOON).await;
    let indications = bo.received().iter().filter(|received| is_typing(&received.frame)).count();
    assert_eq!(indications, 1);
}
