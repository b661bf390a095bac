//! A token runs out while its connection is open.

use heartline_testing::{Server, Socket, seconds_from_now, sign, token};
use serde_json::{Value, json};

use crate::HEARTLINE;

const CHAT: &str = "chat_01ARZ3NDEKTSV4RRFFQ69G5FAV";

fn short_lived(user: &str) -> String {
    sign(&json!({ "sub": user, "exp": seconds_from_now(2) }))
}

async fn connect_with_token(server: &Server, token: &str) -> (Socket, Value) {
    server.connect_with(&[("Authorization", &format!("Bearer {token}"))]).await
}

fn refresh(token: &str) -> Value {
    json!({ "type": "refresh_token", "request_id": "r1", "token": token })
}

fn request() -> Value {
    json!({ "type": "sync_request", "request_id": "r2", "chat_id": CHAT, "after_sequence": 0 })
}

#[tokio::test]
async fn after_its_token_a_connection_lives_on_until_the_grace_ends() {
    let server = HEARTLINE.start_with("[gateway]\ntoken_grace = \"3s\"\n").await;
    let (mut socket, _) = connect_with_token(&server, &short_lived("ana")).await;
    assert_eq!(socket.json().await["grace_period_seconds"], 3);

    socket.send(&request()).await;
    let error = socket.error("UNAUTHORIZED").await;
    assert_eq!((&error["request_id"], &error["retryable"]), (&json!("r2"), &json!(true)));
    socket.is_open().await;
    assert_eq!(server.push(&["ana"], "hello", json!(1)).await, 1);
    assert_eq!(socket.json().await["data"], 1);
    socket.send(&refresh("nonsense")).await;
    assert_eq!(socket.error("UNAUTHORIZED").await["request_id"], "r1");

    let closing = socket.closes("token_expired", 4401).await;
    assert_eq!(closing["reconnect_allowed"], true);
}

#[tokio::test]
async fn a_refresh_within_the_grace_heals() {
    let server = HEARTLINE.start_with("[gateway]\ntoken_grace = \"30s\"\n").await;
    let (mut socket, _) = connect_with_token(&server, &short_lived("ana")).await;
    assert_eq!(socket.json().await["type"], "token_expired");
    socket.send(&request()).await;
    socket.error("UNAUTHORIZED").await;
    socket.send(&refresh(&short_lived("ana"))).await;
    let refreshed = socket.json_of("token_refreshed").await;
    assert_eq!(refreshed["request_id"], "r1");
    assert!(refreshed["expires_at"].is_string(), "{refreshed}");
    socket.send(&request()).await;
    let answer = socket.json().await;
    assert_eq!(answer["request_id"], "r2");
    assert_ne!(answer["code"], "UNAUTHORIZED", "{answer}");
    // The new token is held to its own end.
    assert_eq!(socket.json().await["type"], "token_expired");
}

#[tokio::test]
async fn a_refresh_before_the_end_is_not_noticed_by_anybody() {
    let server = HEARTLINE.start_with("[gateway]\ntoken_grace = \"0s\"\n").await;
    let (mut refreshed, _) = connect_with_token(&server, &short_lived("ana")).await;
    let (mut other, _) = connect_with_token(&server, &short_lived("bo")).await;
    refreshed.send(&refresh(&token("ana"))).await;
    assert_eq!(refreshed.json().await["type"], "token_refreshed");
    other.closes("token_expired", 4401).await;
    refreshed.is_open().await;
}

#[tokio::test]
async fn the_token_of_another_user_or_device_is_forbidden_and_the_old_one_stays() {
    let server = HEARTLINE.start_with("[gateway]\ntoken_grace = \"0s\"\n").await;
    let exp = seconds_from_now(3);
    let of_device = |user: &str, device: &str, exp: i64| {
        sign(&json!({ "sub": user, "exp": exp, "device_id": device }))
    };
    let (mut socket, _) = connect_with_token(&server, &of_device("ana", "phone", exp)).await;
    let later = seconds_from_now(3600);
    for foreign in [token("bo"), of_device("bo", "phone", later), of_device("ana", "tablet", later)]
    {
        socket.send(&refresh(&foreign)).await;
        let error = socket.error("FORBIDDEN").await;
        assert_eq!((&error["request_id"], &error["retryable"]), (&json!("r1"), &json!(false)));
        socket.is_open().await;
    }
    assert_eq!(server.push(&["bo"], "not for ana", json!({})).await, 0);
    socket.closes("token_expired", 4401).await;
}

#[tokio::test]
async fn a_token_within_the_leeway_is_admitted_and_told_that_it_has_expired() {
    let server = HEARTLINE.start().await;
    let token = sign(&json!({ "sub": "ana", "exp": seconds_from_now(-2) }));
    let (mut socket, established) = connect_with_token(&server, &token).await;
    assert_eq!(established["type"], "connection_established");
    assert_eq!(socket.json().await["grace_period_seconds"], 30);
    socket.is_open().await;
}
