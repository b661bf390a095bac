//! The ports implemented by the durability plane of the same process.
//!
//! [`Relations`](super::Relations) is missing here: the store implements it, and only the process
//! that opened the store knows its type.

use async_trait::async_trait;
use heartline_durability::catch_up::Manifest;
use heartline_durability::{
    CatchUp, Ingest, LazyWrites, LogPage, LogRead, NewMessage, ReadRefusal, SendError,
};
use heartline_protocol::server_frame::Message;
use heartline_protocol::{ChatId, Timestamp, UserId};
use tokio::time::Instant;

use super::{Reads, Records, SendOutcome, Sends};

impl Sends for Ingest {
    fn submit(&self, message: NewMessage, deadline: Instant) -> Result<SendOutcome, SendError> {
        let submission = Self::submit(self, message, deadline)?;
        Ok(Box::pin(submission.outcome()))
    }
}

#[async_trait]
impl Reads for CatchUp {
    async fn page(&self, read: LogRead, deadline: Instant) -> Result<LogPage, ReadRefusal> {
        Self::page(self, read, deadline).await
    }

    async fn manifest(
        &self,
        user_id: &UserId,
        page: Option<&str>,
        deadline: Instant,
    ) -> Result<Manifest, ReadRefusal> {
        Self::manifest(self, user_id, page, deadline).await
    }

    async fn hole(
        &self,
        chat_id: ChatId,
        first: u64,
        last: u64,
        deadline: Instant,
    ) -> Option<Vec<Message>> {
        Self::hole(self, chat_id, first, last, deadline).await
    }
}

impl Records for LazyWrites {
    fn acknowledged(&self, user_id: &UserId, chat_id: ChatId, sequence: u64) {
        Self::acknowledged(self, user_id, chat_id, sequence);
    }

    fn left(&self, user_id: &UserId, at: Timestamp) {
        Self::left(self, user_id, at);
    }
}
