//! Queues as large as they may be.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::PATIENCE;
use crate::party::{ADD, Guest, Outcome, item, uuid};

/// Items of the largest queue.
const ITEMS: usize = 500;

/// Bytes of each: together they have 3 MiB.
const ITEM_BYTES: usize = 6_300;

const JOIN: &str = "mutation($queue: [ClimbQueueItemInput!]) { joinSession(sessionId: \"wall\",
    boardPath: \"/board/1\", initialQueue: $queue) { queueState { sequence orderHash
    queue { uuid climb { litUpHoldsMap } } } } }";
const SET_QUEUE: &str = "mutation($queue: [ClimbQueueItemInput!]!) { setQueue(queue: $queue,
    correlationId: \"set\") { sequence orderHash queue { uuid } } }";

/// A numbered item that has about so many bytes.
pub fn large_item(number: usize, bytes: usize) -> Value {
    let mut item = item(number);
    let rest = bytes - item.to_string().len();
    let holds: Vec<String> = (0..rest / 50).map(|hold| format!("{hold:047}")).collect();
    item["climb"]["litUpHoldsMap"] = json!(holds);
    item
}

/// The sentence of a refusal with this code.
pub fn message_of(outcome: &Outcome, expected: &str) -> String {
    match outcome {
        Outcome::Refused(code, message) if code == expected => message.clone(),
        other => panic!("not refused with {expected}: {other:?}"),
    }
}

/// A seed, a `setQueue` and a `FullSync` of the largest queue go over sockets of these nodes, and
/// one item more does not.
pub async fn large_queue_is_served(nodes: &[SocketAddr]) {
    let queue = |first: usize| -> Vec<Value> {
        (first..first + ITEMS).map(|number| large_item(number, ITEM_BYTES)).collect()
    };
    let bytes = json!(queue(0)).to_string().len();
    assert!((3 << 20..4 << 20).contains(&bytes), "{bytes}");
    let mut ana = Guest::arrive(nodes[0], None).await;
    let seeded = insist(&mut ana, JOIN, json!({ "queue": queue(0) })).await["queueState"].clone();
    assert_eq!((&seeded["sequence"], length(&seeded["queue"])), (&json!(1), ITEMS));
    for (item, sent) in seeded["queue"].as_array().unwrap().iter().zip(queue(0)) {
        assert_eq!(item["climb"]["litUpHoldsMap"], sent["climb"]["litUpHoldsMap"], "all of it");
    }
    let mut bo = Guest::arrive(nodes[nodes.len() - 1], None).await;
    let joined = insist(&mut bo, JOIN, json!({})).await;
    assert_eq!(joined["queueState"], seeded, "all of it, on any node");
    let stream = bo.follows_queue("wall").await;
    let first = bo.event(&stream).await;
    assert_eq!(first["state"]["orderHash"], seeded["orderHash"]);
    assert_eq!(length(&first["state"]["queue"]), ITEMS);

    let set = insist(&mut ana, SET_QUEUE, json!({ "queue": queue(1000) })).await;
    assert_eq!((&set["sequence"], length(&set["queue"])), (&json!(2), ITEMS));
    let told = bo.event(&stream).await;
    assert_eq!((&told["__typename"], &told["sequence"]), (&json!("FullSync"), &json!(2)));
    assert_eq!(told["state"]["orderHash"], set["orderHash"]);

    let mut more = queue(1000);
    more.push(item(1));
    for refused in [
        ana.attempt(SET_QUEUE, json!({ "queue": more }), PATIENCE).await,
        bo.attempt(ADD, json!({ "item": item(1) }), PATIENCE).await,
    ] {
        let message = message_of(&refused, "MESSAGE_TOO_LARGE");
        assert!(message.contains("Queue too large"), "{message}");
    }
    // A small edit of a large queue is a small edit.
    const REMOVE: &str = "mutation($u: ID!) { removeQueueItem(uuid: $u) }";
    assert_eq!(insist(&mut ana, REMOVE, json!({ "u": uuid(1000) })).await, true);
    let event = bo.event(&stream).await;
    assert_eq!((&event["__typename"], &event["sequence"]), (&json!("QueueItemRemoved"), &json!(3)));
}

/// Runs a mutation to its end, also on a machine that has more to do and says to try again; answers
/// its only field.
async fn insist(guest: &mut Guest, query: &str, variables: Value) -> Value {
    loop {
        match guest.attempt(query, variables.clone(), PATIENCE).await {
            Outcome::Done(data) => {
                return data.as_object().unwrap().values().next().unwrap().clone();
            }
            Outcome::Refused(code, _) if code == "SERVICE_UNAVAILABLE" => {}
            other => panic!("{other:?}"),
        }
    }
}

fn length(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}
