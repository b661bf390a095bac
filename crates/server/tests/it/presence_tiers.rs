//! Presence without a subscription: to those who share an active chat, and to those who ask.

use std::time::Duration;

use heartline_testing::chat::open_store;
use heartline_testing::presence::{OPEN, SENTINEL, is_known, unknown};
use heartline_testing::{Server, Socket};
use serde_json::{Value, json};

use crate::HEARTLINE;
use crate::peers::now;
use crate::rest_client::Rest;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Moves the messages of a chat into the past, behind the server's back.
fn age(server: &Server, chat: &str, milliseconds: i64) {
    let sql = "UPDATE messages SET created_at = created_at - ?2
        WHERE chat_key = (SELECT chat_key FROM chats WHERE chat_id = ?1)";
    let id: heartline_protocol::ChatId = chat.parse().unwrap();
    let id = id.0.to_bytes();
    let aged = open_store(&server.data()).execute(sql, (id.as_slice(), milliseconds));
    assert_eq!(aged.unwrap(), 1);
}

/// The next presence event of a user must have this status; events of others may come before.
async fn hears_only(socket: &mut Socket, user: &str, status: &str) -> Value {
    loop {
        let frame = socket.json_of("presence_changed").await;
        if frame["user_id"] == user {
            assert_eq!(frame["status"], status, "{frame}");
            return frame;
        }
    }
}

#[tokio::test]
async fn members_of_an_active_chat_hear_within_a_second() {
    let server = HEARTLINE.start_with(OPEN).await;
    server.active_group("ana", &["bo", "cy"]).await;
    let mut phone = server.connect_device("ana", "phone").await;
    let mut tablet = server.connect_device("ana", "tablet").await;
    let mut cy = server.connect("cy").await;
    let mut fastest = [Duration::MAX; 2];
    for _ in 0..6 {
        let since = now();
        let bo = server.connect("bo").await;
        for device in [&mut phone, &mut tablet, &mut cy] {
            hears_only(device, "bo", "online").await;
        }
        fastest[0] = fastest[0].min(now() - since);
        let since = now();
        bo.leaves().await;
        for device in [&mut phone, &mut tablet, &mut cy] {
            is_known(&hears_only(device, "bo", "offline").await, "bo", "offline");
        }
        fastest[1] = fastest[1].min(now() - since);
    }
    assert!(fastest.iter().all(|took| *took < Duration::from_secs(1)), "{fastest:?}");
}

#[tokio::test]
async fn whoever_subscribes_to_a_companion_is_told_once() {
    let server = HEARTLINE.start_with(OPEN).await;
    server.active_group("ana", &["bo", SENTINEL]).await;
    let mut ana = server.connect("ana").await;
    ana.subscribe(&["bo"]).await;
    let bo = server.connect("bo").await;
    ana.presence("bo", "online").await;
    bo.leaves().await;
    ana.presence("bo", "offline").await;
    server.receives_nothing_else(&mut ana).await;
}

#[tokio::test]
async fn members_of_a_quiet_chat_do_not() {
    let server = HEARTLINE.start_with(OPEN).await;
    server.active_group("ana", &[SENTINEL]).await;
    server.create_group("ana", &["silent"]).await;
    let old = server.active_group("ana", &["long-ago"]).await;
    age(&server, &old, DAY_MS + 1000);
    let recent = server.active_group("ana", &["yesterday"]).await;
    age(&server, &recent, DAY_MS - 60_000);
    let mut ana = server.connect("ana").await;
    for user in ["silent", "long-ago", "stranger"] {
        server.connect(user).await.leaves().await;
    }
    server.receives_nothing_else(&mut ana).await;
    let _yesterday = server.connect("yesterday").await;
    ana.presence("yesterday", "online").await;
}

#[tokio::test]
async fn members_of_a_chat_of_a_hundred_hear_and_of_one_more_do_not() {
    let server = HEARTLINE.start_with(OPEN).await;
    let names: Vec<String> = (0..99).map(|number| format!("member-{number}")).collect();
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    server.active_group("ana", &names).await;
    let mut ana = server.connect("ana").await;
    server.connect("member-98").await.leaves().await;
    ana.until_presence("member-98", "offline").await;
    names.push("one-more");
    server.active_group("bo", &names).await;
    server.active_group("bo", &[SENTINEL]).await;
    let mut bo = server.connect("bo").await;
    server.connect("one-more").await.leaves().await;
    server.connect("member-0").await.leaves().await;
    server.receives_nothing_else(&mut bo).await;
}

