//! The operator's view and actions: connections, health, metrics.

use heartline_engines::free_port;
use heartline_testing::{Response, Server, Socket, bearer, service_token, token};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::HEARTLINE;

const NOBODYS_CONNECTION: &str = "conn_01ARZ3NDEKTSV4RRFFQ69G5FAV_7";

async fn connect_device(server: &Server, user: &str, device: &str) -> (Socket, Value) {
    let bearer = bearer(user);
    server.connect_with(&[("Authorization", &bearer), ("X-Device-ID", device)]).await
}

async fn ask(server: &Server, method: &str, path: &str) -> Response {
    server.http(method, path, &service_token(), None).await
}

async fn list(server: &Server, user: &str) -> Vec<Value> {
    let answer = ask(server, "GET", &format!("/v1/admin/users/{user}/connections")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["next_cursor"], Value::Null);
    answer.json()["items"].as_array().unwrap().clone()
}

fn is_refused(answer: &Response, status: u16, code: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.json()["error"]["code"], code, "{answer:?}");
}

#[tokio::test]
async fn an_operator_sees_the_connections_of_a_user() {
    let server = HEARTLINE.start().await;
    assert_eq!(list(&server, "ana").await, Vec::<Value>::new());
    let (_phone, established) = connect_device(&server, "ana", "phone").await;
    let (_laptop, _) = connect_device(&server, "ana", "laptop").await;
    let (_other, _) = connect_device(&server, "bo", "phone").await;
    let items = list(&server, "ana").await;
    assert_eq!(items.len(), 2);
    let phone = items.iter().find(|item| item["device_id"] == "phone").unwrap();
    assert_eq!(phone["connection_id"], established["connection_id"]);
    assert_eq!(phone["node"], established["server_id"]);
    assert_eq!(phone["outbox"], json!({ "messages": 0, "bytes": 0 }));
    assert!(phone["connected_at"].as_str() < phone["lease_ends_at"].as_str(), "{phone}");
}

#[tokio::test]
async fn an_operator_sees_who_is_on_a_node_and_what_it_counts() {
    let server = HEARTLINE.start().await;
    let (_phone, established) = connect_device(&server, "ana", "phone").await;
    let _guest = server.challenged().await;
    let (_laptop, _) = connect_device(&server, "bo", "laptop").await;
    let items = ask(&server, "GET", "/v1/admin/connections").await.json()["items"].clone();
    let of = |item: &Value| (item["user_id"].clone(), item["device_id"].clone());
    let seen: Vec<_> = items.as_array().unwrap().iter().map(of).collect();
    assert_eq!(seen.len(), 2, "{items}");
    assert!(seen.contains(&(json!("bo"), json!("laptop"))), "{items}");
    let phone = items.as_array().unwrap().iter().find(|item| item["user_id"] == "ana").unwrap();
    assert_eq!(phone["connection_id"], established["connection_id"]);
    assert_eq!(phone["outbox"], json!({ "messages": 0, "bytes": 0 }));
    let one = ask(&server, "GET", "/v1/admin/connections?limit=1").await;
    assert_eq!(one.json()["items"].as_array().unwrap().len(), 1);
    let counted = ask(&server, "GET", "/v1/admin/metrics").await;
    assert!(counted.body.contains("gateway_connections_active"), "{counted:?}");
    for path in ["/v1/admin/connections", "/v1/admin/metrics"] {
        is_refused(&server.http("GET", path, &token("ana"), None).await, 403, "FORBIDDEN");
    }
}

#[tokio::test]
async fn an_operator_ends_one_connection_or_all_of_a_user() {
    let server = HEARTLINE.start().await;
    let (mut phone, established) = connect_device(&server, "ana", "phone").await;
    let (mut laptop, _) = connect_device(&server, "ana", "laptop").await;
    let (mut tablet, _) = connect_device(&server, "ana", "tablet").await;
    let mut other = server.connect("bo").await;

    let id = established["connection_id"].as_str().unwrap();
    let path = format!("/v1/admin/connections/{id}");
    assert_eq!(ask(&server, "DELETE", &path).await.json(), json!({ "connections": 1 }));
    let closing = phone.closes("session_ended", 4403).await;
    assert_eq!(closing["reconnect_allowed"], false);
    server.metric_becomes("gateway_connections_active", 3.0).await;
    is_refused(&ask(&server, "DELETE", &path).await, 404, "NOT_FOUND");

    let path = "/v1/admin/users/ana/connections";
    assert_eq!(ask(&server, "DELETE", path).await.json(), json!({ "connections": 2 }));
    laptop.closes("session_ended", 4403).await;
    tablet.closes("session_ended", 4403).await;
    server.metric_becomes("gateway_connections_active", 1.0).await;
    assert_eq!(ask(&server, "DELETE", path).await.json(), json!({ "connections": 0 }));
    assert_eq!(list(&server, "ana").await, Vec::<Value>::new());
    other.is_open().await;
}

