//! Edits of the queue, as their callers and other members see them.

use std::collections::BTreeSet;

use heartline_runtime::TaskSet;
use serde_json::{Value, json};

use super::{ADD, Client, World, item, uuid};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_concurrent_add_on_two_nodes_is_lost() {
    let world = World::of(2).await;
    let clients: Vec<Client> = (0..10).map(|number| world.connect(number % 2, None)).collect();
    for client in &clients {
        client.join("party-1").await;
    }
    let mut streams = [clients[0].queue("party-1"), clients[1].queue("party-1")];
    for stream in &mut streams {
        assert_eq!(stream.event().await["__typename"], "FullSync");
    }
    let mut adding = TaskSet::new();
    for (number, client) in clients.iter().enumerate() {
        let client = client.clone();
        adding.spawn(async move {
            for count in 0..50 {
                client.add((number * 50 + count) as u32).await;
            }
        });
    }
    while let Some(added) = adding.join_next().await {
        added.unwrap();
    }
    let mut received: Vec<Vec<Value>> = Vec::new();
    for stream in &mut streams {
        let mut events = Vec::new();
        while events.len() < 500 {
            events.push(stream.event().await);
        }
        received.push(events);
    }
    assert_eq!(received[0], received[1], "both nodes send the same events in the same order");
    let sequences: Vec<u64> =
        received[0].iter().map(|event| event["sequence"].as_u64().unwrap()).collect();
    assert_eq!(sequences, (1..=500).collect::<Vec<u64>>());
    let added = |event: &Value| event["addedItem"]["uuid"].as_str().unwrap().to_owned();
    let uuids: BTreeSet<String> = received[0].iter().map(added).collect();
    assert_eq!(uuids, (0..500).map(uuid).collect());
    let states: Vec<Value> =
        futures_util::future::join_all(clients.iter().map(|client| client.join("party-1")))
            .await
            .into_iter()
            .map(|mut session| session["queueState"].take())
            .collect();
    assert_eq!(states[0]["queue"].as_array().unwrap().len(), 500);
    assert!(states.iter().all(|state| *state == states[0]), "all members have the same queue");
    assert_eq!(states[0]["stateHash"], received[0][499]["stateHash"]);
    assert_eq!(states[0]["orderHash"], received[0][499]["orderHash"]);
}

#[tokio::test]
async fn every_delta_has_its_author_its_correlation_id_and_its_hashes() {
    let world = World::of(1).await;
    let [one, other] = world.party("party-1").await;
    let mut stream = other.queue("party-1");
    stream.event().await;
    one.ask(ADD, json!({ "item": item(1), "position": null, "correlation": "mine-1" })).await;
    let added = stream.event().await;
    assert_eq!(added["clientId"], json!(one.id()));
    assert_eq!(added["correlationId"], "mine-1");
    assert_eq!(added["position"], 0);
    let state = one.join("party-1").await["queueState"].take();
    assert_eq!(added["stateHash"], state["stateHash"]);
    assert_eq!(added["orderHash"], state["orderHash"]);
    // A repetition with the same correlation id is not performed again.
    one.ask(
        "mutation { removeQueueItem(uuid: \"00000001-0000-4000-8000-000000000000\") }",
        json!(null),
    )
    .await;
    one.ask(ADD, json!({ "item": item(1), "correlation": "mine-1" })).await;
    let state = one.join("party-1").await["queueState"].take();
    assert_eq!(state["queue"], json!([]));
}

#[tokio::test]
async fn a_null_argument_equals_a_missing_one() {
    let world = World::of(1).await;
    let [client] = world.party("party-1").await;
    let added = client.ask(ADD, json!({ "item": item(1), "position": null })).await;
    let climb = &added["addQueueItem"]["climb"];
    assert_eq!(climb["litUpHoldsMap"], json!({ "12": { "state": "HAND" } }));
    assert_eq!(climb["stars"], json!(3.0));
    let set = "mutation($item: ClimbQueueItemInput) { setCurrentClimb(item: $item) { uuid } }";
    let reply = client.ask(set, json!({ "item": item(1) })).await;
    assert_eq!(reply["setCurrentClimb"]["uuid"], json!(uuid(1)));
    for clear in [
        "mutation { setCurrentClimb { uuid } }",
        "mutation { setCurrentClimb(item: null, shouldAddToQueue: null) { uuid } }",
    ] {
        client.ask(set, json!({ "item": item(1) })).await;
        assert_eq!(client.ask(clear, json!(null)).await["setCurrentClimb"], json!(null));
        let state = client.join("party-1").await["queueState"].take();
        assert_eq!(state["currentClimbQueueItem"], json!(null));
    }
}

