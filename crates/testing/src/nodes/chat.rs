//! Helpers for chats: groups, sends, pages, manifests, and a write lock on the embedded store.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::{Response, Server, Socket, bearer, token};

/// Configuration for sockets that send no heartbeats.
pub const PATIENT: &str = "[gateway]\nheartbeat_interval = \"60s\"\nheartbeat_timeout = \"120s\"\n";

/// A chat that does not exist.
pub const NO_CHAT: &str = "chat_01ARZ3NDEKTSV4RRFFQ69G5FAV";

// === impl Server ===

impl Server {
    /// Sends a REST request as a user.
    pub async fn rest(
        &self,
        user: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Response {
        self.http(method, path, &token(user), body).await
    }

    /// Creates a group with an owner and plain members; returns its id.
    pub async fn create_group(&self, owner: &str, members: &[&str]) -> String {
        let body = json!({ "type": "group", "name": "Friends", "member_ids": members });
        let response = self.rest(owner, "POST", "/v1/chats", Some(&body)).await;
        assert_eq!(response.status, 201, "{response:?}");
        response.json()["chat_id"].as_str().unwrap().to_owned()
    }

    /// Adds a plain member to a chat.
    pub async fn add_member(&self, owner: &str, chat: &str, user: &str) {
        let body = json!({ "user_id": user });
        let path = format!("/v1/chats/{chat}/members");
        let response = self.rest(owner, "POST", &path, Some(&body)).await;
        assert_eq!(response.status, 201, "{response:?}");
    }

    /// Removes a member from a chat.
    pub async fn remove_member(&self, owner: &str, chat: &str, user: &str) {
        let path = format!("/v1/chats/{chat}/members/{user}");
        let response = self.rest(owner, "DELETE", &path, None).await;
        assert_eq!(response.status, 204, "{response:?}");
    }

    /// The messages of a chat from its beginning, read over REST.
    pub async fn history(&self, user: &str, chat: &str) -> Vec<Value> {
        let path = format!("/v1/chats/{chat}/messages?after_sequence=0&limit=200");
        let response = self.rest(user, "GET", &path, None).await;
        assert_eq!(response.status, 200, "{response:?}");
        response.json()["items"].as_array().unwrap().clone()
    }

    /// A socket of a user's named device.
    pub async fn connect_device(&self, user: &str, device: &str) -> Socket {
        let bearer = bearer(user);
        let headers = [("Authorization", bearer.as_str()), ("X-Device-ID", device)];
        let (socket, established) = self.connect_with(&headers).await;
        assert_eq!(established["device_id"], device);
        socket
    }
}

// === impl Socket ===

impl Socket {
    /// Sends a message without waiting. The request id is the id of the message.
    pub async fn send_message(&mut self, chat: &str, id: &str, content: &str) {
        self.send(&send_frame(chat, id, content)).await;
    }

    /// Sends a message and returns its `message_ack`; skips frames before it.
    pub async fn send_acked(&mut self, chat: &str, id: &str, content: &str) -> Value {
        self.send_message(chat, id, content).await;
        let ack = self.reply_to(id).await;
        assert_eq!(ack["type"], "message_ack", "{ack}");
        ack
    }

    /// Sends a message that must be rejected with this code; returns the error frame.
    pub async fn send_rejected(&mut self, chat: &str, id: &str, code: &str) -> Value {
        self.send_message(chat, id, "hello").await;
        let error = self.reply_to(id).await;
        assert_eq!(error["code"], code, "{error}");
        error
    }

    /// Reads to the reply to a request.
    pub async fn reply_to(&mut self, request_id: &str) -> Value {
        loop {
            let frame = self.json().await;
            if frame["request_id"] == request_id {
                return frame;
            }
        }
    }

    /// Reads to the next message, which must have this content.
    pub async fn receives(&mut self, content: &str) -> Value {
        let message = self.json_of("message").await;
        assert_eq!(message["content"], content, "{message}");
        message
    }

    /// Requests a page and returns the reply, a page or an error.
    pub async fn sync(&mut self, chat: &str, after: u64, limit: Option<u32>) -> Value {
        let mut frame = json!({
            "type": "sync_request", "request_id": "sync", "chat_id": chat, "after_sequence": after
        });
        if let Some(limit) = limit {
            frame["limit"] = limit.into();
        }
        self.send(&frame).await;
        self.reply_to("sync").await
    }

    /// The sequences of a page, its `has_more` and its head.
    pub async fn page(
        &mut self,
        chat: &str,
        after: u64,
        limit: Option<u32>,
    ) -> (Vec<u64>, bool, u64) {
        let page = self.sync(chat, after, limit).await;
        assert_eq!(page["type"], "sync_response", "{page}");
        let has_more = page["has_more"].as_bool().unwrap();
        (sequences(&page), has_more, page["head_sequence"].as_u64().unwrap())
    }

    /// The head and the user's watermark of a chat, from the manifest; none if the chat is not in
    /// it.
    pub async fn manifest_of(&mut self, chat: &str) -> Option<(u64, u64)> {
        self.send(&json!({ "type": "sync_manifest", "request_id": "manifest" })).await;
        let manifest = self.reply_to("manifest").await;
        assert_eq!(manifest["type"], "sync_manifest", "{manifest}");
        assert_eq!(manifest.get("next_page"), None, "one page");
        let chats = manifest["chats"].as_array().unwrap();
        let entry = chats.iter().find(|entry| entry["chat_id"] == chat)?;
        let number = |field: &str| entry[field].as_u64().unwrap();
        Some((number("head_sequence"), number("last_acked_sequence")))
    }

    /// Acknowledges a chat up to this sequence, and waits until the server has processed it.
    pub async fn acknowledge(&mut self, chat: &str, sequence: u64) {
        let ack = json!({ "type": "ack", "chat_id": chat, "last_acked_sequence": sequence });
        self.send(&ack).await;
        self.send(&json!({ "type": "heartbeat" })).await;
        self.json_of("heartbeat_ack").await;
    }
}

/// A `send_message` whose request has the id of the message.
pub fn send_frame(chat: &str, id: &str, content: &str) -> Value {
    json!({
        "type": "send_message", "request_id": id, "chat_id": chat, "client_message_id": id,
        "content": content
    })
}

/// The sequences of a page's messages.
pub fn sequences(page: &Value) -> Vec<u64> {
    let messages = page["messages"].as_array().unwrap().iter();
    messages.map(|message| message["sequence"].as_u64().unwrap()).collect()
}

/// Asserts that an error means that nothing was stored, and when to retry.
pub fn is_rejected(error: &Value) {
    assert_eq!(error["details"]["outcome"], "rejected", "{error}");
    assert_eq!(error["retryable"], true, "{error}");
    let seconds = error["retry_after_seconds"].as_u64().unwrap_or_default();
    assert!((1..=60).contains(&seconds), "{error}");
}

/// Opens the embedded store of a server from another process.
pub fn open_store(data: &Path) -> Connection {
    let connection = Connection::open(data.join("heartline.db")).unwrap();
    connection.busy_timeout(Duration::from_secs(20)).unwrap();
    connection
}

/// A write transaction of another process on the embedded store.
#[derive(Debug)]
pub struct WriteLock(Connection);

impl WriteLock {
    /// Begins the transaction, which blocks the server's writes.
    pub fn hold(server: &Server) -> Self {
        let connection = open_store(&server.data());
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        Self(connection)
    }

    /// Ends the transaction.
    pub fn release(self) {
        self.0.execute_batch("ROLLBACK").unwrap();
    }
}
