//! A message, a presence transition and a party edit pass every stop that ARCHITECTURE.md lists, in
//! its order, on a real node. `tidy.rs` checks that the map and the source name the same functions.

use std::path::Path;

use heartline_testing::lives::{LIVES, TARGET, in_map};
use heartline_testing::party::PartyClient;
use heartline_testing::presence::OPEN;
use heartline_testing::{Binary, Server};
use serde_json::Value;

use crate::HEARTLINE;

/// Starts a node that logs every stop.
async fn start(binary: Binary) -> Server {
    let log = format!("[log]\nlevel = \"info,{TARGET}=trace\"\nformat = \"json\"\n");
    binary.start_with(&format!("{OPEN}{log}")).await
}

/// The stops of a life that a part of the log names, in the order in which they were passed.
fn passed(log: &[String], field: &str) -> Vec<usize> {
    let stop = |line: &String| -> Option<usize> {
        let event: Value = serde_json::from_str(line).ok().filter(|_| line.contains(TARGET))?;
        event[field].as_u64().map(|stop| stop as usize)
    };
    log.iter().filter_map(stop).collect()
}

/// Whether these stops were passed one after the other; others may be between them.
fn holds(passed: &[usize], order: &[usize]) -> bool {
    let mut left = order.iter().peekable();
    for stop in passed {
        left.next_if(|next| *next == stop);
    }
    left.peek().is_none()
}

/// Waits until all stops of a life were passed since a line of the log, but for one that runs
/// beside the others and has only a stop that it follows.
async fn walks(server: &Server, life: &str, since: usize, beside: Option<(usize, usize)>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let stops = in_map(root).into_iter().filter(|stop| stop.life == life);
    let is_beside = |stop: &usize| beside.is_some_and(|(_, beside)| beside == *stop);
    let order: Vec<usize> = stops.map(|stop| stop.number).filter(|stop| !is_beside(stop)).collect();
    let (_, field) = LIVES.into_iter().find(|(name, _)| *name == life).unwrap();
    let is_walked = |log: &[String]| {
        let passed = passed(&log[since..], field);
        let is_followed = beside.is_none_or(|(before, after)| holds(&passed, &[before, after]));
        holds(&passed, &order) && is_followed
    };
    if !server.log_becomes(is_walked).await {
        let passed = passed(&server.log()[since..], field);
        panic!("a {life} should pass {order:?} and passed {passed:?}");
    }
}

#[tokio::test]
async fn a_message_passes_every_stop_of_its_life() {
    let server = start(HEARTLINE).await;
    let chat = server.create_group("ana", &["bo"]).await;
    let mut bo = server.connect("bo").await;
    let since = server.log().len();
    let mut ana = server.connect("ana").await;
    ana.send_acked(&chat, "m1", "hello").await;
    bo.receives("hello").await;
    // The sender is acknowledged while the message is still being delivered.
    walks(&server, "message", since, Some((7, 8))).await;
}

#[tokio::test]
async fn a_presence_transition_passes_every_stop_of_its_life() {
    let server = start(HEARTLINE).await;
    server.active_group("ana", &["bo", "cy"]).await;
    let mut cy = server.connect("cy").await;
    let mut bo = server.connect("bo").await;
    // Else ana could watch bo since bo came, and would hear of the end from the directory.
    cy.until_presence("bo", "online").await;
    let mut ana = server.connect("ana").await;
    bo.until_presence("ana", "online").await;
    let since = server.log().len();
    bo.leaves().await;
    ana.until_presence("bo", "offline").await;
    walks(&server, "presence transition", since, None).await;
}

#[tokio::test]
async fn a_party_edit_passes_every_stop_of_its_life() {
    let server = start(HEARTLINE).await;
    let mut ana = PartyClient::connect(server.address, None).await;
    let mut bo = PartyClient::connect(server.address, None).await;
    ana.joins("wall").await;
    bo.joins("wall").await;
    let stream = bo.follows_queue("wall").await;
    assert_eq!(bo.event(&stream).await["__typename"], "FullSync");
    let since = server.log().len();
    ana.adds(1).await;
    assert_eq!(bo.event(&stream).await["__typename"], "QueueItemAdded");
    walks(&server, "party edit", since, None).await;
}

#[test]
fn a_stop_that_is_skipped_or_out_of_order_is_noticed() {
    assert!(holds(&[2, 1, 2, 2, 3], &[1, 2, 3]));
    assert!(!holds(&[1, 3], &[1, 2, 3]));
    assert!(!holds(&[1, 3, 2], &[1, 2, 3]));
}
