//! The HTTP requests of a run: create chats, and read them at the end.

use std::net::SocketAddr;

use heartline_testing::{request, seconds_from_now, service_token, sign};
use serde_json::json;

use crate::history::Seen;
use crate::session::seen_in;

/// How many messages one page of a read has.
const PAGE: usize = 200;

/// A token that outlives the longest run.
pub(crate) fn token(user: &str) -> String {
    sign(&json!({ "sub": user, "exp": seconds_from_now(24 * 3600) }))
}

/// Makes a group chat of all these users, the first of whom asks for it.
pub(crate) async fn create_chat(server: SocketAddr, name: &str, users: &[String]) -> String {
    let body = json!({ "type": "group", "name": name, "member_ids": users[1..] });
    let answer = request(server, "POST", "/v1/chats", &token(&users[0]), Some(&body)).await;
    answer.is(201)["chat_id"].as_str().unwrap().to_owned()
}

/// Reads a chat from its beginning.
pub(crate) async fn read_chat(server: SocketAddr, user: &str, chat: &str) -> Vec<Seen> {
    let mut messages: Vec<Seen> = Vec::new();
    loop {
        let after = messages.last().map_or(0, |last| last.sequence);
        let path = format!("/v1/chats/{chat}/messages?after_sequence={after}&limit={PAGE}");
        let page = request(server, "GET", &path, &token(user), None).await.is(200);
        let items = page["items"].as_array().unwrap();
        messages.extend(items.iter().map(seen_in));
        if items.is_empty() {
            return messages;
        }
    }
}

/// The connections of a user, by the names that the servers gave them, as this node knows them.
pub(crate) async fn connections(server: SocketAddr, user: &str) -> Vec<String> {
    let path = format!("/v1/admin/users/{user}/connections");
    let page = request(server, "GET", &path, &service_token(), None).await.is(200);
    let items = page["items"].as_array().unwrap().iter();
    items.map(|item| item["connection_id"].as_str().unwrap().to_owned()).collect()
}
