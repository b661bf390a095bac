//! What is said over REST: the shapes that every answer shares, and those of single routes.

use serde::{Deserialize, Deserializer, Serialize};

use crate::error_code::ErrorCode;
use crate::ids::{ClientMessageId, UserId};
use crate::server_frame::{Chat, ChatKind, ErrorDetails, Message, Role};

/// The body of every refused HTTP request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The refusal.
    pub error: ErrorObject,
}

/// What was refused and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorObject {
    /// What went wrong.
    pub code: ErrorCode,
    /// The same for a person.
    pub message: String,
    /// Names this request in the server's log.
    pub request_id: String,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<ErrorDetails>,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where the next page begins, if there is one.
    pub next_cursor: Option<String>,
}

/// Items of a page unless the client asks for another number.
pub const PAGE_ITEMS: usize = 50;

/// Items of the largest page.
pub const PAGE_ITEMS_MAX: usize = 200;

/// Characters of the longest `Idempotency-Key`.
pub const IDEMPOTENCY_KEY_LENGTH_MAX: usize = 128;

/// The body of `POST /v1/chats`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CreateChat {
    /// Between two, or for many.
    #[serde(rename = "type")]
    pub kind: ChatKind,
    /// The name of a group; a direct chat has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Who belongs to it besides the caller; exactly one other for a direct chat.
    pub member_ids: Vec<UserId>,
}

/// The body of `PATCH /v1/chats/{chat_id}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RenameChat {
    /// The new name; null takes the name away.
    #[serde(deserialize_with = "required")]
    pub name: Option<String>,
}

/// The body of `POST /v1/chats/{chat_id}/members`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AddMember {
    /// Who.
    pub user_id: UserId,
    /// As what; a plain member unless said otherwise.
    #[serde(default = "plain_member")]
    pub role: Role,
}

/// The body of `PATCH /v1/chats/{chat_id}/members/{user_id}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetRole {
    /// What they may do from now on.
    pub role: Role,
}

/// The body of `POST /v1/chats/{chat_id}/messages`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SendMessage {
    /// The sender's own name for it, the same in every retry.
    pub client_message_id: ClientMessageId,
    /// What is said.
    pub content: String,
    /// What kind of content it is; `text/plain` unless said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// On whose behalf; only for a token with the scope `service`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_id: Option<UserId>,
}

/// The answer to `POST /v1/chats/{chat_id}/messages`: the message as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SentMessage {
    /// The message.
    #[serde(flatten)]
    pub message: Message,
    /// Whether an earlier attempt had stored it.
    pub duplicate: bool,
}

/// A chat in the list of a user's chats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ListedChat {
    /// The chat with its head.
    #[serde(flatten)]
    pub chat: Chat,
    /// How far the user has acknowledged it, on any device.
    pub last_acked_sequence: u64,
    /// Its newest message, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_message: Option<Message>,
}

/// How far a member has acknowledged a chat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// Who.
    pub user_id: UserId,
    /// Everything up to and including this number was received; absent when the asker may not
    /// know, or when another member has received nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_acked_sequence: Option<u64>,
}

/// What a user shows of themselves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct User {
    /// Who.
    pub user_id: UserId,
    /// What they want to be called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
}

/// The body of `PATCH /v1/users/me`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpdateUser {
    /// What the caller wants to be called; null takes the name away.
    #[serde(deserialize_with = "required")]
    pub display_name: Option<String>,
}

/// Who may see whether a user is online, and what follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// Any authenticated user.
    Everyone,
    /// Those whom the user has put as contacts and who have put the user.
    ContactsOnly,
    /// Nobody but the user.
    Nobody,
}

impl Visibility {
    /// The setting as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Everyone => "everyone",
            Self::ContactsOnly => "contacts_only",
            Self::Nobody => "nobody",
        }
    }
}

/// The body of `GET` and `PUT /v1/presence/visibility`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VisibilitySetting {
    /// Who may see the caller's presence.
    pub visibility: Visibility,
}

/// One of the caller's contacts. It does not say whether they have put the caller too: that
/// would tell a contact who hides from one who has removed the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contact {
    /// Who.
    pub user_id: UserId,
}

/// The body of `POST /v1/presence/query`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresenceQuery {
    /// Whose presence: 1 to 500 users.
    pub user_ids: Vec<UserId>,
}

/// Users that one presence query may name.
pub const PRESENCE_QUERY_USERS_MAX: usize = 500;

/// A field that may be null and must be there: without it a body would say nothing.
fn required<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Option::deserialize(deserializer)
}

fn plain_member() -> Role {
    Role::Member
}
