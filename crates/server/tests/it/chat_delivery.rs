//! Every device of every member receives each message once, in order and unchanged; no other device
//! receives it.

use std::time::Duration;

use heartline_testing::chat::{NO_CHAT, PATIENT, send_frame, sequences};
use heartline_testing::{Socket, service_token};
use serde_json::{Value, json};

use crate::HEARTLINE;
use crate::peers::now;

/// Limits that let a test say much at once.
const TALKATIVE: &str = "[limits]\nsend_rate = 10000\nsend_burst = 10000\nframe_rate = 10000\n\
                         frame_burst = 10000\ninbound_requests = 1000\ningest_per_chat = 1000\n";

#[tokio::test]
async fn a_message_reaches_every_device_but_the_connection_that_sent_it() {
    let server = HEARTLINE.start().await;
    let chat = server.create_group("ana", &["bo"]).await;
    let mut sending = server.connect_device("ana", "phone").await;
    let mut others = vec![server.connect_device("ana", "laptop").await];
    for device in ["phone", "laptop", "watch"] {
        others.push(server.connect_device("bo", device).await);
    }
    let mut stranger = server.connect("cy").await;
    let ack = sending.send_acked(&chat, "m1", "hello").await;
    for socket in &mut others {
        let message = socket.receives("hello").await;
        for field in ["chat_id", "client_message_id", "message_id", "sequence", "created_at"] {
            assert_eq!(message[field], ack[field], "{message}");
        }
        assert_eq!(message["sender_id"], "ana");
        assert_eq!(message["content_type"], "text/plain");
    }
    // The next message is the first that the sending connection receives.
    let reply = others[1].send_acked(&chat, "m1", "and you").await;
    assert_eq!((&ack["sequence"], &reply["sequence"]), (&json!(1), &json!(2)));
    sending.receives("and you").await;
    let other_chat = server.create_group("ana", &["cy"]).await;
    sending.send_acked(&other_chat, "m1", "hello cy").await;
    assert_eq!(stranger.json_of("message").await["content"], "hello cy");
}

#[tokio::test]
async fn an_ack_says_everything_about_the_message_as_it_is_stored() {
    let server = HEARTLINE.start().await;
    let chat = server.create_group("ana", &["bo"]).await;
    let mut ana = server.connect("ana").await;
    let mut frame = send_frame(&chat, "draft-7", "hello");
    frame["request_id"] = json!("r:1");
    frame["content_type"] = json!("text/markdown");
    ana.send(&frame).await;
    let ack = ana.json_of("message_ack").await;
    let stored = &server.history("bo", &chat).await[0];
    for field in ["chat_id", "client_message_id", "message_id", "sequence", "created_at"] {
        assert_eq!(ack[field], stored[field], "{ack} {stored}");
    }
    assert_eq!((&ack["request_id"], &ack["duplicate"]), (&json!("r:1"), &json!(false)));
    assert_eq!(ack["client_message_id"], "draft-7");
    assert!(ack["message_id"].as_str().unwrap().starts_with("msg_"), "{ack}");
    for field in ["created_at", "timestamp"] {
        let time = ack[field].as_str().unwrap();
        assert!(time.len() == 24 && time.ends_with('Z'), "{ack}");
    }
    assert_eq!(ack.as_object().unwrap().len(), 9, "{ack}");
    assert_eq!(stored["content_type"], "text/markdown");
}

#[tokio::test]
async fn who_was_added_while_away_finds_the_chat_and_all_of_it_after_coming_back() {
    let server = HEARTLINE.start().await;
    let chat = server.create_group("ana", &[]).await;
    let mut cy = server.connect("cy").await;
    assert_eq!(cy.manifest_of(&chat).await, None);
    drop(cy);
    let mut ana = server.connect("ana").await;
    ana.send_acked(&chat, "m1", "before cy").await;
    server.add_member("ana", &chat, "cy").await;
    ana.send_acked(&chat, "m2", "welcome").await;
    let mut cy = server.connect("cy").await;
    assert_eq!(cy.manifest_of(&chat).await, Some((2, 0)));
    assert_eq!(cy.page(&chat, 0, None).await, (vec![1, 2], false, 2));
}

