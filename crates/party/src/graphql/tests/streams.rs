//! Subscriptions: their beginning, their end and their encoding.

use std::time::Duration;

use heartline_runtime::Clock;
use serde_json::json;
use tokio::time::timeout;

use super::{MEMBERS, QUEUE, Reply, World, item};

#[tokio::test]
async fn a_subscription_that_comes_before_its_join_waits_for_it() {
    let world = World::of(1).await;
    let client = world.connect(0, None);
    let (mut queue, mut members) = (client.queue("party-1"), client.members("party-1"));
    let early = timeout(
        Duration::from_millis(200),
        futures_util::future::join(queue.reply(), members.reply()),
    );
    assert!(early.await.is_err(), "no event comes before the join");
    let (mut queue, mut members) = (client.queue("party-1"), client.members("party-1"));
    let ((), (), first) = tokio::join!(
        async { assert_eq!(queue.event().await["__typename"], "FullSync") },
        async { assert_eq!(members.names(2).await, ["UserJoined", "LeaderChanged"]) },
        client.join("party-1"),
    );
    assert_eq!(first["isLeader"], true);
}

#[tokio::test]
async fn a_subscription_that_is_not_allowed_is_refused_at_once() {
    let world = World::of(1).await;
    let [client] = world.party("party-1").await;
    let started = Clock::system().now();
    for query in [QUEUE, MEMBERS] {
        let reply = client.reply(query, json!({ "id": "party-2" })).await;
        assert!(matches!(reply, Reply::Error(_)));
        let (code, message) = super::refusal(&reply);
        assert_eq!(
            (code.as_str(), message.as_str()),
            ("NOT_A_MEMBER", "Unauthorized: session mismatch")
        );
        let (code, _) = world.http(Some("alice")).refusal(query, json!({ "id": "party-1" })).await;
        assert_eq!(code, "NOT_A_MEMBER");
    }
    assert!(started.elapsed() < Duration::from_secs(3), "neither call waited");
}

#[tokio::test]
async fn a_subscription_without_a_join_is_rejected_after_six_seconds() {
    let world = World::of(1).await;
    let started = Clock::system().now();
    let (code, _) = world.connect(0, None).refusal(QUEUE, json!({ "id": "party-1" })).await;
    assert_eq!(code, "NOT_A_MEMBER");
    assert!(started.elapsed() >= Duration::from_secs(6));
}

#[tokio::test]
async fn a_subscription_begins_with_the_members_and_the_leader() {
    let world = World::of(1).await;
    let [leader, other] = world.party("party-1").await;
    let mut stream = other.members("party-1");
    let (one, two, leads) = (stream.event().await, stream.event().await, stream.event().await);
    assert_eq!(one["user"]["id"], json!(leader.id()));
    assert_eq!(two["user"]["id"], json!(other.id()));
    assert_eq!(leads["leaderId"], json!(leader.id()));
    assert_eq!(one["sequence"], json!(null), "a snapshot has no number");
    let third = world.connect(0, None);
    third.join("party-1").await;
    let joined = stream.event().await;
    assert_eq!(joined["user"]["id"], json!(third.id()));
    assert_eq!(joined["sequence"], 4, "two joins and an election came before");
}

#[tokio::test]
async fn a_closed_connection_is_removed_and_its_streams_end() {
    let world = World::of(1).await;
    let [client, other] = world.party("party-1").await;
    let (mut own, mut others) = (client.queue("party-1"), other.members("party-1"));
    own.event().await;
    others.names(3).await;
    let id = client.id();
    client.close().await;
    assert_eq!(own.reply().await, None);
    assert_eq!(others.event().await["userId"], json!(id));
    client.close().await;
    assert_eq!(client.refusal(super::JOIN, json!({ "id": "party-1" })).await.0, "NOT_A_MEMBER");
}

#[tokio::test]
async fn a_join_that_its_caller_dropped_is_undone_when_the_connection_closes() {
    let world = World::of(1).await;
    let [watcher] = world.party("party-1").await;
    let mut stream = watcher.members("party-1");
    stream.names(2).await;
    let client = world.connect(0, None);
    let mut joining = client.run(super::JOIN, json!({ "id": "party-1" }));
    // The join is sent, and then dropped before its reply.
    let _ = timeout(Duration::ZERO, joining.reply()).await;
    drop(joining);
    let joined = stream.event().await;
    client.close().await;
    assert_eq!(stream.event().await["userId"], joined["user"]["id"]);
}

/// Twenty subscribers with the same document share the same bytes.
#[tokio::test]
async fn an_event_is_encoded_once_for_all_subscribers_with_the_same_document() {
    let world = World::of(1).await;
    let clients: [_; 20] = world.party("party-1").await;
    let mut streams: Vec<_> = clients.iter().map(|client| client.queue("party-1")).collect();
    for stream in &mut streams {
        stream.event().await;
    }
    let set = "mutation($queue: [ClimbQueueItemInput!]!) { setQueue(queue: $queue) { sequence } }";
    let queue: Vec<_> = (1..=100).map(item).collect();
    for number in 500..505 {
        clients[0].add(number).await;
        same_bytes(&mut streams).await;
    }
    clients[0].ask(set, json!({ "queue": queue })).await;
    same_bytes(&mut streams).await;
}

async fn same_bytes(streams: &mut [super::Replies]) {
    let mut first = None;
    for stream in streams {
        let Some(Reply::Next(bytes)) = stream.reply().await else { panic!("there is an event") };
        let address = *first.get_or_insert(bytes.as_ptr());
        assert_eq!(bytes.as_ptr(), address, "it was encoded again");
    }
}
