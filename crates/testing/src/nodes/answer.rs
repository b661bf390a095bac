//! HTTP requests and their answers.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::PATIENCE;

/// The answer to an HTTP request.
#[derive(Debug)]
pub struct Answer {
    /// The status of the answer.
    pub status: u16,
    /// Its status line and headers, in lower case.
    pub head: String,
    /// Its body.
    pub body: String,
}

impl Answer {
    pub(crate) fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("not an HTTP answer: {text:?}"));
        Self { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    /// Whether these bytes hold a head and all of the body that it announces.
    pub(crate) fn is_whole(bytes: &[u8]) -> bool {
        let text = String::from_utf8_lossy(bytes).to_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        body.len() >= length.map_or(0, |length| length.parse().unwrap())
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The body of an answer that must have this status.
    pub fn is(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        if self.body.is_empty() { Value::Null } else { self.json() }
    }

    /// The error of an answer that must be this refusal.
    pub fn refuses(&self, status: u16, code: &str) -> Value {
        let body = self.is(status);
        assert_eq!(body["error"]["code"], code, "{self:?}");
        body["error"].clone()
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let prefix = format!("{name}: ");
        self.head.lines().find_map(|line| line.strip_prefix(prefix.as_str()))
    }
}

/// Sends a request on a connection of its own.
pub async fn request(
    server: SocketAddr,
    method: &str,
    path: &str,
    token: &str,
    body: Option<&Value>,
) -> Answer {
    let body = body.map(Value::to_string).unwrap_or_default();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\
         Authorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    send_request(server, request.as_bytes()).await
}

/// Sends the bytes of a request, and reads the answer to its end.
pub(crate) async fn send_request(server: SocketAddr, request: &[u8]) -> Answer {
    let mut socket = TcpStream::connect(server).await.unwrap();
    socket.write_all(request).await.unwrap();
    let mut bytes = Vec::new();
    timeout(PATIENCE, socket.read_to_end(&mut bytes)).await.expect("an answer").unwrap();
    Answer::parse(&String::from_utf8(bytes).unwrap())
}
