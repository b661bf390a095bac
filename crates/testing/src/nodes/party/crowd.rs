//! Members who all edit at once, and what every one of them must have seen afterwards.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::PATIENCE;
use crate::party::{ADD, Guest, item, uuid};

/// Members, and items that each adds without waiting for an answer.
const MEMBERS: usize = 10;
const ITEMS: usize = 50;
const ALL: usize = MEMBERS * ITEMS;

/// A member and its subscription.
struct Member {
    guest: Guest,
    stream: String,
}

/// Lets members that are spread over these nodes add 500 items at once. Every add must be
/// acknowledged, every item be there, and every member have seen every sequence once. Those who are
/// the only ones to commit are never given the whole state in between.
pub async fn adds_at_once(nodes: &[SocketAddr], session: &str) {
    let arriving = (0..MEMBERS).map(|number| arrive(nodes[number % nodes.len()], session));
    let mut members = join_all(arriving).await;
    let adding = members.iter_mut().enumerate().map(|(number, member)| add(member, number));
    join_all(adding).await;
    let mut hashes = BTreeSet::new();
    for member in &mut members {
        let last = member
            .guest
            .hears(&member.stream, "the last edit", PATIENCE, |event| event["sequence"] == ALL);
        last.await;
        hashes.insert(saw_all(&member.guest, &member.stream, nodes.len() == 1));
        hashes.insert(holds_all(&mut member.guest, session).await);
    }
    assert_eq!(hashes.len(), 1, "everybody has the same state: {hashes:?}");
}

async fn arrive(address: SocketAddr, session: &str) -> Member {
    let mut guest = Guest::arrive(address, None).await;
    guest.joins(session).await;
    let stream = guest.follows_queue(session).await;
    let first = guest.event(&stream).await;
    assert_eq!((&first["__typename"], &first["sequence"]), (&json!("FullSync"), &json!(0)));
    Member { guest, stream }
}

async fn add(member: &mut Member, number: usize) {
    let guest = &mut member.guest;
    let mut asked = Vec::new();
    for number in number * ITEMS..(number + 1) * ITEMS {
        asked.push((number, guest.begin(ADD, variables(number)).await));
    }
    for (number, id) in asked {
        let mut answer = guest.of(&id).await;
        // A machine that has more to do may need longer for all of them than one edit may take.
        while answer["payload"]["errors"][0]["extensions"]["code"] == "SERVICE_UNAVAILABLE" {
            let id = guest.begin(ADD, variables(number)).await;
            answer = guest.of(&id).await;
        }
        assert_eq!(answer["payload"]["data"]["addQueueItem"]["uuid"], uuid(number), "{answer}");
    }
}

/// The same again if it is asked for again.
fn variables(number: usize) -> Value {
    json!({ "item": item(number), "id": format!("add-{number}") })
}

/// Both hashes of a state or of a delta.
fn hashes_of(state: &Value) -> [String; 2] {
    ["stateHash", "orderHash"].map(|name| state[name].as_str().unwrap().to_owned())
}

/// Every sequence came once and in its turn; answers the hashes after the last.
fn saw_all(guest: &Guest, stream: &str, must_be_deltas: bool) -> [String; 2] {
    let mut last = 0;
    let mut hashes = Default::default();
    for heard in guest.events(stream).into_iter().skip(1) {
        let event = heard.message;
        let sequence = event["sequence"].as_u64().unwrap();
        let is_whole = event["__typename"] == "FullSync";
        assert!(!(is_whole && must_be_deltas), "{event}");
        let follows = if is_whole { sequence >= last } else { sequence == last + 1 };
        assert!(follows, "{sequence} after {last}: {event}");
        hashes = hashes_of(if is_whole { &event["state"] } else { &event });
        last = sequence;
    }
    assert_eq!(last, ALL as u64);
    hashes
}

/// Every item is there once; answers the hashes of the state.
async fn holds_all(guest: &mut Guest, session: &str) -> [String; 2] {
    const LOOK: &str = "mutation($s: ID!) { joinSession(sessionId: $s, boardPath: \"/board/1\") {
        queueState { sequence stateHash orderHash queue { uuid } } } }";
    let seen = guest.run(LOOK, json!({ "s": session })).await;
    let state = &seen["data"]["joinSession"]["queueState"];
    assert_eq!(state["sequence"], ALL, "{seen}");
    let queue = state["queue"].as_array().unwrap();
    let uuids: BTreeSet<&str> = queue.iter().map(|item| item["uuid"].as_str().unwrap()).collect();
    assert_eq!((queue.len(), uuids.len()), (ALL, ALL));
    assert!((0..ALL).all(|number| uuids.contains(uuid(number).as_str())));
    hashes_of(state)
}
