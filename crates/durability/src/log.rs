//! The port [`ChatLog`]: messages, numbered and kept.

use std::time::Duration;

use async_trait::async_trait;
use heartline_protocol::server_frame::{ManifestChat, Message};
use heartline_protocol::{ChatId, Timestamp, UserId};

use crate::message::NewMessage;
use crate::store::StoreError;

/// A message that is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Appended {
    /// As it is stored.
    pub message: Message,
    /// Whether an earlier attempt had stored it.
    pub duplicate: bool,
    /// Whether it is known to have been published; always false for a new one.
    pub published: bool,
    /// The version of the chat's membership at this commit.
    pub members_version: u64,
}

/// Why one message of a batch was not stored, though the store works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The sender does not belong to the chat, or there is no such chat.
    #[error("not a member of this chat")]
    NotAMember,
    /// The sender used the same `client_message_id` in this chat for something else.
    #[error("this client_message_id was used for another message")]
    Conflict,
    /// The chat's counter is missing or wrong: nothing is numbered until an operator has acted.
    #[error("this chat is halted")]
    Halted,
}

/// Where a page of the log begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// The first messages after this sequence.
    After(u64),
    /// The last messages before this sequence.
    Before(u64),
}

/// What to read.
#[derive(Debug, Clone, PartialEq)]
pub struct LogRead {
    /// The chat.
    pub chat_id: ChatId,
    /// Who reads, and must be a member; none for the server itself.
    pub reader: Option<UserId>,
    /// Where the page begins.
    pub position: Position,
    /// Messages at most.
    pub limit: usize,
    /// Bytes of content at most; the first message comes whatever its size.
    pub content_bytes_max: usize,
}

/// A page of the log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogPage {
    /// In ascending order.
    pub messages: Vec<Message>,
    /// Whether there are more in the direction that was read.
    pub has_more: bool,
    /// The chat's newest sequence, read in the same instant as the messages.
    pub head_sequence: u64,
}

/// A range of a chat's messages that was announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// The chat.
    pub chat_id: ChatId,
    /// The first of them.
    pub first: u64,
    /// The last of them.
    pub last: u64,
}

/// Messages that were stored and not announced in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unpublished {
    /// The chat.
    pub chat_id: ChatId,
    /// Everything up to here was announced.
    pub published_sequence: u64,
    /// The chat's newest sequence.
    pub head_sequence: u64,
    /// The version of the chat's membership.
    pub members_version: u64,
}

/// Messages, numbered and kept.
///
/// Per chat the sequences run 1, 2, 3, …; commit order is sequence order, so a reader that has
/// seen a number will never meet a lower one that it could not see before.
#[async_trait]
pub trait ChatLog: Send + Sync + std::fmt::Debug {
    /// Stop 6 of the life of a message: stored. Answers one result per message, in order. Within
    /// one transaction, for each: a row that the same sender stored in this chat under the same
    /// `client_message_id` answers first, also after the sender was removed (other content is a
    /// conflict, unless the stored content was deleted); then membership; then the next number.
    /// One message's refusal spoils no other. When the call fails, no message of it is stored, or,
    /// if the outcome is unknown, all or none.
    async fn append(
        &self,
        batch: Vec<NewMessage>,
    ) -> Result<Vec<Result<Appended, AppendError>>, StoreError>;

    /// A page of a chat; none when the reader is not a member or there is no such chat.
    async fn read(&self, read: LogRead) -> Result<Option<LogPage>, StoreError>;

    /// The chats of a user in the order of their ids, beginning after one, with their heads and
    /// how far the user has acknowledged each.
    async fn manifest(
        &self,
        user_id: &UserId,
        after: Option<ChatId>,
        limit: usize,
    ) -> Result<Vec<ManifestChat>, StoreError>;

    /// Records what was announced, in any order and by any node. A chat counts as announced up to
    /// the first number that nobody has recorded, and that never falls.
    async fn record_published(&self, ranges: Vec<Published>) -> Result<(), StoreError>;

    /// Chats whose oldest unannounced message has waited this long by the store's own clock. On a
    /// store that several nodes share, a chat that one caller was given is not given to another
    /// for a while.
    async fn unpublished(
        &self,
        older_than: Duration,
        limit: usize,
    ) -> Result<Vec<Unpublished>, StoreError>;

    /// Removes up to `limit` messages: those of deleted chats, the content of deleted users'
    /// messages, and, with a time, those that were stored before it. Answers how many it changed;
    /// fewer than `limit` means that nothing is left to do. A call is made of short transactions, so
    /// that sends never wait long for it.
    async fn forget(&self, before: Option<Timestamp>, limit: usize) -> Result<usize, StoreError>;

    /// Up to `limit` chats that are halted.
    async fn halted(&self, limit: usize) -> Result<Vec<ChatId>, StoreError>;
}