#[tokio::test]
async fn a_replay_is_all_later_events_or_one_full_sync() {
    let world = World::of(1).await;
    let [client] = world.party("party-1").await;
    let replay =
        "query($since: Int!) { eventsReplay(sessionId: \"party-1\", sinceSequence: $since) {
        currentSequence incarnation events { __typename ... on QueueItemAdded { sequence
            addedItem: item { uuid } } ... on FullSync { sequence state { queue { uuid } } } } } }";
    for number in 0..120 {
        client.add(number).await;
    }
    let ask = |since: i64| client.ask(replay, json!({ "since": since }));
    let reply = ask(117).await["eventsReplay"].take();
    assert_eq!(reply["currentSequence"], 120);
    let sequences: Vec<_> = reply["events"].as_array().unwrap().iter().collect();
    assert_eq!(sequences.len(), 3);
    assert_eq!(sequences[0]["sequence"], 118);
    assert_eq!(sequences[0]["addedItem"]["uuid"], json!(uuid(117)));
    for since in [0, 5, 500] {
        let reply = ask(since).await["eventsReplay"].take();
        assert_eq!(reply["events"].as_array().unwrap().len(), 1, "since {since}");
        assert_eq!(reply["events"][0]["__typename"], "FullSync");
        assert_eq!(reply["events"][0]["sequence"], 120);
    }
    assert_eq!(ask(120).await["eventsReplay"]["events"], json!([]));
    let (code, message) = client.refusal(replay, json!({ "since": -1 })).await;
    assert_eq!(code, "INVALID_MESSAGE");
    assert!(message.contains("Sequence cannot be negative"));
}

#[tokio::test]
async fn all_other_edits_return_their_results() {
    let world = World::of(1).await;
    let [client] = world.party("party-1").await;
    let mut stream = client.queue("party-1");
    stream.event().await;
    let set = "mutation($queue: [ClimbQueueItemInput!]!) { setQueue(queue: $queue) {
        sequence queue { uuid } } }";
    let reply = client.ask(set, json!({ "queue": [item(1), item(2), item(3)] })).await;
    assert_eq!(reply["setQueue"]["sequence"], 1);
    assert_eq!(reply["setQueue"]["queue"].as_array().unwrap().len(), 3);
    // A `FullSync` replaces events that were not read yet, so it is read first.
    assert_eq!(stream.names(1).await, ["FullSync"]);
    let (code, message) = client.refusal(set, json!({ "queue": [item(1), item(1)] })).await;
    assert_eq!(code, "INVALID_MESSAGE");
    assert!(message.contains("more than once"));
    let many: Vec<Value> = (0..501).map(item).collect();
    let (code, message) = client.refusal(set, json!({ "queue": many })).await;
    assert_eq!(code, "MESSAGE_TOO_LARGE");
    assert!(message.contains("Queue too large"));
    let current = "mutation($item: ClimbQueueItemInput) {
        setCurrentClimb(item: $item, shouldAddToQueue: true) { uuid } }";
    client.ask(current, json!({ "item": item(4) })).await;
    let mirror = "mutation { mirrorCurrentClimb(mirrored: true) { uuid climb { mirrored } } }";
    let reply = client.ask(mirror, json!(null)).await;
    assert_eq!(reply["mirrorCurrentClimb"]["climb"]["mirrored"], true);
    let reorder = "mutation($uuid: ID!, $new: Int!) {
        reorderQueueItem(uuid: $uuid, oldIndex: 0, newIndex: $new) }";
    client.ask(reorder, json!({ "uuid": uuid(4), "new": 0 })).await;
    let expected = ["QueueItemAdded", "CurrentClimbChanged", "ClimbMirrored", "QueueReordered"];
    assert_eq!(stream.names(4).await, expected);
    let (code, message) = client.refusal(reorder, json!({ "uuid": uuid(4), "new": 9 })).await;
    assert_eq!(code, "INVALID_MESSAGE");
    assert!(message.contains("queue has 4 items"));
    let (code, _) = client.refusal(reorder, json!({ "uuid": "nobody", "new": 1 })).await;
    assert_eq!(code, "NOT_FOUND", "the uuid selects the item");
    let replace = "mutation($uuid: ID!, $item: ClimbQueueItemInput!) {
        replaceQueueItem(uuid: $uuid, item: $item) { uuid } }";
    let (code, _) = client.refusal(replace, json!({ "uuid": uuid(9), "item": item(9) })).await;
    assert_eq!(code, "NOT_FOUND");
    client.ask(replace, json!({ "uuid": uuid(1), "item": item(9) })).await;
    let remove = "mutation($uuid: ID!) { removeQueueItem(uuid: $uuid) }";
    for _ in 0..2 {
        let reply = client.ask(remove, json!({ "uuid": uuid(9) })).await;
        assert_eq!(reply["removeQueueItem"], true);
    }
    assert_eq!(stream.names(2).await, ["FullSync", "QueueItemRemoved"]);
}
