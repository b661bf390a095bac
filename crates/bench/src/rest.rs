//! REST requests to the server under test, one connection each: chats, heads and metrics.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use heartline_protocol::ChatId;
use heartline_protocol::rest::CreateChat;
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::dial::{find_head_end, readable};
use super::server_under_test::{ServerUnderTest, status_of};

/// Deadline for a response.
const RESPONSE_WITHIN: Duration = Duration::from_secs(10);

/// The fields of a chat that the bench reads.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Chat {
    /// The id.
    pub(super) chat_id: ChatId,
    /// The sequence of the newest message.
    pub(super) head_sequence: u64,
}

/// The batches that the server has stored.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Batches {
    /// The number of batches.
    pub(super) count: f64,
    /// The number of messages in all batches.
    pub(super) messages: f64,
}

/// Creates a chat, or returns the direct chat that the pair already has.
pub(super) async fn create_chat(
    server: &ServerUnderTest,
    creator: &str,
    chat: &CreateChat,
) -> Result<Chat> {
    let chat = serde_json::to_string(chat)?;
    let body = request(server, Some(creator), "POST", "/v1/chats", &chat).await;
    let body = body.context("creating a chat failed")?;
    Ok(serde_json::from_slice(&body)?)
}

/// Reads a chat as one of its members.
pub(super) async fn read_chat(
    server: &ServerUnderTest,
    member: &str,
    chat_id: ChatId,
) -> Result<Chat> {
    let path = format!("/v1/chats/{chat_id}");
    let body = request(server, Some(member), "GET", &path, "").await;
    let body = body.context("reading a chat failed")?;
    Ok(serde_json::from_slice(&body)?)
}

/// The batches so far; none if the server does not serve its metrics.
pub(super) async fn batches(server: &ServerUnderTest) -> Option<Batches> {
    let metrics = request(server, None, "GET", "/metrics", "").await.ok()?;
    Batches::parse(std::str::from_utf8(&metrics).ok()?)
}

impl Batches {
    fn parse(metrics: &str) -> Option<Self> {
        let value = |name: &str| {
            let line = metrics.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().parse().ok()
        };
        Some(Self {
            count: value("durability_batch_messages_count ")?,
            messages: value("durability_batch_messages_sum ")?,
        })
    }

    /// The average number of messages per batch since an earlier reading.
    pub(super) fn size_since(self, earlier: Self) -> f64 {
        (self.messages - earlier.messages) / (self.count - earlier.count)
    }
}

/// Sends a request and returns the body of a successful response.
async fn request(
    server: &ServerUnderTest,
    user: Option<&str>,
    method: &str,
    path: &str,
    body: &str,
) -> Result<Vec<u8>> {
    let authorization = match (user, &server.signer) {
        (Some(user), Some(signer)) => format!("Authorization: Bearer {}\r\n", signer.user(user)?),
        _ => String::new(),
    };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{authorization}\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        server.host,
        body.len()
    );
    let exchange = async {
        let mut stream = TcpStream::connect(server.address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut response = Vec::new();
        stream.read_to_end(&mut response).await?;
        anyhow::Ok(response)
    };
    let mut response = timeout(RESPONSE_WITHIN, exchange)
        .await
        .with_context(|| format!("{method} {path}: no response within {RESPONSE_WITHIN:?}"))??;
    let is_success = matches!(status_of(&response), Some(200 | 201));
    ensure!(is_success, "{method} {path} failed: {}", readable(&response));
    let body_start = find_head_end(&response).context("the response has no complete head")?;
    Ok(response.split_off(body_start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_batches_is_read_from_the_metrics() {
        let metrics = |sum: u32, count: u32| {
            let text = format!(
                "# TYPE durability_batch_messages histogram\n\
                 durability_batch_messages_sum {sum}.0\n\
                 durability_batch_messages_count {count}\n"
            );
            Batches::parse(&text).unwrap()
        };
        assert!((metrics(1000, 20).size_since(metrics(400, 10)) - 60.0).abs() < 1e-9);
        assert_eq!(Batches::parse("other 1\n"), None);
    }
}
