//! Helpers for presence: visibility, contacts, queries, subscriptions, and a sentinel user whose
//! transitions show that no other frame was pending.

use std::time::Duration;

use heartline_client::raw::OPCODE_CLOSE;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::chat::open_store;
use crate::{PATIENCE, Server, Socket};

/// Configuration with visibility for everyone by default, for sockets that send no heartbeats.
pub const OPEN: &str = r#"
[presence]
default_visibility = "everyone"
[gateway]
heartbeat_interval = "60s"
heartbeat_timeout = "120s"
"#;

/// A user whose presence events mark the end of all earlier events.
pub const SENTINEL: &str = "sentinel";

// === impl Server ===

impl Server {
    /// Sets the visibility of a user.
    pub async fn set_visibility(&self, user: &str, visibility: &str) {
        let body = json!({ "visibility": visibility });
        let response = self.rest(user, "PUT", "/v1/presence/visibility", Some(&body)).await;
        assert_eq!(response.status, 200, "{response:?}");
    }

    /// Adds a contact of a user.
    pub async fn add_contact(&self, user: &str, other: &str) {
        let response = self.rest(user, "PUT", &format!("/v1/contacts/{other}"), None).await;
        assert_eq!(response.status, 204, "{response:?}");
    }

    /// Removes a contact of a user.
    pub async fn remove_contact(&self, user: &str, other: &str) {
        let response = self.rest(user, "DELETE", &format!("/v1/contacts/{other}"), None).await;
        assert_eq!(response.status, 204, "{response:?}");
    }

    /// Makes two users each other's contacts.
    pub async fn make_contacts(&self, one: &str, other: &str) {
        self.add_contact(one, other).await;
        self.add_contact(other, one).await;
    }

    /// The presence of a user, queried over REST by an observer.
    pub async fn seen(&self, observer: &str, user: &str) -> Value {
        let response = self.rest(observer, "GET", &format!("/v1/presence/{user}"), None).await;
        assert_eq!(response.status, 200, "{response:?}");
        response.json()
    }

    /// Waits until an observer sees a user with this status, and returns the presence.
    pub async fn seen_as(&self, observer: &str, user: &str, status: &str) -> Value {
        let wait = async {
            loop {
                let seen = self.seen(observer, user).await;
                if seen["status"] == status {
                    return seen;
                }
                // The limit is ten queries per second.
                tokio::time::sleep(Duration::from_millis(120)).await;
            }
        };
        timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{user} is never {status}"))
    }

    /// The presence of several users, in their order, in one query of an observer.
    pub async fn all_seen(&self, observer: &str, users: &[&str]) -> Vec<Value> {
        let body = json!({ "user_ids": users });
        let response = self.rest(observer, "POST", "/v1/presence/query", Some(&body)).await;
        assert_eq!(response.status, 200, "{response:?}");
        response.json()["items"].as_array().unwrap().clone()
    }

    /// Creates a group with one message, whose delivery is complete.
    pub async fn active_group(&self, owner: &str, members: &[&str]) -> String {
        let chat = self.create_group(owner, members).await;
        let body = json!({ "client_message_id": "first", "content": "hello" });
        let path = format!("/v1/chats/{chat}/messages");
        let response = self.rest(owner, "POST", &path, Some(&body)).await;
        assert_eq!(response.status, 201, "{response:?}");
        // A message is recorded as published after its delivery.
        let store = open_store(&self.data());
        let sql = "SELECT count(*) FROM chats WHERE published_sequence < head_sequence";
        while store.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        chat
    }

    /// Connects and disconnects the sentinel, whom the observer must be subscribed to; returns all
    /// other frames that the observer received until then. Presence events arrive in order, so any
    /// earlier event arrives before the sentinel's second one.
    pub async fn frames_until_sentinel(&self, observer: &mut Socket) -> Vec<Value> {
        self.frames_until_sentinel_of([observer], SENTINEL).await.concat()
    }

