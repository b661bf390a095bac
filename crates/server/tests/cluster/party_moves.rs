//! Members that resume on another node, and members that cannot.

use std::time::Duration;

use heartline_testing::party::{ADD, Join, PartyClient, item, uuid};
use heartline_testing::{PATIENCE, Proxy};
use serde_json::{Value, json};

use crate::nodes::{Cluster, Setup};
use crate::party_edits::{REMOVE, SET_QUEUE};
use crate::party_together::{REPLAY, sequences_of};

/// Deadline for the event that a member has left.
const HEARD: Duration = Duration::from_secs(2);

fn resumable(token: Option<&Value>) -> Join {
    let token = token.map(|token| token.as_str().unwrap().to_owned());
    Join { is_resumable: true, token, ..Join::default() }
}

/// The members that left, from the events that a member received.
fn left(party_client: &PartyClient, stream: &str) -> Vec<Value> {
    let events = party_client.events(stream).into_iter().map(|received| received.message);
    let left = events.filter(|event| event["__typename"] == "UserLeft");
    left.map(|event| event["userId"].clone()).collect()
}

/// The leaders after the first, from the events that a member received.
fn elected(party_client: &PartyClient, stream: &str) -> Vec<Value> {
    let events = party_client.events(stream).into_iter().map(|received| received.message);
    let elected = events.filter(|event| event["__typename"] == "LeaderChanged");
    elected.skip(1).map(|event| event["leaderId"].clone()).collect()
}

/// The numbers of what followed the first event of the queue.
async fn replayed(party_client: &mut PartyClient) -> Vec<u64> {
    let replayed = party_client.run(REPLAY, json!({ "since": 1 })).await;
    sequences_of(&replayed["data"]["eventsReplay"]["events"]).collect()
}

#[tokio::test]
async fn a_member_whose_old_socket_went_dark_comes_back_elsewhere_and_stays() {
    // A member that counts as absent is removed at once.
    let cluster = Setup::nodes(2).set("party.resume_grace", "0s").start().await;
    let [node1, node2] = cluster.all();
    let network = Proxy::to(node1.address).await;
    let mut ana = PartyClient::connect(network.address, None).await;
    let before = ana.joins_as("wall", resumable(None)).await;
    let mut bo = PartyClient::connect(node2.address, None).await;
    bo.joins("wall").await;
    let stream = bo.follows_session("wall").await;
    bo.receives(&stream, "who leads", PATIENCE, |event| event["leaderId"] == before["clientId"])
        .await;
    network.black_hole();
    let mut back = PartyClient::connect(node2.address, None).await;
    let after = back.joins_as("wall", resumable(Some(&before["resumeToken"]))).await;
    assert_eq!((&after["clientId"], &after["isLeader"]), (&before["clientId"], &json!(true)));
    assert_ne!(after["resumeToken"], before["resumeToken"]);
    // The node detects a lost connection after two unanswered pings.
    node1.logged(&["disconnected", "party"]).await;
    // A departure is processed a moment after the socket.
    back.adds(1).await;
    tokio::time::sleep(HEARD * 2).await;
    assert_eq!(left(&bo, &stream), Vec::<Value>::new());
    assert_eq!(elected(&bo, &stream), Vec::<Value>::new());
    let seen = bo.joins("wall").await;
    assert_eq!(seen["users"].as_array().unwrap().len(), 2);
    assert_eq!(seen["users"][0]["id"], before["clientId"]);
}

#[tokio::test]
async fn a_member_with_a_token_outlives_the_stop_of_its_node_and_one_without_leaves() {
    let mut cluster = Cluster::start(2).await;
    let [node1, node2] = cluster.all();
    let mut ana = PartyClient::connect(node1.address, None).await;
    let before = ana.joins_as("wall", resumable(None)).await;
    let mut cy = PartyClient::connect(node1.address, None).await;
    let party_client = cy.joins("wall").await["clientId"].clone();
    let mut bo = PartyClient::connect(node2.address, None).await;
    bo.joins("wall").await;
    let stream = bo.follows_session("wall").await;
    ana.adds(1).await;
    let elsewhere = node2.address;
    node1.signal("TERM").await;
    assert_eq!((ana.closed_with().await, cy.closed_with().await), (1012, 1012));
    let mut back = PartyClient::connect(elsewhere, None).await;
    let after = back.joins_as("wall", resumable(Some(&before["resumeToken"]))).await;
    assert_eq!((&after["clientId"], &after["isLeader"]), (&before["clientId"], &json!(true)));
    assert_eq!(after["queueState"]["queue"].as_array().unwrap().len(), 1);
    assert_eq!(cluster.node(0).exit_code().await, Some(0));
    bo.receives(&stream, "who left", HEARD, |event| event["userId"] == party_client).await;
    back.adds(2).await;
    // The node takes back its place among the nodes last of all: nothing follows from that.
    tokio::time::sleep(HEARD).await;
    assert_eq!(left(&bo, &stream), [party_client]);
    assert_eq!(elected(&bo, &stream), Vec::<Value>::new());
    let row = "SELECT position(convert_to('000000000001', 'UTF8') IN document) > 0 \
        FROM heartline.party_archive WHERE session_id = 'wall'";
    assert_eq!(cluster.sql(row).trim(), "t", "the node archived it before it went");
}

