//! Bodies of REST requests and responses.

use serde::{Deserialize, Deserializer, Serialize};

use crate::error_code::ErrorCode;
use crate::ids::{ClientMessageId, UserId};
use crate::server_frame::{Chat, ChatKind, ErrorDetails, Message, Role};

/// The body of every response to a rejected HTTP request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The error.
    pub error: ErrorObject,
}

/// The error of an HTTP request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorObject {
    /// The error code.
    pub code: ErrorCode,
    /// The error as a sentence for people; may change.
    pub message: String,
    /// The id of this request in the server's log.
    pub request_id: String,
    /// Further details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<ErrorDetails>,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// The cursor of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// Items of a page unless the client requests another number.
pub const PAGE_ITEMS: usize = 50;

/// Items of the largest page.
pub const PAGE_ITEMS_MAX: usize = 200;

/// Characters of the longest `Idempotency-Key`.
pub const IDEMPOTENCY_KEY_LENGTH_MAX: usize = 128;

/// The body of `POST /v1/chats`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CreateChat {
    /// Direct or group.
    #[serde(rename = "type")]
    pub kind: ChatKind,
    /// The name of a group; a direct chat has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The members besides the caller; exactly one for a direct chat.
    pub member_ids: Vec<UserId>,
}

/// The body of `PATCH /v1/chats/{chat_id}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RenameChat {
    /// The new name; null removes the name.
    #[serde(deserialize_with = "required")]
    pub name: Option<String>,
}

/// The body of `POST /v1/chats/{chat_id}/members`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AddMember {
    /// The user to add.
    pub user_id: UserId,
    /// The user's role; `member` by default.
    #[serde(default = "plain_member")]
    pub role: Role,
}

/// The body of `PATCH /v1/chats/{chat_id}/members/{user_id}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetRole {
    /// The new role.
    pub role: Role,
}

/// The body of `POST /v1/chats/{chat_id}/messages`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SendMessage {
    /// The message's id, chosen by the sender and the same in every retry.
    pub client_message_id: ClientMessageId,
    /// The content.
    pub content: String,
    /// The type of the content; `text/plain` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The user on whose behalf the message is sent; only with the scope `service`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_id: Option<UserId>,
}

/// The response to `POST /v1/chats/{chat_id}/messages`: the message as it is stored.
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
    /// The chat.
    #[serde(flatten)]
    pub chat: Chat,
    /// The highest sequence that the user has acknowledged, on any device.
    pub last_acked_sequence: u64,
    /// Its newest message, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_message: Option<Message>,
}

/// The highest sequence of a chat that a member has acknowledged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// The member.
    pub user_id: UserId,
    /// The member has received every message up to and including this sequence. Absent if the
    /// caller may not see the member's value, or if another member has received nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_acked_sequence: Option<u64>,
}

/// A user's profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct User {
    /// The user.
    pub user_id: UserId,
    /// The name to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
}

/// The body of `PATCH /v1/users/me`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpdateUser {
    /// The caller's new name to show; null removes it.
    #[serde(deserialize_with = "required")]
    pub display_name: Option<String>,
}

/// The users who may see whether a user is online, and the values derived from that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// Any authenticated user.
    Everyone,
    /// The user's contacts who have added the user as a contact too.
    ContactsOnly,
    /// Only the user.
    Nobody,
}

impl Visibility {
    /// The setting as on the wire.
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
    /// The users who may see the caller's presence.
    pub visibility: Visibility,
}

/// One of the caller's contacts. Whether the contact has added the caller too is not included: that
/// would reveal whether a contact hides or has removed the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contact {
    /// The contact.
    pub user_id: UserId,
}

/// The body of `POST /v1/presence/query`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresenceQuery {
    /// The users whose presence is queried: 1 to 500.
    pub user_ids: Vec<UserId>,
}

/// Users that one presence query may name.
pub const PRESENCE_QUERY_USERS_MAX: usize = 500;

/// Deserialises a field that may be null but not absent.
fn required<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Option::deserialize(deserializer)
}

fn plain_member() -> Role {
    Role::Member
}
