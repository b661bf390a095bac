//! What the run needs of HTTP: chats are made, and read at the end.

use std::net::SocketAddr;
use std::time::Duration;

use heartline_routing::Clock;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::history::Seen;
use crate::server::SECRET;
use crate::session::seen_in;

/// Longer than any answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// How many messages one page of a read has.
const PAGE: usize = 200;

/// A token that outlives the longest run.
pub(crate) fn token(user: &str) -> String {
    let expires = Clock::system().wall().unix_ms / 1000 + 24 * 3600;
    sign(&json!({ "sub": user, "exp": expires }))
}

fn service_token() -> String {
    let expires = Clock::system().wall().unix_ms / 1000 + 3600;
    sign(&json!({ "sub": "operator", "exp": expires, "scope": "service" }))
}

fn sign(claims: &Value) -> String {
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &key).unwrap()
}

async fn ask(server: SocketAddr, token: &str, start: &str, body: &str) -> (u16, Value) {
    let request = format!(
        "{start} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let exchange = async {
        let mut socket = TcpStream::connect(server).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        socket.read_to_end(&mut bytes).await.unwrap();
        String::from_utf8(bytes).unwrap()
    };
    let text = timeout(ANSWER_MAX, exchange).await.expect("an answer in time");
    let (head, body) = text.split_once("\r\n\r\n").expect("an HTTP answer");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let json = serde_json::from_str(body).unwrap_or_else(|_| panic!("not JSON: {text}"));
    (status.expect("a status"), json)
}

/// Makes a group chat of all these users, the first of whom asks for it.
pub(crate) async fn create_chat(server: SocketAddr, name: &str, users: &[String]) -> String {
    let body = json!({ "type": "group", "name": name, "member_ids": users[1..] }).to_string();
    let (status, chat) = ask(server, &token(&users[0]), "POST /v1/chats", &body).await;
    assert_eq!(status, 201, "{chat}");
    chat["chat_id"].as_str().unwrap().to_owned()
}

/// Reads a chat from its beginning.
pub(crate) async fn read_chat(server: SocketAddr, user: &str, chat: &str) -> Vec<Seen> {
    let mut messages: Vec<Seen> = Vec::new();
    loop {
        let after = messages.last().map_or(0, |last| last.sequence);
        let path = format!("/v1/chats/{chat}/messages?after_sequence={after}&limit={PAGE}");
        let (status, page) = ask(server, &token(user), &format!("GET {path}"), "").await;
        assert_eq!(status, 200, "{page}");
        let items = page["items"].as_array().unwrap();
        messages.extend(items.iter().map(seen_in));
        if items.is_empty() {
            return messages;
        }
    }
}

/// The connections of a user, by the names that the servers gave them, as this node knows them.
pub(crate) async fn connections(server: SocketAddr, user: &str) -> Vec<String> {
    let start = format!("GET /v1/admin/users/{user}/connections");
    let (status, page) = ask(server, &service_token(), &start, "").await;
    assert_eq!(status, 200, "{page}");
    let items = page["items"].as_array().unwrap().iter();
    items.map(|item| item["connection_id"].as_str().unwrap().to_owned()).collect()
}
