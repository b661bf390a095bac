//! HTTP requests and responses.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::PATIENCE;

/// The response to an HTTP request.
#[derive(Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The status line and the headers, in lower case.
    pub head: String,
    /// The body.
    pub body: String,
}

impl Response {
    pub(crate) fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("not an HTTP response: {text:?}"));
        Self { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    /// Whether these bytes contain the head and the whole body.
    pub(crate) fn is_complete(bytes: &[u8]) -> bool {
        let text = String::from_utf8_lossy(bytes).to_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        body.len() >= length.map_or(0, |length| length.parse().unwrap())
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The JSON body of a response that must have this status.
    pub fn is(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        if self.body.is_empty() { Value::Null } else { self.json() }
    }

    /// The error object of a response that must have this status and code.
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

/// Sends a request on a new connection.
pub async fn request(
    server: SocketAddr,
    method: &str,
    path: &str,
    token: &str,
    body: Option<&Value>,
) -> Response {
    let body = body.map(Value::to_string).unwrap_or_default();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\
         Authorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    send_request(server, request.as_bytes()).await
}

/// Sends the bytes of a request, and reads the response until the server closes the connection.
pub(crate) async fn send_request(server: SocketAddr, request: &[u8]) -> Response {
    let mut socket = TcpStream::connect(server).await.unwrap();
    socket.write_all(request).await.unwrap();
    let mut bytes = Vec::new();
    timeout(PATIENCE, socket.read_to_end(&mut bytes)).await.expect("a response in time").unwrap();
    Response::parse(&String::from_utf8(bytes).unwrap())
}
