//! A retry is safe for ever: the same id gives the first result, whatever happened in between.

use futures_util::future::join_all;
use heartline_testing::chat::send_frame;
use serde_json::{Value, json};

use crate::HEARTLINE;

/// The fields that must be equal in every ack of the same message.
fn result(ack: &Value) -> [Value; 4] {
    ["chat_id", "message_id", "sequence", "created_at"].map(|field| ack[field].clone())
}

#[tokio::test]
async fn the_same_message_sent_a_hundred_times_at_once_is_stored_once() {
    let server = HEARTLINE.start().await;
    let chat = server.create_group("ana", &["bo"]).await;
    let mut bo = server.connect("bo").await;
    let mut devices = Vec::new();
    for _ in 0..20 {
        devices.push(server.connect("ana").await);
    }
    let acks = join_all(devices.iter_mut().map(async |device| {
        let mut acks = Vec::new();
        for attempt in 0..5 {
            let mut frame = send_frame(&chat, "once", "hello");
            frame["request_id"] = json!(format!("attempt-{attempt}"));
            device.send(&frame).await;
        }
        for attempt in 0..5 {
            let ack = device.json_of("message_ack").await;
            assert_eq!(ack["request_id"], format!("attempt-{attempt}"), "in order");
            acks.push(ack);
        }
        acks
    }))
    .await;
    let acks: Vec<Value> = acks.into_iter().flatten().collect();
    assert_eq!(acks.len(), 100);
    assert!(acks.iter().all(|ack| result(ack) == result(&acks[0])), "{acks:#?}");
    assert_eq!(acks.iter().filter(|ack| ack["duplicate"] == false).count(), 1);
    assert_eq!(server.metric("durability_messages_persisted_total").await, 1.0);
    assert_eq!(server.metric("durability_idempotency_hits_total").await, 99.0);
    assert_eq!(devices[0].page(&chat, 0, None).await, (vec![1], false, 1));
    // The message is delivered once: the next frame of bo is the next message.
    devices[0].send_acked(&chat, "twice", "goodbye").await;
    bo.receives("hello").await;
    assert_eq!(bo.receives("goodbye").await["sequence"], 2);
}

#[tokio::test]
async fn an_id_that_was_used_for_another_message_is_a_conflict_and_stores_nothing() {
    let server = HEARTLINE.start().await;
    let chat = server.create_group("ana", &["bo"]).await;
    let mut ana = server.connect("ana").await;
    let first = ana.send_acked(&chat, "m1", "hello").await;
    ana.send_message(&chat, "m1", "hello!").await;
    let error = ana.reply_to("m1").await;
    assert_eq!((&error["code"], &error["retryable"]), (&json!("CONFLICT"), &json!(false)));
    assert_eq!(error["details"]["outcome"], "rejected");
    let mut other_kind = send_frame(&chat, "m1", "hello");
    other_kind["content_type"] = json!("text/markdown");
    ana.send(&other_kind).await;
    assert_eq!(ana.reply_to("m1").await["code"], "CONFLICT");
    let again = ana.send_acked(&chat, "m1", "hello").await;
    assert_eq!((result(&again), &again["duplicate"]), (result(&first), &json!(true)));
    assert_eq!(ana.page(&chat, 0, None).await, (vec![1], false, 1));
}

#[tokio::test]
async fn another_sender_and_another_chat_may_use_the_same_id() {
    let server = HEARTLINE.start().await;
    let chat = server.create_group("ana", &["bo"]).await;
    let other = server.create_group("ana", &["bo"]).await;
    let (mut ana, mut bo) = (server.connect("ana").await, server.connect("bo").await);
    let sent = [
        ana.send_acked(&chat, "m1", "of ana").await,
        bo.send_acked(&chat, "m1", "of bo").await,
        ana.send_acked(&other, "m1", "elsewhere").await,
    ];
    let facts = sent.each_ref().map(|ack| (ack["sequence"].as_u64(), ack["duplicate"].as_bool()));
    assert_eq!(facts, [(Some(1), Some(false)), (Some(2), Some(false)), (Some(1), Some(false))]);
    assert_ne!(sent[0]["message_id"], sent[2]["message_id"]);
}

#[tokio::test]
async fn a_retry_after_a_crash_gives_the_first_result() {
    let server = HEARTLINE.start().await;
    let chat = server.create_group("ana", &["bo"]).await;
    let mut ana = server.connect("ana").await;
    let mut first = Vec::new();
    for number in 1..=10 {
        first.push(ana.send_acked(&chat, &format!("m{number}"), "hello").await);
    }
    // One more is on its way when the server dies: it is stored or not, but never twice.
    ana.send_message(&chat, "m11", "hello").await;
    let server = HEARTLINE.start_on(server.stop_with("KILL").await, "").await;
    let mut ana = server.connect("ana").await;
    for (ack, number) in first.iter().zip(1..) {
        let again = ana.send_acked(&chat, &format!("m{number}"), "hello").await;
        assert_eq!((result(&again), &again["duplicate"]), (result(ack), &json!(true)));
    }
    assert_eq!(ana.send_acked(&chat, "m11", "hello").await["sequence"], 11);
    assert_eq!(ana.send_acked(&chat, "m12", "hello").await["sequence"], 12);
    assert_eq!(ana.page(&chat, 0, None).await, ((1..=12).collect(), false, 12));
}

#[tokio::test]
async fn who_was_removed_still_learns_what_became_of_an_old_message() {
    let server = HEARTLINE.start().await;
    let chat = server.create_group("ana", &["bo"]).await;
    let mut bo = server.connect("bo").await;
    let first = bo.send_acked(&chat, "m1", "hello").await;
    server.remove_member("ana", &chat, "bo").await;
    let again = bo.send_acked(&chat, "m1", "hello").await;
    assert_eq!((result(&again), &again["duplicate"]), (result(&first), &json!(true)));
    bo.send_rejected(&chat, "m2", "NOT_A_MEMBER").await;
    bo.send_message(&chat, "m1", "something else").await;
    assert_eq!(bo.reply_to("m1").await["code"], "CONFLICT");
    assert_eq!(server.history("ana", &chat).await.len(), 1);
}