#[tokio::test]
async fn a_node_that_slept_does_not_bring_back_a_member_who_moved_and_left() {
    let cluster = Cluster::start(2).await;
    let [node1, node2] = cluster.all();
    let mut ana = PartyClient::connect(node1.address, None).await;
    let before = ana.joins_as("wall", resumable(None)).await;
    let mut bo = PartyClient::connect(node2.address, None).await;
    bo.joins("wall").await;
    let mut cy = PartyClient::connect(node2.address, None).await;
    cy.joins("wall").await;
    let stream = bo.follows_session("wall").await;
    node1.signal("STOP").await;
    // The node does not receive later what was published during its pause.
    cluster.redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    let named = json!({ "item": item(1), "id": "mine" });
    let slept = ana.begin(ADD, named.clone()).await;

    // Without a response she reconnects elsewhere, retries with the same correlation id, and
    // leaves.
    let mut back = PartyClient::connect(node2.address, None).await;
    let after = back.joins_as("wall", resumable(Some(&before["resumeToken"]))).await;
    assert_eq!(after["clientId"], before["clientId"]);
    let added = back.run(ADD, named).await;
    assert_eq!(added["data"]["addQueueItem"]["uuid"], uuid(1), "{added}");
    let removed = bo.run(REMOVE, json!({ "uuid": uuid(1) })).await;
    assert_eq!(removed["data"]["removeQueueItem"], true, "{removed}");
    back.leaves().await;
    // More than the log keeps: the node that slept must read the session whole.
    for number in 2..62 {
        bo.adds(number).await;
        cy.adds(number + 100).await;
    }
    node1.signal("CONT").await;
    let answer = ana.of(&slept).await;
    assert_eq!(answer["payload"]["errors"][0]["extensions"]["code"], "NOT_A_MEMBER", "{answer}");
    let seen = bo.joins("wall").await;
    let queue = seen["queueState"]["queue"].as_array().unwrap();
    assert_eq!(queue.len(), 120);
    assert!(queue.iter().all(|item| item["uuid"] != uuid(1)), "what was removed stays so");
    assert_eq!(seen["users"].as_array().unwrap().len(), 2);
    assert_eq!(left(&bo, &stream), [before["clientId"].clone()]);
}

#[tokio::test]
async fn what_was_asked_for_by_name_is_known_on_a_node_that_meets_the_session_first_then() {
    let cluster = Cluster::start(2).await;
    let [node1, node2] = cluster.all();
    let mut ana = PartyClient::connect(node1.address, None).await;
    let before = ana.joins_as("wall", resumable(None)).await;
    let mut bo = PartyClient::connect(node1.address, None).await;
    bo.joins("wall").await;
    let set = json!({ "queue": [item(1), item(2)], "id": "mine" });
    let is_set = ana.run(SET_QUEUE, set.clone()).await;
    assert_eq!(is_set["data"]["setQueue"]["sequence"], 1, "{is_set}");
    bo.adds(3).await;
    let mut back = PartyClient::connect(node2.address, None).await;
    let after = back.joins_as("wall", resumable(Some(&before["resumeToken"]))).await;
    assert_eq!(after["clientId"], before["clientId"]);
    let again = back.run(SET_QUEUE, set).await;
    assert_eq!(again["data"]["setQueue"]["sequence"], 2, "it was done before: {again}");
    // The member receives the missed changes as events, and the node kept the log for others.
    back.adds(4).await;
    assert_eq!(replayed(&mut back).await, [2, 3]);
    bo.adds(5).await;
    assert_eq!(replayed(&mut bo).await, [2, 3, 4]);
}

#[tokio::test]
async fn a_leader_who_leaves_or_whose_socket_closes_is_followed_within_two_seconds() {
    let cluster = Cluster::start(2).await;
    let [node1, node2] = cluster.all();
    let mut ana = PartyClient::connect(node1.address, None).await;
    ana.joins("wall").await;
    let mut bo = PartyClient::connect(node1.address, None).await;
    let bo_id = bo.joins("wall").await["clientId"].clone();
    let mut cy = PartyClient::connect(node2.address, None).await;
    let cy_id = cy.joins("wall").await["clientId"].clone();
    let stream = cy.follows_session("wall").await;
    cy.receives(&stream, "the beginning", PATIENCE, |event| event["__typename"] == "LeaderChanged")
        .await;
    ana.leaves().await;
    cy.receives(&stream, "the second leader", HEARD, |event| event["leaderId"] == bo_id).await;
    drop(bo);
    cy.receives(&stream, "the third leader", HEARD, |event| event["leaderId"] == cy_id).await;
    let told: Vec<Value> =
        cy.events(&stream).into_iter().map(|received| received.message).collect();
    let place = |kind: &str, id: &Value| {
        let is_it = |event: &Value| {
            event["__typename"] == kind && (event["userId"] == *id || event["leaderId"] == *id)
        };
        told.iter().position(is_it).unwrap()
    };
    assert!(place("UserLeft", &bo_id) < place("LeaderChanged", &cy_id), "{told:#?}");
}
