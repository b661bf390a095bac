//! Plain requests to the server under test, one connection each: chats, heads and metrics.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use heartline_protocol::ChatId;
use heartline_protocol::rest::CreateChat;
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::dial::{find_head_end, readable};
use super::subject::{Subject, status_of};

/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// A chat, as far as the bench looks at it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct MadeChat {
    /// Its name.
    pub(super) chat_id: ChatId,
    /// Its newest number.
    pub(super) head_sequence: u64,
}

/// What the server has stored together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Batches {
    /// How many batches.
    pub(super) count: f64,
    /// How many messages they had.
    pub(super) messages: f64,
}

/// Makes a chat, or finds the one that a pair has already.
pub(super) async fn create_chat(
    subject: &Subject,
    creator: &str,
    chat: &CreateChat,
) -> Result<MadeChat> {
    let body = serde_json::to_string(chat)?;
    let answer = request(subject, Some(creator), "POST", "/v1/chats", &body).await;
    let answer = answer.context("a chat could not be made")?;
    Ok(serde_json::from_slice(&answer)?)
}

/// Reads a chat as one of its members.
pub(super) async fn read_chat(
    subject: &Subject,
    member: &str,
    chat_id: ChatId,
) -> Result<MadeChat> {
    let path = format!("/v1/chats/{chat_id}");
    let answer = request(subject, Some(member), "GET", &path, "").await;
    let answer = answer.context("a chat could not be read")?;
    Ok(serde_json::from_slice(&answer)?)
}

/// What the server has stored together up to now; none when it does not show its metrics.
pub(super) async fn batches(subject: &Subject) -> Option<Batches> {
    let answer = request(subject, None, "GET", "/metrics", "").await.ok()?;
    Batches::parse(std::str::from_utf8(&answer).ok()?)
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

    /// Messages of a batch since an earlier moment, on average.
    pub(super) fn size_since(self, earlier: Self) -> f64 {
        (self.messages - earlier.messages) / (self.count - earlier.count)
    }
}

/// Asks and gives the body of a good answer.
async fn request(
    subject: &Subject,
    user: Option<&str>,
    method: &str,
    path: &str,
    body: &str,
) -> Result<Vec<u8>> {
    let authorization = match (user, &subject.signer) {
        (Some(user), Some(signer)) => format!("Authorization: Bearer {}\r\n", signer.user(user)?),
        _ => String::new(),
    };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{authorization}\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        subject.host,
        body.len()
    );
    let exchange = async {
        let mut stream = TcpStream::connect(subject.address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        anyhow::Ok(answer)
    };
    let mut answer = timeout(ANSWER_WITHIN, exchange).await.context("no answer in time")??;
    let is_good = matches!(status_of(&answer), Some(200 | 201));
    ensure!(is_good, "{method} {path} was refused: {}", readable(&answer));
    let body_start = find_head_end(&answer).context("the answer has no end")?;
    Ok(answer.split_off(body_start))
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
