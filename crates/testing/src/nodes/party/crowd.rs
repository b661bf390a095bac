//! Members that edit concurrently, and the events that each must have received afterwards.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::PATIENCE;
use crate::party::{ADD, PartyClient, item, uuid};

/// The number of members, and of items that each adds without waiting for a response.
const MEMBERS: usize = 10;
const ITEMS: usize = 50;
const ALL: usize = MEMBERS * ITEMS;

/// A member and its subscription.
struct Member {
    party_client: PartyClient,
    stream: String,
}

/// Adds 500 items concurrently, by members that are spread over these nodes. Every add must be
/// acknowledged, every item stored, and every member must receive every sequence once. On a single
/// node no member may receive a full state in between.
pub async fn add_concurrently(nodes: &[SocketAddr], session: &str) {
    let joining = (0..MEMBERS).map(|number| join(nodes[number % nodes.len()], session));
    let mut members = join_all(joining).await;
    let adding = members.iter_mut().enumerate().map(|(number, member)| add(member, number));
    join_all(adding).await;
    let mut hashes = BTreeSet::new();
    for member in &mut members {
        let last =
            member.party_client.receives(&member.stream, "the last edit", PATIENCE, |event| {
                event["sequence"] == ALL
            });
        last.await;
        hashes.insert(assert_received_all(&member.party_client, &member.stream, nodes.len() == 1));
        hashes.insert(assert_stored_all(&mut member.party_client, session).await);
    }
    assert_eq!(hashes.len(), 1, "all members have the same state: {hashes:?}");
}

async fn join(address: SocketAddr, session: &str) -> Member {
    let mut party_client = PartyClient::connect(address, None).await;
    party_client.joins(session).await;
    let stream = party_client.follows_queue(session).await;
    let first = party_client.event(&stream).await;
    assert_eq!((&first["__typename"], &first["sequence"]), (&json!("FullSync"), &json!(0)));
    Member { party_client, stream }
}

async fn add(member: &mut Member, number: usize) {
    let party_client = &mut member.party_client;
    let mut requests = Vec::new();
    for number in number * ITEMS..(number + 1) * ITEMS {
        requests.push((number, party_client.begin(ADD, variables(number)).await));
    }
    for (number, id) in requests {
        let mut response = party_client.of(&id).await;
        // On a busy machine an edit may exceed its deadline; it is then retried.
        while response["payload"]["errors"][0]["extensions"]["code"] == "SERVICE_UNAVAILABLE" {
            let id = party_client.begin(ADD, variables(number)).await;
            response = party_client.of(&id).await;
        }
        assert_eq!(response["payload"]["data"]["addQueueItem"]["uuid"], uuid(number), "{response}");
    }
}

/// The variables of an add. They are the same for a retry.
fn variables(number: usize) -> Value {
    json!({ "item": item(number), "id": format!("add-{number}") })
}

/// Both hashes of a state or of a delta.
fn hashes_of(state: &Value) -> [String; 2] {
    ["stateHash", "orderHash"].map(|name| state[name].as_str().unwrap().to_owned())
}

/// Asserts that every sequence was received once and in order; returns the hashes after the last.
fn assert_received_all(
    party_client: &PartyClient,
    stream: &str,
    must_be_deltas: bool,
) -> [String; 2] {
    let mut last = 0;
    let mut hashes = Default::default();
    for received in party_client.events(stream).into_iter().skip(1) {
        let event = received.message;
        let sequence = event["sequence"].as_u64().unwrap();
        let is_full = event["__typename"] == "FullSync";
        assert!(!(is_full && must_be_deltas), "{event}");
        let follows = if is_full { sequence >= last } else { sequence == last + 1 };
        assert!(follows, "{sequence} after {last}: {event}");
        hashes = hashes_of(if is_full { &event["state"] } else { &event });
        last = sequence;
    }
    assert_eq!(last, ALL as u64);
    hashes
}

/// Asserts that every item is in the queue once; returns the hashes of the state.
async fn assert_stored_all(party_client: &mut PartyClient, session: &str) -> [String; 2] {
    const LOOK: &str = "mutation($s: ID!) { joinSession(sessionId: $s, boardPath: \"/board/1\") {
        queueState { sequence stateHash orderHash queue { uuid } } } }";
    let seen = party_client.run(LOOK, json!({ "s": session })).await;
    let state = &seen["data"]["joinSession"]["queueState"];
    assert_eq!(state["sequence"], ALL, "{seen}");
    let queue = state["queue"].as_array().unwrap();
    let uuids: BTreeSet<&str> = queue.iter().map(|item| item["uuid"].as_str().unwrap()).collect();
    assert_eq!((queue.len(), uuids.len()), (ALL, ALL));
    assert!((0..ALL).all(|number| uuids.contains(uuid(number).as_str())));
    hashes_of(state)
}