#[tokio::test]
async fn what_does_not_exist_and_what_is_no_id_are_told_apart() {
    let server = HEARTLINE.start().await;
    let unknown = format!("/v1/admin/connections/{NOBODYS_CONNECTION}");
    is_refused(&ask(&server, "DELETE", &unknown).await, 404, "NOT_FOUND");
    for id in ["x", "conn_", "conn_01ARZ3NDEKTSV4RRFFQ69G5FAV", "conn_!_7", "%00"] {
        let path = format!("/v1/admin/connections/{id}");
        is_refused(&ask(&server, "DELETE", &path).await, 400, "INVALID_MESSAGE");
    }
    for user in ["a%20b", "%2a", &"a".repeat(129), "%ff"] {
        let path = format!("/v1/admin/users/{user}/connections");
        for method in ["GET", "DELETE"] {
            is_refused(&ask(&server, method, &path).await, 400, "INVALID_MESSAGE");
        }
    }
    // Every legal id can be asked for, escaped or not.
    assert_eq!(list(&server, "a%7Cb:c+d@e.f_g-h").await, Vec::<Value>::new());
}

#[tokio::test]
async fn only_a_service_is_an_operator() {
    let server = HEARTLINE.start().await;
    let mut ana = server.connect("ana").await;
    let unknown = format!("/v1/admin/connections/{NOBODYS_CONNECTION}");
    for (method, path) in [
        ("GET", "/v1/admin/users/ana/connections"),
        ("DELETE", "/v1/admin/users/ana/connections"),
        ("DELETE", &unknown),
    ] {
        let user = server.http(method, path, &token("ana"), None).await;
        is_refused(&user, 403, "FORBIDDEN");
        let nobody = server.http(method, path, "", None).await;
        is_refused(&nobody, 401, "UNAUTHORIZED");
        assert!(nobody.head.contains("www-authenticate: bearer"), "{nobody:?}");
    }
    ana.is_open().await;
}

#[tokio::test]
async fn health_is_for_everybody_and_says_little() {
    let server = HEARTLINE.start().await;
    let live = server.http("GET", "/livez", "", None).await;
    assert_eq!((live.status, live.json()["status"].as_str()), (200, Some("live")));
    let ready = server.http("GET", "/readyz", "", None).await;
    assert_eq!((ready.status, ready.json()["status"].as_str()), (200, Some("ready")));
    for answer in [live, ready] {
        assert!(!answer.body.contains(env!("CARGO_PKG_VERSION")), "{answer:?}");
        assert!(!answer.head.contains("server:"), "{answer:?}");
    }
}

#[tokio::test]
async fn metrics_are_only_where_they_are_configured() {
    let main = HEARTLINE.start().await;
    let answer = main.http("GET", "/metrics", "", None).await;
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains("gateway_connections_active 0"), "{}", answer.body);
    assert!(answer.body.ends_with("# EOF\n"));

    let nowhere = HEARTLINE.start_with("[metrics]\nlisten = \"\"\n").await;
    is_refused(&nowhere.http("GET", "/metrics", "", None).await, 404, "NOT_FOUND");

    let port = free_port();
    let listen = format!("[metrics]\nlisten = \"127.0.0.1:{port}\"\n");
    let apart = HEARTLINE.start_with(&listen).await;
    is_refused(&apart.http("GET", "/metrics", "", None).await, 404, "NOT_FOUND");
    let metrics = get(port, "/metrics").await;
    assert!(metrics.contains("gateway_connections_active 0"), "{metrics}");
    for path in ["/v1/push", "/v1/ws", "/livez"] {
        assert!(get(port, path).await.starts_with("HTTP/1.1 404"), "{path}");
    }
}

async fn get(port: u16, path: &str) -> String {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).await.unwrap();
    text
}
