//! Edits of the same session that wait at the same time.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{ADD, World, item, uuid};
use crate::room::store::{Notice, Revision, SessionStore};

const SET: &str =
    "mutation($queue: [ClimbQueueItemInput!]!) { setQueue(queue: $queue) { sequence } }";

/// The number of commits of the session.
async fn commits(world: &World) -> u64 {
    let revisions = world.store.revisions(&["party-1".to_owned()]).await.unwrap();
    revisions[0].unwrap().version
}

#[tokio::test]
async fn edits_that_wait_together_are_one_commit_with_an_event_and_a_result_each() {
    let world = World::of(2).await;
    let clients: [_; 5] = world.party("party-1").await;
    let far = world.connect(1, None);
    far.join("party-1").await;
    let mut streams = [clients[0].queue("party-1"), far.queue("party-1")];
    for stream in &mut streams {
        assert_eq!(stream.event().await["sequence"], 0);
    }
    let before = commits(&world).await;
    let adds = (1..=20_u32).map(|number| {
        let correlation = format!("edit-{number}");
        let variables = json!({ "item": item(number), "correlation": correlation });
        clients[number as usize % 5].ask(ADD, variables)
    });
    for (index, added) in join_all(adds).await.iter().enumerate() {
        assert_eq!(added["addQueueItem"]["uuid"], uuid(index as u32 + 1), "each has its result");
    }
    assert_eq!(commits(&world).await, before + 1);
    for stream in &mut streams {
        let mut named = Vec::new();
        for sequence in 1..=20 {
            let event = stream.event().await;
            assert_eq!(event["sequence"], sequence);
            let name = event["correlationId"].as_str().unwrap().to_owned();
            let number: usize = name["edit-".len()..].parse().unwrap();
            assert_eq!(event["clientId"], clients[number % 5].id(), "the author is right");
            named.push(name);
        }
        named.sort_unstable_by_key(|name| name["edit-".len()..].parse::<usize>().unwrap());
        assert_eq!(named, (1..=20).map(|number| format!("edit-{number}")).collect::<Vec<_>>());
    }
    let again = json!({ "item": item(7), "correlation": "edit-7" });
    let first: Value = clients[2].ask(ADD, again).await;
    assert_eq!(first["addQueueItem"]["uuid"], uuid(7));
    assert_eq!(commits(&world).await, before + 1, "every correlation id is remembered");
}

#[tokio::test]
async fn a_replaced_queue_among_other_edits_is_one_full_sync_after_all_of_them() {
    let world = World::of(1).await;
    let [client] = world.party("party-1").await;
    let mut stream = client.queue("party-1");
    stream.event().await;
    let queue: Vec<_> = (1..=3).map(item).collect();
    let set = async { client.ask(SET, json!({ "queue": queue })).await };
    tokio::join!(client.add(10), set, client.add(11));
    let full_sync = stream.event().await;
    assert_eq!((&full_sync["__typename"], &full_sync["sequence"]), (&json!("FullSync"), &json!(3)));
    assert_eq!(full_sync["state"]["queue"].as_array().unwrap().len(), 4);
    client.add(12).await;
    assert_eq!(stream.event().await["sequence"], 4, "no event comes twice");
}

#[tokio::test]
async fn notices_of_other_nodes_leave_capacity_for_requests_of_members() {
    let world = World::of(2).await;
    let [client] = world.party("party-1").await;
    let rooms = &world.nodes[0].0.rooms;
    // More than the queue of a room holds; the room does not run meanwhile.
    for version in 1..3000 {
        let (session_id, revision) = ("party-1".to_owned(), Revision { incarnation: 0, version });
        rooms.on_notice(Notice::Committed { session_id, revision, entry: None });
    }
    client.add(1).await;
}
