//! Chats over REST: made, found again, listed, read, renamed and deleted.

use serde_json::{Value, json};

use crate::rest_client::Rest;

const NO_CHAT: &str = "chat_01ARZ3NDEKTSV4RRFFQ69G5FAV";

fn members_of(chat: &Value) -> Vec<(&str, &str)> {
    let members = chat["members"].as_array().unwrap().iter();
    let mut members: Vec<_> = members
        .map(|member| (member["user_id"].as_str().unwrap(), member["role"].as_str().unwrap()))
        .collect();
    members.sort_unstable();
    members
}

fn ids_of(page: &Value) -> Vec<String> {
    let items = page["items"].as_array().unwrap().iter();
    items.map(|item| item["chat_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_group_is_made_read_renamed_and_deleted() {
    let rest = Rest::start().await;
    let ana = rest.user("ana");
    let body = json!({ "type": "group", "name": "Friends", "member_ids": ["bo", "cy"] });
    let made = ana.post("/v1/chats", &body).await.is(201);
    let expected = vec![("ana", "owner"), ("bo", "member"), ("cy", "member")];
    assert_eq!(members_of(&made), expected);
    assert_eq!((&made["type"], &made["name"]), (&json!("group"), &json!("Friends")));
    assert_eq!(made["head_sequence"], 0);
    let path = format!("/v1/chats/{}", made["chat_id"].as_str().unwrap());
    assert_eq!(rest.user("bo").get(&path).await.is(200), made);

    let named = ana.patch(&path, &json!({ "name": "Family" })).await.is(200);
    assert_eq!(named["name"], "Family");
    assert_eq!(rest.user("cy").get(&path).await.is(200), named);
    let nameless = ana.patch(&path, &json!({ "name": null })).await.is(200);
    assert_eq!(nameless.get("name"), None);

    assert_eq!(ana.delete(&path).await.is(204), Value::Null);
    for user in ["ana", "bo"] {
        rest.user(user).get(&path).await.refuses(403, "NOT_A_MEMBER");
        assert_eq!(rest.user(user).get("/v1/chats").await.is(200)["items"], json!([]));
    }
    rest.service().delete(&path).await.refuses(403, "NOT_A_MEMBER");
}

#[tokio::test]
async fn a_pair_has_one_direct_chat_whoever_makes_it() {
    let rest = Rest::start().await;
    let with = |user: &str| json!({ "type": "direct", "member_ids": [user] });
    let made = rest.user("ana").post("/v1/chats", &with("bo")).await.is(201);
    assert_eq!(made["type"], "direct");
    assert_eq!(rest.user("ana").post("/v1/chats", &with("bo")).await.is(200), made);
    assert_eq!(rest.user("bo").post("/v1/chats", &with("ana")).await.is(200), made);
    let other = rest.user("ana").post("/v1/chats", &with("cy")).await.is(201);
    assert_ne!(other["chat_id"], made["chat_id"]);

    let path = format!("/v1/chats/{}", made["chat_id"].as_str().unwrap());
    let name = json!({ "name": "Us" });
    let error = rest.user("ana").patch(&path, &name).await.refuses(409, "CONFLICT");
    assert_eq!(error["details"]["reason"], "direct_chat");
    let members = format!("{path}/members");
    let cy = json!({ "user_id": "cy" });
    let error = rest.user("ana").post(&members, &cy).await.refuses(409, "CONFLICT");
    assert_eq!(error["details"]["reason"], "direct_chat");
}

#[tokio::test]
async fn naming_oneself_or_somebody_twice_changes_nothing() {
    let rest = Rest::start().await;
    let body = json!({ "type": "group", "member_ids": ["bo", "ana", "bo"] });
    let chat = rest.user("ana").post("/v1/chats", &body).await.is(201);
    assert_eq!(members_of(&chat), [("ana", "owner"), ("bo", "member")]);
    let alone = json!({ "type": "group", "member_ids": [] });
    let chat = rest.user("ana").post("/v1/chats", &alone).await.is(201);
    assert_eq!(members_of(&chat), [("ana", "owner")]);
}

#[tokio::test]
async fn a_service_makes_chats_under_its_own_name_and_sees_all() {
    let rest = Rest::start().await;
    let body = json!({ "type": "group", "member_ids": ["ana"] });
    let made = rest.service().post("/v1/chats", &body).await.is(201);
    assert_eq!(members_of(&made), [("ana", "member"), ("backend", "owner")]);
    let chat = rest.group("ana", &["bo"]).await;
    let path = format!("/v1/chats/{chat}");
    rest.service().get(&path).await.is(200);
    rest.service().get(&format!("{path}/messages")).await.is(200);
    rest.service().get(&format!("{path}/delivery")).await.is(200);
    rest.service().patch(&path, &json!({ "name": "Renamed" })).await.is(200);
    rest.service().delete(&path).await.is(204);
    rest.service().get(&path).await.refuses(403, "NOT_A_MEMBER");
    rest.service().get(&format!("{path}/delivery")).await.refuses(403, "NOT_A_MEMBER");
}

#[tokio::test]
async fn a_list_is_read_page_by_page_with_heads_watermarks_and_last_messages() {
    let rest = Rest::start().await;
    let ana = rest.user("ana");
    let mut made = Vec::new();
    for number in 0..5 {
        let chat = rest.group("ana", &["bo"]).await;
        for message in 0..number {
            ana.send(&chat, &format!("m{message}"), &format!("message {message}")).await.is(201);
        }
        made.push(chat);
    }
    rest.group("bo", &[]).await;
    let whole = ana.get("/v1/chats").await.is(200);
    assert_eq!(ids_of(&whole), made);
    assert_eq!(whole["next_cursor"], Value::Null);
    let last = &whole["items"][4];
    assert_eq!((&last["head_sequence"], &last["last_acked_sequence"]), (&json!(4), &json!(0)));
    assert_eq!(last["last_message"]["content"], "message 3");
    assert_eq!(whole["items"][0].get("last_message"), None);

    let mut found = Vec::new();
    let mut path = "/v1/chats?limit=2".to_owned();
    for expected in [2, 2, 1] {
        let page = ana.get(&path).await.is(200);
        assert_eq!(page["items"].as_array().unwrap().len(), expected);
        found.extend(ids_of(&page));
        path = format!("/v1/chats?limit=2&cursor={}", page["next_cursor"].as_str().unwrap_or("-"));
    }
    assert_eq!(found, made);
    assert!(path.ends_with("cursor=-"), "the last page has no next one: {path}");
}

#[tokio::test]
async fn a_cursor_that_was_changed_or_is_of_another_list_is_refused() {
    let rest = Rest::start().await;
    let ana = rest.user("ana");
    let (first, second) = (rest.group("ana", &["bo"]).await, rest.group("ana", &["bo"]).await);
    for chat in [&first, &second] {
        for number in 0..3 {
            ana.send(chat, &format!("m{number}"), "hello").await.is(201);
        }
    }
    let cursor_of = |page: &Value| page["next_cursor"].as_str().unwrap().to_owned();
    let chats = cursor_of(&ana.get("/v1/chats?limit=1").await.is(200));
    let messages = |chat: &str| format!("/v1/chats/{chat}/messages");
    let newest = ana.get(&format!("{}?limit=1", messages(&first))).await.is(200);
    let newest = cursor_of(&newest);
    let changed = format!("{}x", &chats[..chats.len() - 1]);
    for (user, path, cursor) in [
        ("ana", "/v1/chats", changed.as_str()),
        ("ana", "/v1/chats", "x"),
        ("ana", "/v1/chats", ""),
        ("ana", "/v1/chats", newest.as_str()),
        ("bo", "/v1/chats", chats.as_str()),
        ("bo", &messages(&first), newest.as_str()),
        ("ana", &messages(&second), newest.as_str()),
        ("ana", &messages(&first), chats.as_str()),
    ] {
        let answer = rest.user(user).get(&format!("{path}?cursor={cursor}")).await;
        let error = answer.refuses(400, "INVALID_MESSAGE");
        assert_eq!(error["details"]["field"], "cursor", "{user} {path} {cursor}");
    }
}

#[tokio::test]
async fn a_key_makes_a_chat_once() {
    let rest = Rest::start().await;
    let body = json!({ "type": "group", "name": "Friends", "member_ids": ["bo"] });
    let ana = rest.user("ana");
    let made = ana.post_once("/v1/chats", "key-1", &body).await.is(201);
    let again = ana.post_once("/v1/chats", "key-1", &body).await.is(200);
    assert_eq!(again["chat_id"], made["chat_id"]);
    let other = json!({ "type": "group", "name": "Others", "member_ids": ["bo"] });
    let error = ana.post_once("/v1/chats", "key-1", &other).await.refuses(409, "CONFLICT");
    assert_eq!(error["details"]["reason"], "idempotency_key_reused");
    // Another key, no key, and the same key of another user are different requests.
    let second = ana.post_once("/v1/chats", "key-2", &body).await.is(201);
    let third = ana.post("/v1/chats", &body).await.is(201);
    let of_bo = rest.user("bo").post_once("/v1/chats", "key-1", &body).await.is(201);
    for chat in [&second, &third, &of_bo] {
        assert_ne!(chat["chat_id"], made["chat_id"]);
    }
    assert_eq!(ana.get("/v1/chats").await.is(200)["items"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_chat_that_does_not_exist_and_one_of_others_look_the_same() {
    let rest = Rest::start().await;
    let foreign = rest.group("bo", &["cy"]).await;
    let ana = rest.user("ana");
    let name = json!({ "name": "Mine" });
    let member = json!({ "user_id": "ana" });
    let role = json!({ "role": "admin" });
    let message = json!({ "client_message_id": "m1", "content": "hello" });
    for (method, suffix, body) in [
        ("GET", "", None),
        ("PATCH", "", Some(&name)),
        ("DELETE", "", None),
        ("POST", "/members", Some(&member)),
        ("PATCH", "/members/cy", Some(&role)),
        ("DELETE", "/members/cy", None),
        ("POST", "/leave", None),
        ("GET", "/messages", None),
        ("POST", "/messages", Some(&message)),
        ("GET", "/delivery", None),
    ] {
        let mut answers = Vec::new();
        for chat in [foreign.as_str(), NO_CHAT] {
            let path = format!("/v1/chats/{chat}{suffix}");
            let answer = match (method, body) {
                ("GET", _) => ana.get(&path).await,
                ("PATCH", Some(body)) => ana.patch(&path, body).await,
                ("DELETE", _) => ana.delete(&path).await,
                (_, body) => ana.post(&path, body.unwrap_or(&Value::Null)).await,
            };
            let mut error = answer.refuses(403, "NOT_A_MEMBER");
            let id = error["request_id"].take().as_str().unwrap().to_owned();
            answers.push(answer.body.replace(&id, ""));
        }
        assert_eq!(answers[0], answers[1], "{method} {suffix}");
    }
}

#[tokio::test]
async fn a_group_takes_a_thousand_members_and_not_one_more() {
    let rest = Rest::start().await;
    let others =
        |count: usize| -> Vec<_> { (0..count).map(|number| format!("user-{number}")).collect() };
    let ana = rest.user("ana");
    let too_many = json!({ "type": "group", "member_ids": others(1000) });
    let error = ana.post("/v1/chats", &too_many).await.refuses(400, "INVALID_MESSAGE");
    assert_eq!(error["details"]["field"], "member_ids");
    let almost = json!({ "type": "group", "member_ids": others(998) });
    let chat = ana.post("/v1/chats", &almost).await.is(201);
    let path = format!("/v1/chats/{}", chat["chat_id"].as_str().unwrap());
    let members = format!("{path}/members");
    ana.post(&members, &json!({ "user_id": "the-1000th" })).await.is(201);
    let late = json!({ "user_id": "the-1001st" });
    let error = ana.post(&members, &late).await.refuses(409, "CONFLICT");
    assert_eq!(error["details"]["reason"], "group_full");
    let chat = ana.get(&path).await.is(200);
    assert_eq!(chat["members"].as_array().unwrap().len(), 1000);
    let delivery = ana.get(&format!("{path}/delivery")).await.is(200);
    assert_eq!(delivery["items"].as_array().unwrap().len(), 1000);
    ana.delete(&format!("{members}/user-7")).await.is(204);
    ana.post(&members, &late).await.is(201);
    let full = json!({ "type": "group", "member_ids": others(999) });
    ana.post("/v1/chats", &full).await.is(201);
}

#[tokio::test]
async fn a_page_of_large_groups_ends_early_and_the_next_goes_on() {
    let rest = Rest::start().await;
    let ana = rest.user("ana");
    let others: Vec<_> = (0..999).map(|number| format!("user-{number}")).collect();
    let large = json!({ "type": "group", "member_ids": others });
    let mut made = Vec::new();
    for number in 0..60 {
        let body = if number < 7 { &large } else { &json!({ "type": "group", "member_ids": [] }) };
        let chat = ana.post("/v1/chats", body).await.is(201);
        made.push(chat["chat_id"].as_str().unwrap().to_owned());
    }
    let mut found = Vec::new();
    let mut lengths = Vec::new();
    let mut path = "/v1/chats?limit=200".to_owned();
    loop {
        let page = ana.get(&path).await.is(200);
        lengths.push(page["items"].as_array().unwrap().len());
        found.extend(ids_of(&page));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/v1/chats?limit=200&cursor={cursor}");
    }
    assert_eq!(found, made);
    assert_eq!(lengths, [5, 55]);
}