#[tokio::test]
async fn who_was_removed_hears_nothing_more_and_may_ask_nothing_more() {
    let server = HEARTLINE.start().await;
    let chat = server.create_group("ana", &["bo", "cy"]).await;
    let other = server.create_group("ana", &["bo"]).await;
    let (mut ana, mut bo) = (server.connect("ana").await, server.connect("bo").await);
    ana.send_acked(&chat, "m1", "together").await;
    bo.receives("together").await;
    server.remove_member("ana", &chat, "bo").await;
    let removed = bo.json_of("chat_changed").await;
    assert_eq!((&removed["change"], removed.get("chat")), (&json!("member_removed"), None));
    ana.send_acked(&chat, "m2", "without bo").await;
    ana.send(&json!({ "type": "typing", "chat_id": chat, "is_typing": true })).await;
    ana.send_acked(&other, "m1", "elsewhere").await;
    let next = bo.json().await;
    assert_eq!(next["content"], "elsewhere", "{next}");
    assert_eq!(bo.manifest_of(&chat).await, None);
    for (chat, other) in [(chat.as_str(), NO_CHAT)] {
        let refused = bo.send_rejected(chat, "m3", "NOT_A_MEMBER").await;
        assert_eq!(same(refused), same(bo.send_rejected(other, "m4", "NOT_A_MEMBER").await));
        let refused = bo.sync(chat, 0, None).await;
        assert_eq!(refused["code"], "NOT_A_MEMBER", "{refused}");
        assert_eq!(same(refused), same(bo.sync(other, 0, None).await));
    }
}

/// The parts of an error that must be equal for a chat of others and for one that does not exist.
fn same(mut error: Value) -> String {
    error["request_id"].take();
    error["timestamp"].take();
    error.to_string()
}

#[tokio::test]
async fn every_change_of_a_chat_is_told_to_all_its_devices() {
    let server = HEARTLINE.start().await;
    let mut devices =
        [server.connect_device("ana", "a").await, server.connect_device("ana", "b").await];
    let chat = server.create_group("ana", &["bo"]).await;
    let path = format!("/v1/chats/{chat}");
    let name = json!({ "name": "Others" });
    server.rest("ana", "PATCH", &path, Some(&name)).await;
    server.add_member("ana", &chat, "cy").await;
    let role = json!({ "role": "admin" });
    server.rest("ana", "PATCH", &format!("{path}/members/cy"), Some(&role)).await;
    server.remove_member("ana", &chat, "cy").await;
    for device in &mut devices {
        for change in ["created", "renamed", "member_added", "role_changed", "member_removed"] {
            let frame = device.json_of("chat_changed").await;
            assert_eq!((&frame["change"], &frame["chat_id"]), (&json!(change), &json!(chat)));
            let name = if change == "created" { "Friends" } else { "Others" };
            assert_eq!(frame["chat"]["name"], name, "{frame}");
        }
    }
}

#[tokio::test]
async fn what_was_acknowledged_is_seen_at_once_and_never_beyond_the_head() {
    let server = HEARTLINE.start_with("[presence]\ndefault_visibility = \"everyone\"\n").await;
    let chat = server.create_group("ana", &["bo"]).await;
    let (mut ana, mut bo) = (server.connect("ana").await, server.connect("bo").await);
    for id in ["m1", "m2"] {
        ana.send_acked(&chat, id, id).await;
    }
    for acknowledged in [1, 2, 999] {
        bo.acknowledge(&chat, acknowledged).await;
        let path = format!("/v1/chats/{chat}/delivery");
        let delivery = server.rest("ana", "GET", &path, None).await.json();
        let of_bo = &delivery["items"][1];
        let expected = json!({ "user_id": "bo", "last_acked_sequence": acknowledged.min(2) });
        assert_eq!(*of_bo, expected, "{delivery}");
    }
}

async fn type_in(socket: &mut Socket, chat: &str, words: &[bool]) {
    for is_typing in words {
        let frame = json!({ "type": "typing", "chat_id": chat, "is_typing": is_typing });
        socket.send(&frame).await;
    }
}

#[tokio::test]
async fn typing_reaches_the_others_only_and_what_is_too_much_is_coalesced() {
    let server = HEARTLINE.start_with("[presence]\ndefault_visibility = \"everyone\"\n").await;
    let chat = server.create_group("ana", &["bo"]).await;
    let mut ana = server.connect_device("ana", "phone").await;
    let mut laptop = server.connect_device("ana", "laptop").await;
    let (mut bo, mut stranger) = (server.connect("bo").await, server.connect("cy").await);
    type_in(&mut stranger, &chat, &[true]).await;
    stranger.is_open().await;
    type_in(&mut ana, &chat, &[true, false, true, true, false, true, false]).await;
    let first = bo.json().await;
    let heard_at = now();
    assert_eq!((&first["type"], &first["user_id"]), (&json!("typing_indicator"), &json!("ana")));
    assert_eq!((&first["chat_id"], &first["is_typing"]), (&json!(chat), &json!(true)));
    let last = bo.json().await;
    let apart = now() - heard_at;
    assert_eq!((&last["type"], &last["is_typing"]), (&json!("typing_indicator"), &json!(false)));
    assert!(apart > Duration::from_millis(800), "{apart:?}");
    ana.send_acked(&chat, "m1", "done").await;
    assert_eq!(bo.json().await["content"], "done");
    assert_eq!(laptop.json().await["content"], "done");
}

