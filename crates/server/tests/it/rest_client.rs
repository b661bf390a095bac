//! Users and back ends that speak REST; every answer they get is held against the document.

use std::time::Duration;

use heartline_testing::{Response, Server, service_token, token};
use serde_json::{Value, json};

use crate::HEARTLINE;
use crate::rest_document::Document;

/// A server and its document.
pub(crate) struct Rest {
    pub(crate) server: Server,
    pub(crate) document: Document,
}

impl Rest {
    pub(crate) async fn start() -> Self {
        Self::start_with("").await
    }

    /// A server with more configuration.
    pub(crate) async fn start_with(more: &str) -> Self {
        Self::on(HEARTLINE.start_with(more).await).await
    }

    /// A server that runs already.
    pub(crate) async fn on(server: Server) -> Self {
        let document = Document::of(&server).await;
        Self { server, document }
    }

    pub(crate) fn user(&self, name: &str) -> Caller<'_> {
        Caller { rest: self, token: token(name) }
    }

    pub(crate) fn service(&self) -> Caller<'_> {
        Caller { rest: self, token: service_token() }
    }

    /// Creates a group with an owner and plain members; returns its id.
    pub(crate) async fn group(&self, owner: &str, members: &[&str]) -> String {
        let body = json!({ "type": "group", "name": "Friends", "member_ids": members });
        let chat = self.user(owner).post("/v1/chats", &body).await.is(201);
        chat["chat_id"].as_str().unwrap().to_owned()
    }
}

/// A user with a token.
pub(crate) struct Caller<'a> {
    rest: &'a Rest,
    token: String,
}

impl Caller<'_> {
    pub(crate) async fn get(&self, path: &str) -> Response {
        self.call("GET", path, None, "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Response {
        self.call("POST", path, Some(body), "").await
    }

    pub(crate) async fn put(&self, path: &str, body: Option<&Value>) -> Response {
        self.call("PUT", path, body, "").await
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Response {
        self.call("PATCH", path, Some(body), "").await
    }

    pub(crate) async fn delete(&self, path: &str) -> Response {
        self.call("DELETE", path, None, "").await
    }

    /// A create under an `Idempotency-Key`.
    pub(crate) async fn post_once(&self, path: &str, key: &str, body: &Value) -> Response {
        self.call("POST", path, Some(body), &format!("Idempotency-Key: {key}\r\n")).await
    }

    /// Sends a message; returns the response.
    pub(crate) async fn send(&self, chat: &str, id: &str, content: &str) -> Response {
        let body = json!({ "client_message_id": id, "content": content });
        self.post(&format!("/v1/chats/{chat}/messages"), &body).await
    }

    /// Asks again until an answer is as it should be: for what happens by and by.
    pub(crate) async fn until(&self, path: &str, good: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..200 {
            let answer = self.get(path).await;
            if answer.status == 200 && good(&answer.json()) {
                return answer.json();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{path} did not become as expected: {:?}", self.get(path).await);
    }

    async fn call(&self, method: &str, path: &str, body: Option<&Value>, more: &str) -> Response {
        let text = body.map(Value::to_string).unwrap_or_default();
        let content_type = if body.is_some() { "Content-Type: application/json\r\n" } else { "" };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\
             Authorization: Bearer {}\r\n{content_type}{more}Content-Length: {}\r\n\r\n{text}",
            self.token,
            text.len()
        );
        let answer = self.rest.server.http_raw(request.as_bytes()).await;
        self.rest.document.allows(method, path, body, &answer);
        answer
    }
}
