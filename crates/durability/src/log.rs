//! The port [`ChatLog`]: stored messages.

use async_trait::async_trait;
use heartline_protocol::server_frame::{ManifestChat, Message};
use heartline_protocol::{ChatId, UserId};

use crate::message::NewMessage;
use crate::store::StoreError;

/// A message that is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Appended {
    /// The message as the store holds it.
    pub message: Message,
    /// Whether an earlier attempt had stored it.
    pub duplicate: bool,
    /// Whether the message is known to have been published; always false for a new one.
    pub published: bool,
    /// The version of the chat's membership at this commit.
    pub members_version: u64,
}

/// Why the store refused one message of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AppendRefusal {
    /// The sender is not a member of the chat, or there is no such chat.
    #[error("not a member of this chat")]
    NotAMember,
    /// The sender used the same `client_message_id` in this chat for another message.
    #[error("this client_message_id was used for another message")]
    Conflict,
    /// The chat's counter is missing or wrong. The chat accepts no messages until an operator
    /// repairs it.
    #[error("this chat is halted")]
    Halted,
}

/// Why one message of a batch was not stored, or may not have been.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// The store refused the message.
    #[error(transparent)]
    Refused(#[from] AppendRefusal),
    /// The store failed. Its outcome says whether the message may be stored all the same.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Where a page of the log begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// The first messages after this sequence.
    After(u64),
    /// The last messages before this sequence.
    Before(u64),
}

/// A request for a page of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct LogRead {
    /// The chat.
    pub chat_id: ChatId,
    /// The user who reads, who must be a member; none for the server itself.
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
    /// The messages in ascending order.
    pub messages: Vec<Message>,
    /// Whether there are more in the direction that was read.
    pub has_more: bool,
    /// The chat's newest sequence, read at the same instant as the messages.
    pub head_sequence: u64,
}

/// Stored messages.
///
/// Per chat the sequences run 1, 2, 3, …; commit order is sequence order, so a reader that has
/// seen a number will never meet a lower one that it could not see before.
#[async_trait]
pub trait ChatLog: Send + Sync + std::fmt::Debug {
    /// Stores messages. Answers one result per message, in order. Within one transaction per chat,
    /// for each: a row that the same sender stored in this chat under the same `client_message_id`
    /// answers first, also after the sender was removed (other content is a conflict, unless the
    /// stored content was deleted); then membership; then the next number.
    ///
    /// One message's refusal affects no other. A failure of the store affects the messages of a
    /// chat alike: none of them is stored, or, if the outcome is unknown, all or none. A failure
    /// that one chat causes (a lock that another transaction holds on it, a constraint, a value
    /// that cannot be read) is answered for the messages of that chat only; those of the other
    /// chats are stored. The outcome of a failure is unknown only if the commit may have happened.
    async fn append(&self, batch: Vec<NewMessage>) -> Vec<Result<Appended, AppendError>>;

    /// A page of a chat; none when the reader is not a member or there is no such chat.
    async fn read(&self, read: LogRead) -> Result<Option<LogPage>, StoreError>;

    /// The chats of a user, ordered by id, beginning after one, with their heads and watermarks.
    async fn manifest(
        &self,
        user_id: &UserId,
        after: Option<ChatId>,
        limit: usize,
    ) -> Result<Vec<ManifestChat>, StoreError>;
}
