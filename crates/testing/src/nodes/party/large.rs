//! A queue of the largest allowed size.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::PATIENCE;
use crate::party::{ADD, Outcome, PartyClient, item, uuid};

/// The number of items of the largest queue.
const ITEMS: usize = 500;

/// The size of each item; together they have 3 MiB.
const ITEM_BYTES: usize = 6_300;

const JOIN: &str = "mutation($queue: [ClimbQueueItemInput!]) { joinSession(sessionId: \"wall\",
    boardPath: \"/board/1\", initialQueue: $queue) { queueState { sequence orderHash
    queue { uuid climb { litUpHoldsMap } } } } }";
const SET_QUEUE: &str = "mutation($queue: [ClimbQueueItemInput!]!) { setQueue(queue: $queue,
    correlationId: \"set\") { sequence orderHash queue { uuid } } }";

/// A numbered item of about this size.
pub fn large_item(number: usize, bytes: usize) -> Value {
    let mut item = item(number);
    let rest = bytes - item.to_string().len();
    let holds: Vec<String> = (0..rest / 50).map(|hold| format!("{hold:047}")).collect();
    item["climb"]["litUpHoldsMap"] = json!(holds);
    item
}

/// The message of an outcome that must be a rejection with this code.
pub fn message_of(outcome: &Outcome, expected: &str) -> String {
    match outcome {
        Outcome::Refused(code, message) if code == expected => message.clone(),
        other => panic!("not refused with {expected}: {other:?}"),
    }
}

/// Asserts that the nodes accept and deliver the largest queue (as the initial queue, by `setQueue`
/// and in a `FullSync`), and reject one item more.
pub async fn assert_large_queue_is_served(nodes: &[SocketAddr]) {
    let queue = |first: usize| -> Vec<Value> {
        (first..first + ITEMS).map(|number| large_item(number, ITEM_BYTES)).collect()
    };
    let bytes = json!(queue(0)).to_string().len();
    assert!((3 << 20..4 << 20).contains(&bytes), "{bytes}");
    let mut ana = PartyClient::connect(nodes[0], None).await;
    let seeded =
        run_with_retry(&mut ana, JOIN, json!({ "queue": queue(0) })).await["queueState"].clone();
    assert_eq!((&seeded["sequence"], length(&seeded["queue"])), (&json!(1), ITEMS));
    for (item, sent) in seeded["queue"].as_array().unwrap().iter().zip(queue(0)) {
        assert_eq!(
            item["climb"]["litUpHoldsMap"], sent["climb"]["litUpHoldsMap"],
            "the whole item"
        );
    }
    let mut bo = PartyClient::connect(nodes[nodes.len() - 1], None).await;
    let joined = run_with_retry(&mut bo, JOIN, json!({})).await;
    assert_eq!(joined["queueState"], seeded, "the whole queue, on any node");
    let stream = bo.follows_queue("wall").await;
    let first = bo.event(&stream).await;
    assert_eq!(first["state"]["orderHash"], seeded["orderHash"]);
    assert_eq!(length(&first["state"]["queue"]), ITEMS);

    let set = run_with_retry(&mut ana, SET_QUEUE, json!({ "queue": queue(1000) })).await;
    assert_eq!((&set["sequence"], length(&set["queue"])), (&json!(2), ITEMS));
    let event = bo.event(&stream).await;
    assert_eq!((&event["__typename"], &event["sequence"]), (&json!("FullSync"), &json!(2)));
    assert_eq!(event["state"]["orderHash"], set["orderHash"]);

    let mut more = queue(1000);
    more.push(item(1));
    for refused in [
        ana.attempt(SET_QUEUE, json!({ "queue": more }), PATIENCE).await,
        bo.attempt(ADD, json!({ "item": item(1) }), PATIENCE).await,
    ] {
        let message = message_of(&refused, "MESSAGE_TOO_LARGE");
        assert!(message.contains("Queue too large"), "{message}");
    }
    // A small edit of a large queue is sent as a small event.
    const REMOVE: &str = "mutation($u: ID!) { removeQueueItem(uuid: $u) }";
    assert_eq!(run_with_retry(&mut ana, REMOVE, json!({ "u": uuid(1000) })).await, true);
    let event = bo.event(&stream).await;
    assert_eq!((&event["__typename"], &event["sequence"]), (&json!("QueueItemRemoved"), &json!(3)));
}

/// Runs a mutation, retries while the server is busy, and returns its only field.
async fn run_with_retry(party_client: &mut PartyClient, query: &str, variables: Value) -> Value {
    loop {
        match party_client.attempt(query, variables.clone(), PATIENCE).await {
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
