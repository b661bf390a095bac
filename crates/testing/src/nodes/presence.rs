//! Presence as tests speak it: people who come and go, choose who may see them, and look at each
//! other; and a sentinel, whose coming and going shows that nothing else was told.

use std::time::Duration;

use heartline_client::raw::OPCODE_CLOSE;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::chat::open_store;
use crate::{PATIENCE, Server, Socket};

/// Everybody is seen unless they choose otherwise, and long silences are fine.
pub const OPEN: &str = r#"
[presence]
default_visibility = "everyone"
[gateway]
heartbeat_interval = "60s"
heartbeat_timeout = "120s"
"#;

/// Somebody whom a test watches only to know that what came before has been told.
pub const SENTINEL: &str = "sentinel";

// === impl Server ===

impl Server {
    /// Chooses who may see a user.
    pub async fn choose(&self, user: &str, visibility: &str) {
        let body = json!({ "visibility": visibility });
        let answer = self.rest(user, "PUT", "/v1/presence/visibility", Some(&body)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    /// A user puts another as a contact.
    pub async fn put_contact(&self, user: &str, other: &str) {
        let answer = self.rest(user, "PUT", &format!("/v1/contacts/{other}"), None).await;
        assert_eq!(answer.status, 204, "{answer:?}");
    }

    /// A user removes a contact.
    pub async fn remove_contact(&self, user: &str, other: &str) {
        let answer = self.rest(user, "DELETE", &format!("/v1/contacts/{other}"), None).await;
        assert_eq!(answer.status, 204, "{answer:?}");
    }

    /// Makes two users each other's contacts.
    pub async fn befriend(&self, one: &str, other: &str) {
        self.put_contact(one, other).await;
        self.put_contact(other, one).await;
    }

    /// What a user sees of another when asking over REST.
    pub async fn seen(&self, observer: &str, user: &str) -> Value {
        let answer = self.rest(observer, "GET", &format!("/v1/presence/{user}"), None).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// Waits until a user is seen like this, and answers how.
    pub async fn seen_as(&self, observer: &str, user: &str, status: &str) -> Value {
        let wait = async {
            loop {
                let seen = self.seen(observer, user).await;
                if seen["status"] == status {
                    return seen;
                }
                // Ten queries a second are allowed.
                tokio::time::sleep(Duration::from_millis(120)).await;
            }
        };
        timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{user} is never {status}"))
    }

    /// What a user sees of several others in one query, in their order.
    pub async fn all_seen(&self, observer: &str, users: &[&str]) -> Vec<Value> {
        let body = json!({ "user_ids": users });
        let answer = self.rest(observer, "POST", "/v1/presence/query", Some(&body)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["items"].as_array().unwrap().clone()
    }

    /// A group in which something was said just now; nobody hears it any more.
    pub async fn active_group(&self, owner: &str, members: &[&str]) -> String {
        let chat = self.create_group(owner, members).await;
        let body = json!({ "client_message_id": "first", "content": "hello" });
        let path = format!("/v1/chats/{chat}/messages");
        let answer = self.rest(owner, "POST", &path, Some(&body)).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        // It is recorded as published after it was delivered.
        let store = open_store(&self.data());
        let sql = "SELECT count(*) FROM chats WHERE published_sequence < head_sequence";
        while store.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        chat
    }

    /// Lets the sentinel come and go before an observer that hears of it; answers everything else
    /// that the observer got until then. The two are told one after the other, and whatever
    /// happened before the first is told before the second.
    pub async fn meanwhile(&self, observer: &mut Socket) -> Vec<Value> {
        self.all_meanwhile([observer], SENTINEL).await.concat()
    }

    /// The same for several observers and a sentinel of their own.
    pub async fn all_meanwhile<const COUNT: usize>(
        &self,
        mut observers: [&mut Socket; COUNT],
        sentinel: &str,
    ) -> [Vec<Value>; COUNT] {
        let mut heard = [const { Vec::new() }; COUNT];
        let socket = self.connect(sentinel).await;
        for (observer, heard) in observers.iter_mut().zip(&mut heard) {
            heard.extend(observer.until_presence(sentinel, "online").await);
        }
        socket.leaves().await;
        for (observer, heard) in observers.iter_mut().zip(&mut heard) {
            heard.extend(observer.until_presence(sentinel, "offline").await);
        }
        heard
    }

    /// The same, when nothing else may have come.
    pub async fn told_nothing(&self, observer: &mut Socket) {
        let heard = self.meanwhile(observer).await;
        assert!(heard.is_empty(), "{heard:#?}");
    }
}

// === impl Socket ===

impl Socket {
    /// Ends the connection in order, and waits until the server has.
    pub async fn leaves(mut self) {
        self.send_frame(OPCODE_CLOSE, true, &1000_u16.to_be_bytes()).await;
        while self.frame().await.opcode != OPCODE_CLOSE {}
        self.ends().await;
    }

    /// Watches users; answers what the snapshot says of them.
    pub async fn subscribe(&mut self, users: &[&str]) -> Vec<Value> {
        let snapshot = self.watch("presence_subscribe", users).await;
        assert_eq!(snapshot["type"], "presence_snapshot", "{snapshot}");
        snapshot["users"].as_array().unwrap().clone()
    }

    /// Watches users no longer.
    pub async fn unsubscribe(&mut self, users: &[&str]) {
        let snapshot = self.watch("presence_unsubscribe", users).await;
        assert_eq!(snapshot["type"], "presence_snapshot", "{snapshot}");
        assert_eq!(snapshot["users"], json!([]), "{snapshot}");
    }

    /// Sends a presence frame and answers what is said to it, be it good or bad.
    pub async fn watch(&mut self, kind: &str, users: &[&str]) -> Value {
        self.send(&json!({ "type": kind, "request_id": kind, "user_ids": users })).await;
        self.answer_to(kind).await
    }

    /// The next frame, which must be about the presence of this user.
    pub async fn presence(&mut self, user: &str, status: &str) -> Value {
        let frame = self.json().await;
        assert!(is_presence(&frame, user, status), "{user} {status} was expected: {frame}");
        frame
    }

    /// Reads to such a frame, and answers what came before it.
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

    /// Says that the user types, and waits until the server has heard it.
    pub async fn types(&mut self, chat: &str) {
        self.send(&json!({ "type": "typing", "chat_id": chat, "is_typing": true })).await;
        self.send(&json!({ "type": "heartbeat" })).await;
        self.json_of("heartbeat_ack").await;
    }
}

/// Whether a frame tells this of a user.
pub fn is_presence(frame: &Value, user: &str, status: &str) -> bool {
    frame["type"] == "presence_changed" && frame["user_id"] == user && frame["status"] == status
}

/// What is seen of whoever may not be seen.
pub fn unknown(user: &str) -> Value {
    json!({ "user_id": user, "status": "unknown" })
}

/// A state is one of the two that tell something: with a version, and a time if it is offline.
pub fn is_known(seen: &Value, user: &str, status: &str) {
    assert_eq!((&seen["user_id"], &seen["status"]), (&json!(user), &json!(status)), "{seen}");
    assert!(seen["version"].is_u64(), "{seen}");
    assert_eq!(seen["last_seen"].is_string(), status == "offline", "{seen}");
    assert_eq!(seen.get("stale"), None, "{seen}");
}