#[tokio::test]
async fn pushes_of_a_chat_ascend_without_holes_whoever_sends() {
    let server = HEARTLINE.start_with(TALKATIVE).await;
    let chat = server.create_group("ana", &["bo", "cy"]).await;
    let mut cy = server.connect("cy").await;
    let (mut ana, mut bo) = (server.connect("ana").await, server.connect("bo").await);
    for number in 0..100 {
        ana.send_message(&chat, &format!("m{number}"), &format!("ana {number}")).await;
        bo.send_message(&chat, &format!("m{number}"), &format!("bo {number}")).await;
    }
    let mut received = [0, 0];
    for sequence in 1..=200 {
        let message = cy.json_of("message").await;
        assert_eq!(message["sequence"], sequence);
        let sender = usize::from(message["sender_id"] == "bo");
        let (name, number) = (["ana", "bo"][sender], received[sender]);
        assert_eq!(message["content"], format!("{name} {number}"), "a sender's order stays");
        received[sender] += 1;
    }
}

#[tokio::test]
async fn watermarks_show_in_the_manifest_and_never_fall_also_over_a_restart() {
    let server = HEARTLINE.start().await;
    let chat = server.create_group("ana", &["bo"]).await;
    let (mut ana, mut bo) = (server.connect("ana").await, server.connect("bo").await);
    for number in 1..=5 {
        ana.send_acked(&chat, &format!("m{number}"), "hello").await;
    }
    bo.acknowledge(&chat, 3).await;
    assert_eq!(bo.manifest_of(&chat).await, Some((5, 3)));
    bo.acknowledge(&chat, 2).await;
    assert_eq!(bo.manifest_of(&chat).await, Some((5, 3)));
    assert_eq!(ana.manifest_of(&chat).await, Some((5, 0)));
    let server = HEARTLINE.start_on(server.stop_with("TERM").await, "").await;
    let mut bo = server.connect("bo").await;
    assert_eq!(bo.manifest_of(&chat).await, Some((5, 3)));
    bo.acknowledge(&chat, 1).await;
    assert_eq!(bo.manifest_of(&chat).await, Some((5, 3)));
    // An acknowledgement beyond the head is limited to the head.
    bo.acknowledge(&chat, u64::MAX).await;
    assert_eq!(bo.manifest_of(&chat).await, Some((5, 5)));
    bo.acknowledge(NO_CHAT, 7).await;
    let server = HEARTLINE.start_on(server.stop_with("TERM").await, "").await;
    let mut bo = server.connect("bo").await;
    assert_eq!(bo.manifest_of(&chat).await, Some((5, 5)));
}

fn odd_contents() -> Vec<String> {
    vec![
        "a".repeat(4096),
        "😀".repeat(1024),
        "\u{1}".repeat(4096),
        "\"\\/\u{8}\u{c}\n\r\t\u{0}\u{1f}\u{7f}\u{9f}".to_owned(),
        "\u{202e}right to left\u{202c} \u{200f}\u{feff}".to_owned(),
        "\u{2028}\u{2029}\u{fffd}\u{ffff}\u{10ffff}\u{e000}".to_owned(),
        "e\u{301}".repeat(1000),
        "👩‍👩‍👧‍👦 🏳️‍🌈 ❤️".to_owned(),
        "   ".to_owned(),
        "</script><b>&amp;'; DROP TABLE messages; --".to_owned(),
        r"C:\new\u0041 {\".to_owned(),
    ]
}

#[tokio::test]
async fn content_comes_back_byte_for_byte_by_push_page_and_rest() {
    let server = HEARTLINE.start().await;
    let chat = server.create_group("ana", &["bo"]).await;
    let (mut ana, mut bo) = (server.connect("ana").await, server.connect("bo").await);
    let contents = odd_contents();
    for (number, content) in contents.iter().enumerate() {
        ana.send_acked(&chat, &format!("m{number}"), content).await;
        bo.receives(content).await;
    }
    // Escapes are another way to write the same.
    let escaped =
        send_frame(&chat, "escaped", "@").to_string().replace('@', r"\ud83d\ude00\u0041\/");
    ana.send_text(&escaped).await;
    bo.receives("😀A/").await;
    let page = bo.sync(&chat, 0, None).await;
    let history = server.history("bo", &chat).await;
    for messages in [page["messages"].as_array().unwrap(), &history] {
        let found: Vec<_> = messages.iter().map(|message| message["content"].clone()).collect();
        assert_eq!(found[..contents.len()], contents);
        assert_eq!(found[contents.len()..], ["😀A/"]);
    }
}

