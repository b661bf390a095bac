//! The error of a bad request has a code and the name of the field.

use heartline_testing::Response;
use serde_json::{Value, json};

use crate::rest_client::Rest;

fn is_wrong(name: &str, answer: &Response, field: &str) {
    let error = answer.refuses(400, "INVALID_MESSAGE");
    assert_eq!(error["details"]["field"], field, "{name}: {answer:?}");
}

#[tokio::test]
async fn each_wrong_field_of_a_body_is_named() {
    let rest = Rest::start().await;
    let chat = format!("/v1/chats/{}", rest.group("ana", &["bo"]).await);
    let (members, messages) = (format!("{chat}/members"), format!("{chat}/messages"));
    let long = |count: usize| "x".repeat(count);
    for (path, body, field) in [
        ("/v1/chats", json!({ "member_ids": ["bo"] }), "type"),
        ("/v1/chats", json!({ "type": "crowd", "member_ids": ["bo"] }), "type"),
        ("/v1/chats", json!({ "type": "group" }), "member_ids"),
        ("/v1/chats", json!({ "type": "group", "member_ids": "bo" }), "member_ids"),
        ("/v1/chats", json!({ "type": "group", "member_ids": ["bo", "b o"] }), "member_ids[1]"),
        ("/v1/chats", json!({ "type": "group", "member_ids": [7] }), "member_ids[0]"),
        ("/v1/chats", json!({ "type": "group", "name": "", "member_ids": [] }), "name"),
        ("/v1/chats", json!({ "type": "group", "name": long(129), "member_ids": [] }), "name"),
        ("/v1/chats", json!({ "type": "group", "name": "a\nb", "member_ids": [] }), "name"),
        ("/v1/chats", json!({ "type": "group", "name": 7, "member_ids": [] }), "name"),
        ("/v1/chats", json!({ "type": "direct", "member_ids": [] }), "member_ids"),
        ("/v1/chats", json!({ "type": "direct", "member_ids": ["ana"] }), "member_ids"),
        ("/v1/chats", json!({ "type": "direct", "member_ids": ["bo", "cy"] }), "member_ids"),
        ("/v1/chats", json!({ "type": "direct", "name": "Us", "member_ids": ["cy"] }), "name"),
        (&members, json!({}), "user_id"),
        (&members, json!({ "user_id": "" }), "user_id"),
        (&members, json!({ "user_id": long(129) }), "user_id"),
        (&members, json!({ "user_id": "cy", "role": "king" }), "role"),
        (&messages, json!({ "content": "hello" }), "client_message_id"),
        (&messages, json!({ "client_message_id": "m", "content": "" }), "content"),
        (&messages, json!({ "client_message_id": "m", "content": 7 }), "content"),
        (&messages, json!({ "client_message_id": "m m", "content": "x" }), "client_message_id"),
        (&messages, json!({ "client_message_id": long(65), "content": "x" }), "client_message_id"),
        (
            &messages,
            json!({ "client_message_id": "m", "content": "x", "content_type": long(65) }),
            "content_type",
        ),
        (
            &messages,
            json!({ "client_message_id": "m", "content": "x", "content_type": "" }),
            "content_type",
        ),
    ] {
        is_wrong(&body.to_string(), &rest.user("ana").post(path, &body).await, field);
    }
    for (path, body, field) in [
        (chat.as_str(), json!({}), "name"),
        (&chat, json!({ "name": "" }), "name"),
        (&chat, json!({ "name": long(129) }), "name"),
        (&format!("{members}/bo"), json!({}), "role"),
        (&format!("{members}/bo"), json!({ "role": "" }), "role"),
        ("/v1/users/me", json!({}), "display_name"),
        ("/v1/users/me", json!({ "display_name": "" }), "display_name"),
        ("/v1/users/me", json!({ "display_name": long(65) }), "display_name"),
    ] {
        is_wrong(&body.to_string(), &rest.user("ana").patch(path, &body).await, field);
    }
}

#[tokio::test]
async fn the_longest_legal_values_are_taken() {
    let rest = Rest::start().await;
    let ana = rest.user("ana");
    let name = "ü".repeat(128);
    let other = "o".repeat(128);
    let body = json!({ "type": "group", "name": name, "member_ids": [other] });
    let chat = ana.post("/v1/chats", &body).await.is(201);
    assert_eq!(chat["name"], name);
    let path = format!("/v1/chats/{}/messages", chat["chat_id"].as_str().unwrap());
    let message = |content: &str| {
        json!({
            "client_message_id": "m".repeat(64),
            "content": content,
            "content_type": "t".repeat(64),
        })
    };
    let error = ana.post(&path, &message(&"x".repeat(4097))).await;
    assert_eq!(error.refuses(413, "MESSAGE_TOO_LARGE")["details"]["field"], "content");
    let error = ana.post(&path, &message(&"ü".repeat(2049))).await;
    error.refuses(413, "MESSAGE_TOO_LARGE");
    let content = "ü".repeat(2048);
    assert_eq!(ana.post(&path, &message(&content)).await.is(201)["content"], content);
    let display = json!({ "display_name": "ü".repeat(64) });
    ana.patch("/v1/users/me", &display).await.is(200);
}

