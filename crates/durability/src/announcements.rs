//! The port [`Announcements`]: which stored messages were published on the event bus.

use std::time::Duration;

use async_trait::async_trait;
use heartline_protocol::ChatId;

use crate::store::StoreError;

/// A range of a chat's messages that was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// The chat.
    pub chat_id: ChatId,
    /// The sequence of the first message.
    pub first: u64,
    /// The sequence of the last message.
    pub last: u64,
}

/// A chat with stored messages that were not published in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unpublished {
    /// The chat.
    pub chat_id: ChatId,
    /// Every message up to this sequence was published.
    pub published_sequence: u64,
    /// The chat's newest sequence.
    pub head_sequence: u64,
    /// The version of the chat's membership.
    pub members_version: u64,
}

/// Records which stored messages were published.
#[async_trait]
pub trait Announcements: Send + Sync + std::fmt::Debug {
    /// Records published messages, in any order and by any node. A chat counts as published up to
    /// the first sequence that is not recorded, and that sequence never falls.
    async fn record_published(&self, ranges: Vec<Published>) -> Result<(), StoreError>;

    /// Chats whose oldest unpublished message was stored this long ago by the store's own clock. On
    /// a store that several nodes share, a chat that was returned to one caller is not returned to
    /// another for a while.
    async fn unpublished(
        &self,
        older_than: Duration,
        limit: usize,
    ) -> Result<Vec<Unpublished>, StoreError>;
}
