//! The port [`Upkeep`]: retention, halted chats, and the write probe.

use std::time::Duration;

use async_trait::async_trait;
use heartline_protocol::ChatId;

use crate::repair::Repair;
use crate::store::StoreError;

/// The upkeep of a store.
#[async_trait]
pub trait Upkeep: Send + Sync + std::fmt::Debug {
    /// Removes up to `limit` messages: those of deleted chats, the content of deleted users'
    /// messages, and, with a retention, those that are older than it by the store's own clock.
    /// Returns the number of changed messages; fewer than `limit` means that nothing is left to do.
    /// A call consists of short transactions, so that sends never wait long for it.
    async fn forget(&self, retention: Option<Duration>, limit: usize) -> Result<usize, StoreError>;

    /// Up to `limit` chats that are halted.
    async fn halted(&self, limit: usize) -> Result<Vec<ChatId>, StoreError>;

    /// Sets a halted chat's counter to exactly its newest sequence and ends the halt.
    async fn repair_counter(&self, chat_id: ChatId) -> Result<Repair, StoreError>;

    /// Succeeds if the store accepts writes. A probe waits in the queue of writes and fails when
    /// they fail; it changes nothing.
    async fn probe(&self) -> Result<(), StoreError>;
}
