//! How much may be under way, and that whatever is too much is answered, with its outcome.

use std::collections::BTreeMap;
use std::time::Duration;

use heartline_testing::Socket;
use heartline_testing::chat::{WriteLock, is_rejected, send_frame};
use serde_json::{Value, json};

use crate::HEARTLINE;
use crate::peers::{Received, trickle};

/// Sends that many messages in one write.
async fn say_all(socket: &mut Socket, chat: &str, count: usize) {
    let frame = |number: usize| {
        let text = send_frame(chat, &format!("m{number}"), "hello").to_string();
        heartline_client::raw::masked_text_frame(&text)
    };
    let frames: Vec<u8> = (0..count).flat_map(frame).collect();
    socket.send_bytes(&frames).await;
}

/// The replies among the received frames, by request; no request may have two.
fn answers(received: &[Received]) -> BTreeMap<String, Value> {
    let mut answers = BTreeMap::new();
    for received in received {
        let Received::Other(frame) = received else { continue };
        if let Some(request_id) = frame["request_id"].as_str() {
            let before = answers.insert(request_id.to_owned(), frame.clone());
            assert_eq!(before, None, "answered twice");
        }
    }
    answers
}

/// The last words must be these.
fn ends_with(received: &[Received], code: u16, reason: &str) {
    let [.., Received::Other(closing), close] = received else { panic!("{received:?}") };
    assert_eq!(closing["type"], "connection_closing");
    assert_eq!(closing["reason"], reason);
    assert_eq!(*close, Received::Close(code, reason.to_owned()));
}

fn with_code<'a>(answers: &'a BTreeMap<String, Value>, code: &str) -> Vec<&'a Value> {
    answers.values().filter(|answer| answer["code"] == code).collect()
}

#[tokio::test]
async fn who_sends_too_fast_is_told_when_to_go_on_and_may_go_on_then() {
    let server = HEARTLINE.start().await;
    let chat = server.create_group("ana", &["bo"]).await;
    let mut ana = server.connect("ana").await;
    say_all(&mut ana, &chat, 60).await;
    let mut acked = 0;
    let mut seconds = 0;
    for _ in 0..60 {
        let answer = ana.json().await;
        if answer["type"] == "message_ack" {
            acked += 1;
            continue;
        }
        assert_eq!((&answer["code"], &answer["retryable"]), (&json!("RATE_LIMITED"), &json!(true)));
        seconds = answer["retry_after_seconds"].as_u64().unwrap();
        assert_eq!(seconds, 1, "a tenth of a second, in whole seconds");
    }
    assert!((20..=40).contains(&acked), "{acked} of 60 at once");
    // Waiting as long as the server asks for is enough.
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    for number in 0..10 {
        ana.send_message(&chat, &format!("later-{number}"), "hello").await;
    }
    for _ in 0..10 {
        assert_eq!(ana.json().await["type"], "message_ack");
    }
    assert_eq!(ana.manifest_of(&chat).await, Some((acked + 10, 0)));
}

#[tokio::test]
async fn who_does_not_stop_is_closed_and_every_message_until_then_was_answered() {
    let server = HEARTLINE.start().await;
    let chat = server.create_group("ana", &["bo"]).await;
    let mut ana = server.connect("ana").await;
    say_all(&mut ana, &chat, 300).await;
    let received = trickle(&mut ana, 64 * 1024, Duration::ZERO).await;
    ends_with(&received, 4429, "rate_limited");
    let answers = answers(&received);
    assert_eq!(with_code(&answers, "RATE_LIMITED").len(), 100);
    let acked = answers.values().filter(|answer| answer["type"] == "message_ack").count();
    assert_eq!(answers.len(), 100 + acked, "nothing else was answered");
    assert!((20..=60).contains(&acked), "{acked} acks");
    assert!((0..answers.len()).all(|number| answers.contains_key(&format!("m{number}"))));
    assert_eq!(server.history("bo", &chat).await.len(), acked);
}

#[tokio::test]
async fn the_101st_request_that_waits_is_refused_and_the_third_refusal_closes() {
    let limits = "[limits]\nsend_rate = 1000\nsend_burst = 1000\n";
    let server = HEARTLINE.start_with(limits).await;
    let chat = server.create_group("ana", &["bo"]).await;
    let mut ana = server.connect("ana").await;
    let lock = WriteLock::hold(&server);
    say_all(&mut ana, &chat, 103).await;
    for number in 100..103 {
        let busy = ana.json().await;
        assert_eq!(busy["request_id"], format!("m{number}"), "{busy}");
        assert_eq!(busy["code"], "SERVER_BUSY", "{busy}");
        is_rejected(&busy);
    }
    lock.release();
    let received = trickle(&mut ana, 64 * 1024, Duration::ZERO).await;
    ends_with(&received, 1013, "overloaded");
    let answers = answers(&received);
    assert_eq!(answers.len(), 100);
    for number in 0..100 {
        let answer = &answers[&format!("m{number}")];
        assert_eq!(answer["type"], "message_ack", "{answer}");
        assert_eq!(answer["sequence"], number + 1, "a sender's order stays");
    }
    assert_eq!(server.metric("gateway_requests_busy_total").await, 3.0);
}