#[tokio::test]
async fn each_wrong_parameter_is_named() {
    let rest = Rest::start().await;
    let chat = format!("/v1/chats/{}", rest.group("ana", &["bo"]).await);
    let ana = rest.user("ana");
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=-1", "limit"),
        ("limit=1e9", "limit"),
        ("limit=", "limit"),
        ("limit=1&limit=1", "limit"),
        ("cursor=%22", "cursor"),
    ] {
        for path in ["/v1/chats", "/v1/contacts", &format!("{chat}/messages")] {
            is_wrong(query, &ana.get(&format!("{path}?{query}")).await, field);
        }
    }
    for (query, field) in [
        ("before_sequence=-1", "before_sequence"),
        ("after_sequence=x", "after_sequence"),
        ("after_sequence=18446744073709551616", "after_sequence"),
        ("before_sequence=5&after_sequence=1", "after_sequence"),
    ] {
        is_wrong(query, &ana.get(&format!("{chat}/messages?{query}")).await, field);
    }
    for (path, field) in [
        ("/v1/chats/x", "chat_id"),
        ("/v1/chats/chat_/messages", "chat_id"),
        ("/v1/chats/chat_01arz3ndektsv4rrffq69g5fav/delivery", "chat_id"),
        ("/v1/users/a%20b", "user_id"),
    ] {
        is_wrong(path, &ana.get(path).await, field);
    }
    is_wrong("user", &ana.delete(&format!("{chat}/members/%2a")).await, "user_id");
    let body = json!({ "type": "group", "member_ids": [] });
    for key in ["", &"k".repeat(129), "clé"] {
        is_wrong(key, &ana.post_once("/v1/chats", key, &body).await, "Idempotency-Key");
    }
    // Unknown parameters are ignored.
    ana.get("/v1/chats?updated_since=yesterday&limit=5").await.is(200);
}

#[tokio::test]
async fn nothing_is_for_those_without_a_valid_token() {
    let rest = Rest::start().await;
    let chat = format!("/v1/chats/{}", rest.group("ana", &["bo"]).await);
    for (method, path) in [
        ("POST", "/v1/chats"),
        ("GET", "/v1/chats"),
        ("GET", &chat),
        ("PATCH", &chat),
        ("DELETE", &chat),
        ("POST", &format!("{chat}/members")),
        ("PATCH", &format!("{chat}/members/bo")),
        ("DELETE", &format!("{chat}/members/bo")),
        ("POST", &format!("{chat}/leave")),
        ("GET", &format!("{chat}/messages")),
        ("POST", &format!("{chat}/messages")),
        ("GET", &format!("{chat}/delivery")),
        ("GET", "/v1/users/me"),
        ("PATCH", "/v1/users/me"),
        ("GET", "/v1/users/bo"),
        ("DELETE", "/v1/users/bo"),
        ("GET", "/v1/contacts"),
        ("PUT", "/v1/contacts/bo"),
        ("DELETE", "/v1/contacts/bo"),
        ("GET", "/v1/presence/visibility"),
        ("PUT", "/v1/presence/visibility"),
        ("GET", "/v1/admin/nodes"),
    ] {
        let answer = rest.server.http(method, path, "nonsense", Some(&json!({}))).await;
        answer.refuses(401, "UNAUTHORIZED");
        assert!(answer.header("www-authenticate").is_some(), "{method} {path}");
    }
    rest.user("ana").get("/v1/admin/nodes").await.refuses(403, "FORBIDDEN");
}

#[tokio::test]
async fn an_operator_sees_the_node() {
    let rest = Rest::start().await;
    let _socket = rest.server.connect("ana").await;
    // A node publishes its number of connections once a second.
    let page = loop {
        let page = rest.service().get("/v1/admin/nodes").await.is(200);
        if page["items"][0]["connections"] == 1 {
            break page;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    let [node] = page["items"].as_array().unwrap().as_slice() else { panic!("{page}") };
    assert_eq!((&node["connections"], &page["next_cursor"]), (&json!(1), &Value::Null));
    let (id, name) = (node["node_id"].as_str().unwrap(), node["name"].as_str().unwrap());
    assert!(id.starts_with(&format!("{name}-")), "{node}");
    assert_eq!(node["planes"], json!(["gateway", "ingest", "fanout"]));
}
