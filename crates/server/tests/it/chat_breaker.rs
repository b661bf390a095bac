//! A store that does not respond is not called for a while, and other requests are not affected.

use std::time::Duration;

use heartline_testing::chat::{PATIENT, WriteLock, is_rejected};
use heartline_testing::{Server, Socket};
use serde_json::{Value, json};

use crate::HEARTLINE;
use crate::peers::now;

const STATE: &str = "durability_circuit_breaker_write_state";
const OPENINGS: &str = "durability_circuit_breaker_write_openings_total";
const READ_STATE: &str = "durability_circuit_breaker_read_state";

/// Open for longer than a probe may take, so that there is one.
const LIMITS: &str = "[limits]\nbreaker_failures = 3\nbreaker_open = \"6s\"\n";

/// The deadline of a send, with an allowance for a busy machine.
const DEADLINE: Duration = Duration::from_millis(5500);

/// Far below what the store is waited for.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Asserts that everything except writes works while the store accepts none.
async fn all_else_works(server: &Server, socket: &mut Socket, chat: &str, head: u64) {
    let began = now();
    socket.send(&json!({ "type": "heartbeat" })).await;
    socket.json_of("heartbeat_ack").await;
    assert_eq!(socket.page(chat, 0, None).await, ((1..=head).collect(), false, head));
    assert_eq!(socket.manifest_of(chat).await, Some((head, 0)));
    assert_eq!(server.history("bo", chat).await.len() as u64, head);
    assert_eq!(server.push(&["bo"], "news", json!({ "number": 7 })).await, 1);
    assert_eq!(socket.json_of("event").await["data"]["number"], 7);
    let took = now() - began;
    assert!(took < AT_ONCE * 3, "{took:?}");
}

/// Sends messages that must fail; returns the errors and their latencies.
async fn fails(socket: &mut Socket, chat: &str, ids: &[&str]) -> Vec<(Value, Duration)> {
    let began = now();
    for id in ids {
        socket.send_message(chat, id, "hello").await;
    }
    let mut refusals = Vec::new();
    while refusals.len() < ids.len() {
        let frame = socket.json().await;
        assert_eq!(frame["code"], "SERVICE_UNAVAILABLE", "{frame}");
        refusals.push((frame, now() - began));
    }
    refusals
}

/// Waits as long as an error asks for.
async fn wait(refusal: &Value) {
    let seconds = refusal["retry_after_seconds"].as_u64().unwrap();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test]
async fn a_store_that_takes_nothing_opens_the_breaker_and_one_probe_closes_it() {
    let server = HEARTLINE.start_with(&format!("{PATIENT}{LIMITS}")).await;
    let chat = server.create_group("ana", &["bo"]).await;
    let (mut ana, mut bo) = (server.connect("ana").await, server.connect("bo").await);
    ana.send_acked(&chat, "m1", "hello").await;
    let lock = WriteLock::hold(&server);
    let (failed, ()) = tokio::join!(
        fails(&mut ana, &chat, &["f1", "f2", "f3"]),
        all_else_works(&server, &mut bo, &chat, 1)
    );
    for (refusal, took) in &failed {
        assert!(*took < DEADLINE, "{took:?}");
        let outcome = refusal["details"]["outcome"].as_str().unwrap();
        assert!(["rejected", "unknown"].contains(&outcome), "{refusal}");
        assert_eq!(refusal["retryable"], true, "{refusal}");
        assert!(refusal["retry_after_seconds"].is_u64(), "{refusal}");
    }
    assert_eq!((server.metric(STATE).await, server.metric(OPENINGS).await), (1.0, 1.0));

    // The store is not asked any more: refused at once.
    let refused = fails(&mut ana, &chat, &["g1", "g2", "g3", "g4"]).await;
    for (refusal, took) in &refused {
        is_rejected(refusal);
        assert!(*took < AT_ONCE, "{took:?}");
        assert!(refusal["retry_after_seconds"].as_u64().unwrap() <= 6, "{refusal}");
    }
    println!("refused by the open breaker within {:?}", refused[3].1);
    all_else_works(&server, &mut bo, &chat, 1).await;

    // Of many that come after its time one is let through, and it fails.
    wait(&refused[3].0).await;
    let (probing, ()) = tokio::join!(
        fails(&mut ana, &chat, &["p1", "p2", "p3", "p4", "p5"]),
        server.metric_becomes(STATE, 2.0)
    );
    let slow: Vec<_> = probing.iter().filter(|(_, took)| *took > AT_ONCE).collect();
    assert_eq!(slow.len(), 1, "{probing:?}");
    assert!(slow[0].1 < DEADLINE, "{slow:?}");
    assert_eq!((server.metric(STATE).await, server.metric(OPENINGS).await), (1.0, 2.0));

    // The lock is gone: the next probe is stored, and everything else after it.
    lock.release();
    let refused = fails(&mut ana, &chat, &["h1"]).await;
    wait(&refused[0].0).await;
    let ack = ana.send_acked(&chat, "g1", "hello").await;
    assert_eq!(ack["duplicate"], false, "{ack}");
    assert_eq!(server.metric(STATE).await, 0.0);
    // A rejected message was not stored, so its retry is not a duplicate.
    for (refusal, _) in failed.iter().chain(slow) {
        let ack = ana.send_acked(&chat, refusal["request_id"].as_str().unwrap(), "hello").await;
        let was_rejected = refusal["details"]["outcome"] == "rejected";
        assert!(!was_rejected || ack["duplicate"] == false, "{refusal} {ack}");
    }
    assert_eq!(bo.manifest_of(&chat).await, Some((6, 0)), "m1, g1, three failures and a probe");
    assert_eq!((server.metric(OPENINGS).await, server.metric(READ_STATE).await), (2.0, 0.0));
    assert_eq!(server.metric("durability_circuit_breaker_read_openings_total").await, 0.0);
}

#[tokio::test]
async fn refusals_for_a_reason_of_the_request_never_open_the_breaker() {
    let server = HEARTLINE.start_with("[limits]\nbreaker_failures = 1\n").await;
    let chat = server.create_group("ana", &["bo"]).await;
    let (mut ana, mut stranger) = (server.connect("ana").await, server.connect("cy").await);
    ana.send_acked(&chat, "m1", "hello").await;
    for number in 0..10 {
        stranger.send_rejected(&chat, &format!("s{number}"), "NOT_A_MEMBER").await;
        ana.send_message(&chat, "m1", &format!("other {number}")).await;
        assert_eq!(ana.reply_to("m1").await["code"], "CONFLICT");
    }
    assert_eq!((server.metric(STATE).await, server.metric(OPENINGS).await), (0.0, 0.0));
    ana.send_acked(&chat, "m2", "hello").await;
}

#[tokio::test]
async fn a_short_wait_for_the_store_is_no_failure() {
    let server = HEARTLINE.start_with("[limits]\nbreaker_failures = 1\n").await;
    let chat = server.create_group("ana", &["bo"]).await;
    let mut ana = server.connect("ana").await;
    for id in ["m1", "m2", "m3"] {
        let lock = WriteLock::hold(&server);
        ana.send_message(&chat, id, "hello").await;
        // The message waits for the store by then.
        server.metric_becomes("durability_batch_messages_count", id[1..].parse().unwrap()).await;
        lock.release();
        assert_eq!(ana.reply_to(id).await["type"], "message_ack");
    }
    assert_eq!(server.metric(OPENINGS).await, 0.0);
}
