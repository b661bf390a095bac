//! Reads for clients: pages of a chat, and the manifest of a user's chats.
//!
//! All reads of clients share one limit, so that many reconnecting clients cannot occupy the store;
//! and one breaker of their own, so that failing reads never stop sends.

use std::sync::Arc;
use std::time::Duration;

use heartline_protocol::limits::{MANIFEST_PAGE_CHATS, SYNC_PAGE_BYTES_MAX};
use heartline_protocol::server_frame::{ErrorDetails, ErrorFrame, ManifestChat, Message};
use heartline_protocol::{ChatId, ErrorCode, UserId, retry_after_seconds};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::warn;

use crate::breaker::Breaker;
use crate::lazy_writes::LazyWrites;
use crate::log::{ChatLog, LogPage, LogRead, Position};
use crate::metrics::Metrics;
use crate::send_error::not_a_member;
use crate::store::{Chain, StoreError};

/// Bytes of a message as JSON besides its content: names, ids of full length, times.
const MESSAGE_JSON_OVERHEAD_BYTES: usize = 512;

/// Why a read was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadRefusal {
    /// The reader is not a member of the chat, or there is no such chat.
    NotAMember,
    /// Too many reads are pending.
    Busy,
    /// The store failed, did not answer in time, or is not called because its breaker is open.
    Unavailable {
        /// When to try again.
        retry_after: Duration,
    },
    /// The requested page was not issued by the server.
    BadPage,
}

impl From<ReadRefusal> for ErrorFrame {
    fn from(refusal: ReadRefusal) -> Self {
        let later = |code, message: &str, retry_after: Duration| {
            let seconds = retry_after_seconds(retry_after);
            Self { retry_after_seconds: Some(seconds), ..Self::new(code, message) }
        };
        match refusal {
            ReadRefusal::NotAMember => not_a_member(),
            ReadRefusal::Busy => {
                let message = "too many clients read at the moment: retry";
                later(ErrorCode::ServerBusy, message, Duration::from_secs(1))
            }
            ReadRefusal::Unavailable { retry_after } => {
                let message = "messages cannot be read at the moment";
                later(ErrorCode::ServiceUnavailable, message, retry_after)
            }
            ReadRefusal::BadPage => {
                let field = Some("page".to_owned());
                let details = Some(ErrorDetails { field, ..Default::default() });
                let message = "page must be the next_page of an earlier response";
                Self { details, ..Self::new(ErrorCode::InvalidMessage, message) }
            }
        }
    }
}

/// A page of a user's chats.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The chats.
    pub chats: Vec<ManifestChat>,
    /// The page to request next, if there is more.
    pub next_page: Option<String>,
}

/// The parts of [`CatchUp`].
#[derive(Debug)]
pub struct CatchUpParts {
    /// The store of messages.
    pub log: Arc<dyn ChatLog>,
    /// The breaker of reads.
    pub breaker: Arc<Breaker>,
    /// Pending reads of clients on this node, at most.
    pub reads_max: usize,
    /// Watermarks that are not written yet.
    pub lazy_writes: LazyWrites,
    /// The counters of the plane.
    pub metrics: Metrics,
}

/// Reads for clients.
#[derive(Debug)]
pub struct CatchUp {
    log: Arc<dyn ChatLog>,
    breaker: Arc<Breaker>,
    gate: Semaphore,
    lazy_writes: LazyWrites,
    metrics: Metrics,
}

impl CatchUp {
    /// Reads with these parts.
    pub fn new(parts: CatchUpParts) -> Self {
        let CatchUpParts { log, breaker, reads_max, lazy_writes, metrics } = parts;
        Self { log, breaker, gate: Semaphore::new(reads_max), lazy_writes, metrics }
    }

    /// A page of a chat, at most as many bytes as JSON as its content may have.
    pub async fn page(&self, read: LogRead, deadline: Instant) -> Result<LogPage, ReadRefusal> {
        let (position, bytes_max) = (read.position, read.content_bytes_max);
        let page = self.guarded(deadline, self.log.read(read)).await?;
        Ok(truncate(page.ok_or(ReadRefusal::NotAMember)?, position, bytes_max))
    }

    /// A page of a user's chats.
    pub async fn manifest(
        &self,
        user_id: &UserId,
        page: Option<&str>,
        deadline: Instant,
    ) -> Result<Manifest, ReadRefusal> {
        let after = page.map(str::parse::<ChatId>).transpose();
        let after = after.map_err(|_| ReadRefusal::BadPage)?;
        let read = self.log.manifest(user_id, after, MANIFEST_PAGE_CHATS + 1);
        let mut chats = self.guarded(deadline, read).await?;
        let has_more = chats.len() > MANIFEST_PAGE_CHATS;
        chats.truncate(MANIFEST_PAGE_CHATS);
        let next_page = chats.last().filter(|_| has_more).map(|chat| chat.chat_id.to_string());
        for ManifestChat { chat_id, head_sequence, last_acked_sequence: acked } in &mut chats {
            *acked = self.lazy_writes.acked(user_id, *chat_id, *head_sequence, *acked);
        }
        Ok(Manifest { chats, next_page })
    }

