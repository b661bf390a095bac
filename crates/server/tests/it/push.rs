//! `POST /v1/push` and the rest of HTTP: who may, with what, and what everything else is answered.

use heartline_testing::{Response, Server, service_token, token};
use serde_json::{Value, json};

use crate::HEARTLINE;

fn body(users: usize, data: &Value) -> Value {
    let users: Vec<_> = (0..users).map(|number| format!("user-{number}")).collect();
    json!({ "user_ids": users, "name": "hello", "data": data })
}

async fn push(server: &Server, body: &Value) -> Response {
    server.http("POST", "/v1/push", &service_token(), Some(body)).await
}

/// A push whose head is as given; the body is sent as it is.
async fn push_raw(server: &Server, headers: &str, body: &str) -> Response {
    let request = format!(
        "POST /v1/push HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{headers}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    server.http_raw(request.as_bytes()).await
}

fn authorized(more: &str) -> String {
    format!("Authorization: Bearer {}\r\n{more}", service_token())
}

fn is_refused(name: &str, answer: &Response, status: u16, code: &str) {
    assert_eq!(answer.status, status, "{name}: {answer:?}");
    let error = &answer.json()["error"];
    assert_eq!(error["code"], code, "{name}: {answer:?}");
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{name}");
    assert!(error["request_id"].as_str().is_some_and(|id| id.starts_with("req_")), "{name}");
}

#[tokio::test]
async fn only_a_service_may_push() {
    let server = HEARTLINE.start().await;
    let good = body(1, &json!({}));
    let none = push_raw(&server, "Content-Type: application/json\r\n", &good.to_string()).await;
    is_refused("no token", &none, 401, "UNAUTHORIZED");
    assert!(none.head.contains("www-authenticate: bearer"), "{none:?}");
    let bad = server.http("POST", "/v1/push", "nonsense", Some(&good)).await;
    is_refused("a bad token", &bad, 401, "UNAUTHORIZED");
    let user = server.http("POST", "/v1/push", &token("ana"), Some(&good)).await;
    is_refused("a user's token", &user, 403, "FORBIDDEN");
    assert_eq!(push(&server, &good).await.json(), json!({ "connections": 0 }));
}

#[tokio::test]
async fn a_push_that_is_not_json_says_so() {
    let server = HEARTLINE.start().await;
    let good = body(1, &json!({})).to_string();
    for content_type in ["", "Content-Type: text/plain\r\n", "Content-Type: application/jsonp\r\n"]
    {
        let answer = push_raw(&server, &authorized(content_type), &good).await;
        is_refused(content_type, &answer, 415, "INVALID_MESSAGE");
    }
    let json = authorized("Content-Type: application/json; charset=utf-8\r\n");
    assert_eq!(push_raw(&server, &json, &good).await.status, 200);
    let deep = format!("{{\"user_ids\":[\"ana\"],\"name\":\"n\",\"data\":{}", "[".repeat(10_000));
    for text in ["", "{", "[]", "null", &format!("{good} more"), &deep] {
        let answer = push_raw(&server, &json, text).await;
        is_refused(text.get(..20).unwrap_or(text), &answer, 400, "INVALID_MESSAGE");
        assert_eq!(answer.json()["error"]["details"]["field"], Value::Null, "no field is at fault");
    }
}

#[tokio::test]
async fn a_wrong_field_of_a_push_is_named() {
    let server = HEARTLINE.start().await;
    for (field, value) in [
        ("user_ids", json!("ana")),
        ("user_ids[1]", json!(["ana", "an*"])),
        ("user_ids[0]", json!([7])),
        ("name", json!(7)),
    ] {
        let mut body = body(1, &json!({}));
        body[field.split('[').next().unwrap()] = value;
        let answer = push(&server, &body).await;
        is_refused(field, &answer, 400, "INVALID_MESSAGE");
        assert_eq!(answer.json()["error"]["details"]["field"], field, "{answer:?}");
    }
    for missing in ["user_ids", "name", "data"] {
        let mut body = body(1, &json!({}));
        body.as_object_mut().unwrap().remove(missing);
        let answer = push(&server, &body).await;
        is_refused(missing, &answer, 400, "INVALID_MESSAGE");
        assert_eq!(answer.json()["error"]["details"]["field"], missing, "{answer:?}");
    }
}

#[tokio::test]
async fn the_bounds_of_a_push_hold_exactly() {
    let server = HEARTLINE.start().await;
    let text = |bytes: usize| json!("x".repeat(bytes - 2));
    assert_eq!(push(&server, &body(1000, &json!({}))).await.status, 200);
    assert_eq!(push(&server, &body(1, &text(16 * 1024))).await.status, 200);
    for (name, bad, field) in [
        ("1001 users", body(1001, &json!({})), "user_ids"),
        ("no users", body(0, &json!({})), "user_ids"),
        ("an empty name", json!({ "user_ids": ["ana"], "name": "", "data": {} }), "name"),
        ("a long name", json!({ "user_ids": ["ana"], "name": "x".repeat(129), "data": 1 }), "name"),
    ] {
        let answer = push(&server, &bad).await;
        is_refused(name, &answer, 400, "INVALID_MESSAGE");
        assert_eq!(answer.json()["error"]["details"]["field"], field, "{answer:?}");
    }
    let large = push(&server, &body(1, &text(16 * 1024 + 1))).await;
    is_refused("data over 16 KiB", &large, 413, "MESSAGE_TOO_LARGE");
    let huge = push(&server, &body(1, &text(1024 * 1024))).await;
    is_refused("a body over its limit", &huge, 413, "MESSAGE_TOO_LARGE");
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up() {
    let server = HEARTLINE.start().await;
    let head = format!(
        "POST /v1/push HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{}\
         Transfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n",
        authorized("Content-Type: application/json\r\n")
    );
    let answer = server.http_raw(head.as_bytes()).await;
    is_refused("chunks without an end", &answer, 408, "INVALID_MESSAGE");
}

#[tokio::test]
async fn an_unknown_path_or_method_is_answered_as_an_error() {
    let server = HEARTLINE.start().await;
    for path in ["/v1", "/v2/push", "/v1/push/", "/../../etc/passwd", "/%2e%2e/etc", "/v1/ws/x"] {
        let answer = server.http("GET", path, "", None).await;
        is_refused(path, &answer, 404, "NOT_FOUND");
    }
    for (method, path, allowed) in [
        ("GET", "/v1/push", "post"),
        ("POST", "/livez", "get"),
        ("POST", "/v1/admin/users/ana/connections", "get"),
        ("GET", "/v1/admin/connections/x", "delete"),
    ] {
        let answer = server.http(method, path, &service_token(), None).await;
        is_refused(path, &answer, 405, "INVALID_MESSAGE");
        let allow = answer.head.lines().find(|line| line.starts_with("allow: "));
        assert!(allow.is_some_and(|allow| allow.contains(allowed)), "{answer:?}");
    }
}