#[tokio::test]
async fn a_member_who_was_removed_hears_no_more_of_those_who_come_later() {
    let server = HEARTLINE.start_with(OPEN).await;
    let chat = server.active_group("ana", &["bo", "cy"]).await;
    server.active_group("bo", &[SENTINEL]).await;
    let mut bo = server.connect("bo").await;
    server.remove_member("ana", &chat, "bo").await;
    bo.json_of("chat_changed").await;
    let _cy = server.connect("cy").await;
    server.receives_nothing_else(&mut bo).await;
}

#[tokio::test]
async fn whoever_asks_over_rest_is_told_at_once() {
    let rest = Rest::start_with(OPEN).await;
    let (server, ana) = (&rest.server, rest.user("ana"));
    assert_eq!(ana.get("/v1/presence/bo").await.is(200), unknown("bo"));
    let bo = server.connect("bo").await;
    is_known(&ana.get("/v1/presence/bo").await.is(200), "bo", "online");
    let cy = server.connect("cy").await;
    bo.leaves().await;
    let offline = ana.get("/v1/presence/bo").await.is(200);
    is_known(&offline, "bo", "offline");
    let query = json!({ "user_ids": ["cy", "bo", "nobody", "cy"] });
    let page = ana.post("/v1/presence/query", &query).await.is(200);
    assert_eq!(page["next_cursor"], Value::Null);
    let [first, second, third, fourth] = page["items"].as_array().unwrap().as_slice() else {
        panic!("{page}")
    };
    is_known(first, "cy", "online");
    assert_eq!(second, &offline);
    assert_eq!(third, &unknown("nobody"));
    assert_eq!(fourth, first, "in the order asked, each as often as named");
    drop(cy);
}

#[tokio::test]
async fn a_query_names_one_to_five_hundred_users_and_comes_ten_times_a_second() {
    let rest = Rest::start_with(OPEN).await;
    let ana = rest.user("ana");
    let named = |count: usize| {
        let names: Vec<String> = (0..count).map(|number| format!("u{number}")).collect();
        json!({ "user_ids": names })
    };
    let page = ana.post("/v1/presence/query", &named(500)).await.is(200);
    assert_eq!(page["items"].as_array().unwrap().len(), 500);
    for body in [named(501), named(0), json!({}), json!({ "user_ids": ["a b"] })] {
        let error = ana.post("/v1/presence/query", &body).await.refuses(400, "INVALID_MESSAGE");
        let field = error["details"]["field"].as_str().unwrap_or_default();
        assert!(field.starts_with("user_ids"), "{error}");
    }
    ana.get("/v1/presence/a%20b").await.refuses(400, "INVALID_MESSAGE");
    // Both kinds are paid from the same purse, which is the caller's own.
    let mut refusals = Vec::new();
    for number in 0..60 {
        let answer = match number % 2 {
            0 => ana.get("/v1/presence/bo").await,
            _ => ana.post("/v1/presence/query", &named(1)).await,
        };
        if answer.status != 200 {
            answer.refuses(429, "RATE_LIMITED");
            refusals.push(answer.header("retry-after").map(str::to_owned));
        }
    }
    if refusals.is_empty() {
        // The machine is slower than the limit: only a burst of parallel calls can show it.
        let burst = (0..60).map(|_| ana.get("/v1/presence/bo"));
        let answers = futures_util::future::join_all(burst).await;
        let refused = answers.iter().filter(|answer| answer.status == 429);
        refusals = refused.map(|answer| answer.header("retry-after").map(str::to_owned)).collect();
    }
    assert!(!refusals.is_empty(), "sixty queries in a breath are too many");
    assert!(refusals.iter().all(|after| after.as_deref() == Some("1")), "{refusals:?}");
    rest.user("cy").get("/v1/presence/bo").await.is(200);
}