    /// The messages of a gap, for the server itself; none if they cannot all be read.
    pub async fn hole(
        &self,
        chat_id: ChatId,
        first: u64,
        last: u64,
        deadline: Instant,
    ) -> Option<Vec<Message>> {
        let read = LogRead {
            chat_id,
            reader: None,
            position: Position::After(first - 1),
            limit: (last - first + 1) as usize,
            content_bytes_max: SYNC_PAGE_BYTES_MAX * 4,
        };
        let page = self.call_store(deadline, self.log.read(read)).await.ok()??;
        let is_whole = page.messages.iter().map(|message| message.sequence).eq(first..=last);
        is_whole.then_some(page.messages)
    }

    /// One read of a client. The permit is released after the read, not after its page is written.
    async fn guarded<T>(
        &self,
        deadline: Instant,
        read: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, ReadRefusal> {
        let Ok(_permit) = self.gate.try_acquire() else {
            self.metrics.reads_busy.inc();
            return Err(ReadRefusal::Busy);
        };
        self.call_store(deadline, read).await
    }

    async fn call_store<T>(
        &self,
        deadline: Instant,
        read: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, ReadRefusal> {
        let admitted = self.breaker.admit();
        let pass = admitted.map_err(|retry_after| ReadRefusal::Unavailable { retry_after })?;
        let failure = match tokio::time::timeout_at(deadline, read).await {
            Ok(Ok(answer)) => {
                pass.succeeded();
                return Ok(answer);
            }
            Ok(Err(error)) => Chain(&error).to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        pass.failed();
        self.metrics.reads_failed.inc();
        warn!(error = failure, "store read failed");
        Err(ReadRefusal::Unavailable { retry_after: Duration::from_secs(1) })
    }
}

/// Truncates a page to its bytes: whole messages from the end at which the next page begins, and at
/// least one, so that reading makes progress.
fn truncate(mut page: LogPage, position: Position, bytes_max: usize) -> LogPage {
    let mut bytes = 0;
    let mut fits = |message: &Message| {
        let is_first = bytes == 0;
        bytes += json_bytes(message);
        is_first || bytes <= bytes_max
    };
    let count = page.messages.len();
    let kept = match position {
        Position::After(_) => page.messages.iter().take_while(|message| fits(message)).count(),
        Position::Before(_) => {
            page.messages.iter().rev().take_while(|message| fits(message)).count()
        }
    };
    if kept < count {
        page.has_more = true;
        match position {
            Position::After(_) => page.messages.truncate(kept),
            Position::Before(_) => drop(page.messages.drain(..count - kept)),
        }
    }
    page
}

/// The size of a message as JSON, at most.
fn json_bytes(message: &Message) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    };
    message.content.bytes().map(escaped).sum::<usize>() + MESSAGE_JSON_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use heartline_protocol::{MessageId, ServerFrame, Timestamp, encode_server};
    use ulid::Ulid;

    use super::*;

    fn message(sequence: u64, content: String) -> Message {
        Message {
            chat_id: ChatId(Ulid(u128::MAX)),
            sequence,
            message_id: MessageId(Ulid(u128::MAX)),
            sender_id: "u".repeat(128).parse().unwrap(),
            client_message_id: "m".repeat(64).parse().unwrap(),
            content,
            content_type: "t".repeat(64),
            created_at: Timestamp::from_unix_seconds(0),
            deleted: true,
        }
    }

    #[test]
    fn a_page_never_exceeds_its_bytes_whatever_the_content() {
        for content in ["\u{1}".repeat(4096), "\"".repeat(4096), "a".to_owned(), String::new()] {
            let messages = (1..=500).map(|sequence| message(sequence, content.clone())).collect();
            let whole = LogPage { messages, has_more: false, head_sequence: 500 };
            let page = truncate(whole.clone(), Position::After(0), SYNC_PAGE_BYTES_MAX);
            assert_eq!(page.has_more, page.messages.len() < 500);
            assert!(page.messages.iter().map(|m| m.sequence).eq(1..=page.messages.len() as u64));
            let newest = truncate(whole.clone(), Position::Before(501), SYNC_PAGE_BYTES_MAX);
            assert_eq!(newest.messages.last().unwrap().sequence, 500);
            let least = truncate(whole, Position::After(0), 1);
            assert_eq!((least.messages.len(), least.has_more), (1, true));
            let frame = ServerFrame::SyncResponse {
                request_id: "r".repeat(64).parse().unwrap(),
                chat_id: ChatId(Ulid(0)),
                messages: page.messages,
                has_more: true,
                head_sequence: 500,
            };
            let text = encode_server(&frame, Timestamp::from_unix_seconds(0));
            assert!(text.len() <= SYNC_PAGE_BYTES_MAX, "{} bytes", text.len());
        }
    }
}