#[tokio::test]
async fn pages_asked_for_all_at_once_are_all_answered_even_by_a_server_that_hangs_up() {
    let limits = "[limits]\ninbound_requests = 10\nframe_rate = 1000\nframe_burst = 1000\n";
    let server = HEARTLINE.start_with(limits).await;
    let chat = server.create_group("ana", &["bo"]).await;
    let mut ana = server.connect("ana").await;
    ana.send_acked(&chat, "m1", "hello").await;
    let frame = |number: usize| {
        let request_id = format!("s{number}");
        let frame = json!({
            "type": "sync_request", "request_id": request_id, "chat_id": chat, "after_sequence": 0
        });
        heartline_client::raw::masked_text_frame(&frame.to_string())
    };
    let frames: Vec<u8> = (0..200).flat_map(frame).collect();
    ana.send_bytes(&frames).await;
    let received = trickle(&mut ana, 64 * 1024, Duration::ZERO).await;
    ends_with(&received, 1013, "overloaded");
    let answers = answers(&received);
    let busy = with_code(&answers, "SERVER_BUSY");
    assert_eq!(busy.len(), 3, "{busy:?}");
    busy.into_iter().for_each(is_rejected);
    assert!((0..answers.len()).all(|number| answers.contains_key(&format!("s{number}"))));
    let pages = answers.values().filter(|answer| answer["type"] == "sync_response").count();
    let closing = with_code(&answers, "SERVICE_UNAVAILABLE").len();
    assert_eq!(pages + closing + 3, answers.len(), "{answers:#?}");
    assert!(closing <= 10 && pages + closing >= 10, "{pages} pages, {closing} refused");
}

/// Sends while the store is locked; returns the requests that were rejected as busy.
async fn refused_while_held(ana: &mut Socket, sends: &[(&str, &str)]) -> Vec<String> {
    for (chat, id) in sends {
        ana.send_message(chat, id, "hello").await;
    }
    // A heartbeat overtakes what waits, but not what was answered before it.
    ana.send(&json!({ "type": "heartbeat" })).await;
    let mut refused = Vec::new();
    loop {
        let frame = ana.json().await;
        if frame["type"] == "heartbeat_ack" {
            return refused;
        }
        assert_eq!(frame["code"], "SERVER_BUSY", "{frame}");
        is_rejected(&frame);
        refused.push(frame["request_id"].as_str().unwrap().to_owned());
    }
}

/// The messages that are acknowledged once the store is free, in the order of their ids.
async fn acked(ana: &mut Socket, count: usize) -> Vec<String> {
    let mut acked = Vec::new();
    for _ in 0..count {
        let ack = ana.json_of("message_ack").await;
        acked.push(ack["request_id"].as_str().unwrap().to_owned());
    }
    acked.sort_unstable();
    acked
}

#[tokio::test]
async fn a_chat_with_too_many_messages_under_way_is_busy_and_others_are_not() {
    let server = HEARTLINE.start_with("[limits]\ningest_per_chat = 4\n").await;
    let busy = server.create_group("ana", &["bo"]).await;
    let quiet = server.create_group("ana", &["bo"]).await;
    let mut ana = server.connect("ana").await;
    let lock = WriteLock::hold(&server);
    let sends = ["b1", "b2", "b3", "b4", "b5", "b6"].map(|id| (busy.as_str(), id));
    let sends = [&sends[..], &[(quiet.as_str(), "q1")]].concat();
    assert_eq!(refused_while_held(&mut ana, &sends).await, ["b5", "b6"]);
    lock.release();
    assert_eq!(acked(&mut ana, 5).await, ["b1", "b2", "b3", "b4", "q1"]);
    // Nothing was stored of what was refused, and now there is room.
    assert_eq!(ana.send_acked(&busy, "b5", "hello").await["sequence"], 5);
}

#[tokio::test]
async fn a_node_with_too_many_messages_under_way_is_busy() {
    let server = HEARTLINE.start_with("[limits]\ningest_per_chat = 3\ningest_per_node = 3\n").await;
    let first = server.create_group("ana", &["bo"]).await;
    let second = server.create_group("ana", &["bo"]).await;
    let third = server.create_group("ana", &["bo"]).await;
    let mut ana = server.connect("ana").await;
    let lock = WriteLock::hold(&server);
    let sends = [(&first, "a1"), (&first, "a2"), (&second, "b1"), (&third, "c1"), (&first, "a3")];
    let sends = sends.map(|(chat, id)| (chat.as_str(), id));
    assert_eq!(refused_while_held(&mut ana, &sends).await, ["c1", "a3"]);
    lock.release();
    assert_eq!(acked(&mut ana, 3).await, ["a1", "a2", "b1"]);
    let ack = ana.send_acked(&third, "c1", "hello").await;
    assert_eq!((&ack["sequence"], &ack["duplicate"]), (&json!(1), &json!(false)));
    let busy = "durability_sends_total{outcome=\"busy\"}";
    assert_eq!(server.metric(busy).await, 2.0);
}
