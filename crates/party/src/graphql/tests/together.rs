//! Edits that wait for the same session at the same moment.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{ADD, World, item, uuid};
use crate::room::store::{Notice, Revision, SessionStore};

const SET: &str =
    "mutation($queue: [ClimbQueueItemInput!]!) { setQueue(queue: $queue) { sequence } }";

/// How many commits led to the session.
async fn commits(world: &World) -> u64 {
    let revisions = world.store.revisions(&["party-1".to_owned()]).await.unwrap();
    revisions[0].unwrap().version
}

#[tokio::test]
async fn edits_that_wait_together_are_one_commit_and_each_is_heard_and_answered() {
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
        assert_eq!(added["addQueueItem"]["uuid"], uuid(index as u32 + 1), "each has its answer");
    }
    assert_eq!(commits(&world).await, before + 1);
    for stream in &mut streams {
        let mut named = Vec::new();
        for sequence in 1..=20 {
            let event = stream.event().await;
            assert_eq!(event["sequence"], sequence);
            let name = event["correlationId"].as_str().unwrap().to_owned();
            let number: usize = name["edit-".len()..].parse().unwrap();
            assert_eq!(event["clientId"], clients[number % 5].id(), "it is its author's");
            named.push(name);
        }
        named.sort_unstable_by_key(|name| name["edit-".len()..].parse::<usize>().unwrap());
        assert_eq!(named, (1..=20).map(|number| format!("edit-{number}")).collect::<Vec<_>>());
    }
    let again = json!({ "item": item(7), "correlation": "edit-7" });
    let first: Value = clients[2].ask(ADD, again).await;
    assert_eq!(first["addQueueItem"]["uuid"], uuid(7));
    assert_eq!(commits(&world).await, before + 1, "a name is remembered for each of them");
}

#[tokio::test]
async fn a_whole_queue_among_others_is_one_picture_after_all_of_them() {
    let world = World::of(1).await;
    let [client] = world.party("party-1").await;
    let mut stream = client.queue("party-1");
    stream.event().await;
    let queue: Vec<_> = (1..=3).map(item).collect();
    let set = async { client.ask(SET, json!({ "queue": queue })).await };
    tokio::join!(client.add(10), set, client.add(11));
    let picture = stream.event().await;
    assert_eq!((&picture["__typename"], &picture["sequence"]), (&json!("FullSync"), &json!(3)));
    assert_eq!(picture["state"]["queue"].as_array().unwrap().len(), 4);
    client.add(12).await;
    assert_eq!(stream.event().await["sequence"], 4, "nothing is heard twice");
}

#[tokio::test]
async fn what_a_node_hears_of_others_leaves_place_for_what_its_members_ask() {
    let world = World::of(2).await;
    let [client] = world.party("party-1").await;
    let rooms = &world.nodes[0].0.rooms;
    // More than waits in one room, and nobody can read any of it meanwhile.
    for version in 1..3000 {
        let (session_id, revision) = ("party-1".to_owned(), Revision { incarnation: 0, version });
        rooms.on_notice(Notice::Committed { session_id, revision, entry: None });
    }
    client.add(1).await;
}