    /// Like [`Self::frames_until_sentinel`], for several observers and another sentinel.
    pub async fn frames_until_sentinel_of<const COUNT: usize>(
        &self,
        mut observers: [&mut Socket; COUNT],
        sentinel: &str,
    ) -> [Vec<Value>; COUNT] {
        let mut received = [const { Vec::new() }; COUNT];
        let socket = self.connect(sentinel).await;
        for (observer, received) in observers.iter_mut().zip(&mut received) {
            received.extend(observer.until_presence(sentinel, "online").await);
        }
        socket.leaves().await;
        for (observer, received) in observers.iter_mut().zip(&mut received) {
            received.extend(observer.until_presence(sentinel, "offline").await);
        }
        received
    }

    /// Asserts that the observer receives no frame except the sentinel's.
    pub async fn receives_nothing_else(&self, observer: &mut Socket) {
        let received = self.frames_until_sentinel(observer).await;
        assert!(received.is_empty(), "{received:#?}");
    }
}

// === impl Socket ===

impl Socket {
    /// Closes the connection with a closing handshake.
    pub async fn leaves(mut self) {
        self.send_frame(OPCODE_CLOSE, true, &1000_u16.to_be_bytes()).await;
        while self.frame().await.opcode != OPCODE_CLOSE {}
        self.ends().await;
    }

    /// Subscribes to users; returns the snapshot.
    pub async fn subscribe(&mut self, users: &[&str]) -> Vec<Value> {
        let snapshot = self.presence_request("presence_subscribe", users).await;
        assert_eq!(snapshot["type"], "presence_snapshot", "{snapshot}");
        snapshot["users"].as_array().unwrap().clone()
    }

    /// Unsubscribes from users.
    pub async fn unsubscribe(&mut self, users: &[&str]) {
        let snapshot = self.presence_request("presence_unsubscribe", users).await;
        assert_eq!(snapshot["type"], "presence_snapshot", "{snapshot}");
        assert_eq!(snapshot["users"], json!([]), "{snapshot}");
    }

    /// Sends a presence frame and returns the reply, a snapshot or an error.
    pub async fn presence_request(&mut self, kind: &str, users: &[&str]) -> Value {
        self.send(&json!({ "type": kind, "request_id": kind, "user_ids": users })).await;
        self.reply_to(kind).await
    }

    /// The next frame, which must be a presence event of this user with this status.
    pub async fn presence(&mut self, user: &str, status: &str) -> Value {
        let frame = self.json().await;
        assert!(is_presence(&frame, user, status), "{user} {status} was expected: {frame}");
        frame
    }

    /// Reads to the presence event of this user and status; returns the frames before it.
    pub async fn until_presence(&mut self, user: &str, status: &str) -> Vec<Value> {
        let mut before = Vec::new();
        loop {
            let frame = self.json().await;
            if is_presence(&frame, user, status) {
                return before;
            }
            before.push(frame);
        }
    }

    /// Sends a typing notice, and waits until the server has processed it.
    pub async fn types(&mut self, chat: &str) {
        self.send(&json!({ "type": "typing", "chat_id": chat, "is_typing": true })).await;
        self.send(&json!({ "type": "heartbeat" })).await;
        self.json_of("heartbeat_ack").await;
    }
}

/// Whether a frame is a presence event of this user with this status.
pub fn is_presence(frame: &Value, user: &str, status: &str) -> bool {
    frame["type"] == "presence_changed" && frame["user_id"] == user && frame["status"] == status
}

/// The presence of a user whom the observer may not see.
pub fn unknown(user: &str) -> Value {
    json!({ "user_id": user, "status": "unknown" })
}

/// Asserts that a presence has this status, a version, and a last-seen time if it is offline.
pub fn is_known(seen: &Value, user: &str, status: &str) {
    assert_eq!((&seen["user_id"], &seen["status"]), (&json!(user), &json!(status)), "{seen}");
    assert!(seen["version"].is_u64(), "{seen}");
    assert_eq!(seen["last_seen"].is_string(), status == "offline", "{seen}");
    assert_eq!(seen.get("stale"), None, "{seen}");
}