#[tokio::test]
async fn content_has_1_to_4096_bytes_however_it_is_written() {
    let server = HEARTLINE.start().await;
    let chat = server.create_group("ana", &["bo"]).await;
    let mut ana = server.connect("ana").await;
    for (content, code) in [
        ("a".repeat(4097), "MESSAGE_TOO_LARGE"),
        ("😀".repeat(1024) + "a", "MESSAGE_TOO_LARGE"),
        ("😀".repeat(4096), "MESSAGE_TOO_LARGE"),
        (String::new(), "INVALID_MESSAGE"),
    ] {
        ana.send_message(&chat, "m1", &content).await;
        let error = ana.reply_to("m1").await;
        assert_eq!((&error["code"], &error["retryable"]), (&json!(code), &json!(false)));
    }
    let lone = send_frame(&chat, "m1", "@").to_string().replace('@', r"\ud800");
    ana.send_text(&lone).await;
    ana.error("INVALID_MESSAGE").await;
    assert_eq!(ana.send_acked(&chat, "m1", "fine").await["sequence"], 1);
}

#[tokio::test]
async fn pages_end_at_their_limit_and_the_next_begins_there() {
    let server = HEARTLINE.start_with(&format!("{PATIENT}{TALKATIVE}")).await;
    let chat = server.create_group("ana", &["bo"]).await;
    let (mut ana, mut bo) = (server.connect("ana").await, server.connect("bo").await);
    assert_eq!(bo.page(&chat, 0, None).await, (vec![], false, 0));
    for number in 0..510 {
        ana.send_message(&chat, &format!("m{number}"), "x").await;
    }
    for _ in 0..510 {
        ana.json_of("message_ack").await;
    }
    for (after, limit, first, last, has_more) in [
        (0, None, 1, 100, true),
        (100, Some(1), 101, 101, true),
        (0, Some(500), 1, 500, true),
        (0, Some(501), 1, 500, true),
        (0, Some(u32::MAX), 1, 500, true),
        (0, Some(0), 1, 1, true),
        (500, Some(10), 501, 510, false),
        (500, None, 501, 510, false),
        (509, None, 510, 510, false),
    ] {
        let expected = ((first..=last).collect(), has_more, 510);
        assert_eq!(bo.page(&chat, after, limit).await, expected, "{after} {limit:?}");
    }
    for beyond in [510, 511, 1 << 31, 1 << 32, 1 << 53, u64::MAX - 1, u64::MAX] {
        assert_eq!(bo.page(&chat, beyond, None).await, (vec![], false, 510), "{beyond}");
    }
    for wrong in [json!(-1), json!("5"), json!(1.5), json!(1e30), json!(null)] {
        let frame = json!({
            "type": "sync_request", "request_id": "wrong", "chat_id": chat, "after_sequence": wrong
        });
        bo.send(&frame).await;
        let error = bo.reply_to("wrong").await;
        assert_eq!(error["code"], "INVALID_MESSAGE", "{wrong}: {error}");
        assert_eq!(error["details"]["field"], "after_sequence", "{wrong}: {error}");
    }
}

#[tokio::test]
async fn a_page_is_at_most_256_kib_and_all_pages_together_are_everything() {
    let server = HEARTLINE.start_with(&format!("{PATIENT}{TALKATIVE}")).await;
    let chat = server.create_group("ana", &["bo"]).await;
    let path = format!("/v1/chats/{chat}/messages");
    // One content that grows sixfold as JSON, and one that does not.
    let contents = ["\u{1}".repeat(4096), "x".repeat(4096)];
    for number in 0..120 {
        let content = &contents[number % 2];
        let id = format!("m{number}");
        let body = json!({ "client_message_id": id, "content": content, "sender_id": "ana" });
        let answer = server.http("POST", &path, &service_token(), Some(&body)).await;
        assert_eq!(answer.status, 201, "{}", answer.head);
    }
    let mut bo = server.connect("bo").await;
    let (mut after, mut pages) = (0, 0);
    while after < 120 {
        let request = json!({
            "type": "sync_request", "request_id": "sync", "chat_id": chat,
            "after_sequence": after, "limit": 500
        });
        bo.send(&request).await;
        // The last message may still be in transit.
        let page: Value = loop {
            let frame = bo.frame().await;
            assert!(frame.payload.len() <= 256 * 1024, "{} bytes", frame.payload.len());
            let received: Value = serde_json::from_slice(&frame.payload).unwrap();
            if received["type"] == "sync_response" {
                break received;
            }
            assert_eq!(received["type"], "message");
        };
        let found = sequences(&page);
        assert!(found.iter().copied().eq(after + 1..=after + found.len() as u64), "{found:?}");
        after += found.len() as u64;
        assert_eq!(page["has_more"], after < 120);
        pages += 1;
    }
    assert!((7..15).contains(&pages), "{pages} pages for 1.8 MiB");
}
