//! The port [`TypingNotices`], to which the gateway sends typing notices.

use heartline_protocol::{ChatId, UserId};

/// Delivers typing notices to the other members of a chat.
///
/// Delivery is best effort: a notice may be lost, and is never repeated. An implementation checks
/// that the user is a member of the chat, and drops the notice otherwise.
pub trait TypingNotices: Send + Sync + std::fmt::Debug {
    /// Accepts a notice without waiting. Returns whether there was room for it.
    fn typing(&self, chat_id: ChatId, user_id: UserId, is_typing: bool) -> bool;
}
