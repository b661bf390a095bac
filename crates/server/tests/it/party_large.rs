//! Queues as large as they may be.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::PATIENCE;
use crate::party_guest::{ADD, Guest, Join, Outcome, item, uuid};

/// Items of the largest queue.
const ITEMS: usize = 500;

/// Bytes of each: together they have 3 MiB.
const ITEM_BYTES: usize = 6_300;

const SET_QUEUE: &str = "mutation($queue: [ClimbQueueItemInput!]!) { setQueue(queue: $queue) {
    sequence orderHash queue { uuid } } }";

/// A numbered item that has about so many bytes.
pub(crate) fn large_item(number: usize, bytes: usize) -> Value {
    let mut item = item(number);
    let rest = bytes - item.to_string().len();
    let holds: Vec<String> = (0..rest / 50).map(|hold| format!("{hold:047}")).collect();
    item["climb"]["litUpHoldsMap"] = json!(holds);
    item
}

/// The sentence of a refusal with this code.
pub(crate) fn message_of(outcome: &Outcome, expected: &str) -> String {
    match outcome {
        Outcome::Refused(code, message) if code == expected => message.clone(),
        other => panic!("not refused with {expected}: {other:?}"),
    }
}

/// A seed, a `setQueue` and a `FullSync` of the largest queue go over sockets of these nodes, and
/// one item more does not.
pub(crate) async fn large_queue_is_served(nodes: &[SocketAddr]) {
    let queue = |first: usize| -> Vec<Value> {
        (first..first + ITEMS).map(|number| large_item(number, ITEM_BYTES)).collect()
    };
    let bytes = json!(queue(0)).to_string().len();
    assert!((3 << 20..4 << 20).contains(&bytes), "{bytes}");
    let mut ana = Guest::arrive(nodes[0], None).await;
    let join = Join { queue: Some(queue(0)), ..Join::default() };
    let seeded = ana.joins_as("wall", join).await["queueState"].clone();
    assert_eq!((&seeded["sequence"], length(&seeded["queue"])), (&json!(1), ITEMS));
    let mut bo = Guest::arrive(nodes[nodes.len() - 1], None).await;
    bo.joins("wall").await;
    let stream = bo.follows_queue("wall").await;
    let first = bo.event(&stream).await;
    assert_eq!(first["state"]["orderHash"], seeded["orderHash"]);
    assert_eq!(first["state"]["queue"], seeded["queue"], "all of it");

    let set = ana.run(SET_QUEUE, json!({ "queue": queue(1000) })).await["data"]["setQueue"].clone();
    assert_eq!(
        (&set["sequence"], length(&set["queue"])),
        (&json!(2), ITEMS),
        "{}",
        set["sequence"]
    );
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
    let removed = ana
        .run("mutation($u: ID!) { removeQueueItem(uuid: $u) }", json!({ "u": uuid(1000) }))
        .await;
    assert_eq!(removed["data"]["removeQueueItem"], true, "{removed}");
    let event = bo.event(&stream).await;
    assert_eq!((&event["__typename"], &event["sequence"]), (&json!("QueueItemRemoved"), &json!(3)));
    bo.hears(&stream, "nothing is missing", Duration::ZERO, |event| event["sequence"] == 3).await;
}

fn length(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}
