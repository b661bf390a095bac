//! Edits of many members on several nodes: none is lost, none is applied twice, and all members
//! have the same state.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use heartline_testing::party::crowd::add_concurrently;
use heartline_testing::party::large::assert_large_queue_is_served;
use heartline_testing::party::{Join, Outcome, PartyClient, item, uuid};
use heartline_testing::{PATIENCE, eventually};
use serde_json::{Value, json};

use crate::nodes::{Cluster, Network, Node, Setup, now};

/// Deadline for a node to detect a missed event.
const FOUND_OUT: Duration = Duration::from_secs(5);

pub(crate) const REPLAY: &str =
    "query($since: Int!) { eventsReplay(sessionId: \"wall\", sinceSequence: $since) {
    currentSequence events { __typename ... on FullSync { sequence state { ...State } }
    ... on QueueItemAdded { sequence } } } }";

/// Two members on two nodes, and the stream by which the second follows the queue.
async fn across(node1: &Node, node2: &Node) -> (PartyClient, PartyClient, String) {
    let mut ana = PartyClient::connect(node1.address, None).await;
    ana.joins("wall").await;
    let mut bo = PartyClient::connect(node2.address, None).await;
    bo.joins("wall").await;
    let stream = bo.follows_queue("wall").await;
    (ana, bo, stream)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_edits_at_once_are_all_there_on_one_node_and_on_two() {
    let cluster = Cluster::start(2).await;
    let [node1, node2] = cluster.all();
    add_concurrently(&[node1.address], "one").await;
    add_concurrently(&[node1.address, node2.address], "two").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_first_joins_with_a_queue_each_begin_one_session_with_one_queue() {
    const GUESTS: usize = 100;
    let cluster = Cluster::start(2).await;
    let nodes: Vec<_> = cluster.every().map(|node| node.address).collect();
    let mut guests = Vec::new();
    for number in 0..GUESTS {
        guests.push(PartyClient::connect(nodes[number % nodes.len()], None).await);
    }
    let joining = guests.iter_mut().enumerate().map(|(number, party_client)| async move {
        let seed = (0..3).map(|place| item(number * 10 + place)).collect();
        let current = Some(item(number * 10 + 9));
        let join = Join { queue: Some(seed), current, ..Join::default() };
        loop {
            match party_client.try_join("wall", join.clone(), PATIENCE).await {
                Outcome::Done(joined) => return joined,
                // So many concurrent edits may take longer than the deadline of one.
                Outcome::Refused(code, _) if code == "SERVICE_UNAVAILABLE" => {}
                other => panic!("{other:?}"),
            }
        }
    });
    let joined = join_all(joining).await;
    let queues: BTreeSet<String> =
        joined.iter().map(|joined| joined["queueState"].to_string()).collect();
    assert_eq!(queues.len(), 1, "one seed for everybody: {queues:?}");
    let state = &joined[0]["queueState"];
    assert_eq!(state["sequence"], 1);
    let uuids: Vec<&str> = state["queue"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|item| item["uuid"].as_str())
        .collect();
    let current = state["currentClimbQueueItem"]["uuid"].as_str().unwrap();
    let winner = (0..GUESTS).find(|number| current == uuid(number * 10 + 9)).unwrap();
    assert_eq!(uuids, (0..3).map(|place| uuid(winner * 10 + place)).collect::<Vec<_>>(), "whole");
    assert_eq!(joined.iter().filter(|joined| joined["isLeader"] == true).count(), 1);
    assert!(joined[winner]["isLeader"] == true, "whoever began it leads it");

    let seen = guests[0].joins("wall").await;
    let users = seen["users"].as_array().unwrap();
    let ids: BTreeSet<&str> = users.iter().filter_map(|user| user["id"].as_str()).collect();
    assert_eq!((users.len(), ids.len()), (GUESTS, GUESTS));
    assert_eq!(users.iter().filter(|user| user["isLeader"] == true).count(), 1);
    let row = || {
        let holds = format!("position(convert_to('{current}', 'UTF8') IN document) > 0");
        cluster.sql(&format!(
            "SELECT status, {holds} FROM heartline.party_archive WHERE session_id = 'wall'"
        ))
    };
    eventually("the new session is archived", PATIENCE, async || row().trim() == "0|t").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_on_another_node_has_no_hole_or_is_the_whole_state() {
    const LOG: u64 = 20;
    const EDITS: u64 = 30;
    let cluster = Setup::nodes(2).set("party.event_log_size", "20").start().await;
    let [node1, node2] = cluster.all();
    let (mut ana, mut bo, stream) = across(node1, node2).await;
    for number in 1..=EDITS {
        ana.adds(number as usize).await;
    }
    // A client from the node of the edits may be ahead of this node.
    let at_once = bo.run(REPLAY, json!({ "since": EDITS })).await["data"]["eventsReplay"].clone();
    assert_eq!(at_once, json!({ "currentSequence": EDITS, "events": [] }));
    bo.receives(&stream, "all edits", PATIENCE, |event| event["sequence"] == EDITS).await;
    for since in EDITS - LOG..EDITS {
        let replayed = bo.run(REPLAY, json!({ "since": since })).await;
        let replayed = &replayed["data"]["eventsReplay"];
        assert_eq!(replayed["currentSequence"], EDITS);
        let sequences: Vec<u64> = sequences_of(&replayed["events"]).collect();
        assert_eq!(sequences, (since + 1..=EDITS).collect::<Vec<_>>());
    }
    for since in [0, 1, EDITS - LOG - 1, EDITS + 1, 1_000_000] {
        let replayed = bo.run(REPLAY, json!({ "since": since })).await;
        is_whole(&replayed["data"]["eventsReplay"], EDITS);
    }
    let refused = bo.attempt(REPLAY, json!({ "since": -1 }), PATIENCE).await;
    let Outcome::Refused(code, message) = refused else { panic!("{refused:?}") };
    assert_eq!((code.as_str(), message.contains("negative")), ("INVALID_MESSAGE", true));
    // A replaced queue is not sent as single events.
    let set = "mutation { setQueue(queue: []) { sequence } }";
    assert_eq!(ana.run(set, json!({})).await["data"]["setQueue"]["sequence"], EDITS + 1);
    let replayed = bo.run(REPLAY, json!({ "since": EDITS + 1 })).await;
    assert_eq!(replayed["data"]["eventsReplay"]["events"], json!([]));
    let replayed = bo.run(REPLAY, json!({ "since": EDITS })).await;
    is_whole(&replayed["data"]["eventsReplay"], EDITS + 1);
    // A client that is no member receives nothing.
    let mut cy = PartyClient::connect(node2.address, None).await;
    cy.joins("elsewhere").await;
    let refused = cy.attempt(REPLAY, json!({ "since": 0 }), PATIENCE).await;
    assert!(matches!(&refused, Outcome::Refused(code, _) if code == "NOT_A_MEMBER"), "{refused:?}");
}

pub(crate) fn sequences_of(events: &Value) -> impl Iterator<Item = u64> {
    events.as_array().unwrap().iter().map(|event| event["sequence"].as_u64().unwrap())
}

fn is_whole(replayed: &Value, sequence: u64) {
    assert_eq!(replayed["currentSequence"], sequence);
    let events = replayed["events"].as_array().unwrap();
    assert_eq!((events.len(), &events[0]["__typename"]), (1, &json!("FullSync")), "{replayed}");
    assert_eq!(events[0]["sequence"], sequence);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_last_notification_is_found_out_without_another_edit() {
    let cluster = Setup::nodes(2).network(Network::Lossy).start().await;
    let [node1, node2] = cluster.all();
    let (mut ana, bo, stream) = across(node1, node2).await;
    ana.adds(1).await;
    bo.receives(&stream, "the first", PATIENCE, |event| event["sequence"] == 1).await;

    node2.lossy_network().lose_publication(&uuid(2));
    ana.adds(2).await;
    let edited_at = now();
    let received =
        bo.receives(&stream, "what was lost", PATIENCE, |event| event["sequence"] == 2).await;
    assert_eq!(node2.lossy_network().losses(), 1, "it was told once, and lost");
    let took = received.at - edited_at;
    println!("a lost notification was found out after {took:?}");
    assert!(took <= FOUND_OUT + Duration::from_secs(1), "{took:?}");
    let deltas =
        bo.events(&stream).into_iter().filter(|received| received.message["sequence"] == 2);
    assert_eq!(deltas.count(), 1, "and told once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_whose_answer_from_redis_is_lost_is_neither_refused_nor_done_twice() {
    // Done twice, it would be refused the second time: there is nothing to replace any more.
    const REPLACE: &str = "mutation($u: ID!, $item: ClimbQueueItemInput!, $id: ID) {
        replaceQueueItem(uuid: $u, item: $item, correlationId: $id) { uuid } }";
    let replaced = |number| Outcome::Done(json!({ "replaceQueueItem": { "uuid": uuid(number) } }));
    let cluster = Setup::nodes(2).network(Network::Lossy).start().await;
    let [node1, node2] = cluster.all();
    let (mut ana, mut bo, stream) = across(node1, node2).await;
    ana.adds(1).await;
    node1.lossy_network().lose_answer(&uuid(2));
    let variables = json!({ "u": uuid(1), "item": item(2) });
    assert_eq!(ana.attempt(REPLACE, variables, PATIENCE).await, replaced(2));
    assert_eq!(node1.lossy_network().losses(), 1, "the answer was lost");
    // A client that receives no response retries with the same correlation id.
    let variables = json!({ "u": uuid(2), "item": item(3), "id": "a name" });
    for _ in 0..2 {
        assert_eq!(ana.attempt(REPLACE, variables.clone(), PATIENCE).await, replaced(3));
    }
    let variables = json!({ "u": uuid(2), "item": item(3), "id": "another name" });
    let refused = ana.attempt(REPLACE, variables, PATIENCE).await;
    assert!(matches!(&refused, Outcome::Refused(code, _) if code == "NOT_FOUND"), "{refused:?}");
    bo.receives(&stream, "the last", PATIENCE, |event| event["sequence"] == 3).await;
    let state = bo.joins("wall").await["queueState"].clone();
    assert_eq!((&state["sequence"], &state["queue"][0]["uuid"]), (&json!(3), &json!(uuid(3))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_of_five_hundred_large_climbs_crosses_nodes() {
    let cluster = Cluster::start(2).await;
    let nodes: Vec<_> = cluster.every().map(|node| node.address).collect();
    assert_large_queue_is_served(&nodes).await;
}
