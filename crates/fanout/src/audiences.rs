//! The port [`Audiences`]: the members of chats, read from the store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use heartline_durability::StoreError;
use heartline_protocol::{ChatId, UserId};

/// Companions of one user that the store returns, at most.
pub const COMPANIONS_MAX: usize = 5000;

/// The members of a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audience {
    /// The version of the chat's membership.
    pub members_version: u64,
    /// Every member.
    pub user_ids: Arc<[UserId]>,
}

/// The recipients of messages and presence transitions.
#[async_trait]
pub trait Audiences: Send + Sync + std::fmt::Debug {
    /// The members of a chat; none for an unknown chat. Members and version are read at the same
    /// instant.
    async fn audience(&self, chat_id: ChatId) -> Result<Option<Audience>, StoreError>;

    /// The users who share an active chat with each of these users: the members of their chats that
    /// got a message within `active_within` by the store's own clock, without chats of more than
    /// `members_max`. One list per user, in order; each companion once, without the user; at most
    /// [`COMPANIONS_MAX`].
    async fn companions(
        &self,
        user_ids: &[UserId],
        active_within: Duration,
        members_max: usize,
    ) -> Result<Vec<Vec<UserId>>, StoreError>;
}
