//! The port [`Chats`]: chats and their members.

use async_trait::async_trait;
use heartline_protocol::server_frame::{Chat, ChatKind, Message, Role};
use heartline_protocol::{ChatId, UserId};

use crate::store::StoreError;

/// Members of the largest group.
pub const GROUP_MEMBERS_MAX: usize = 1000;

/// Characters of the longest chat name.
pub const CHAT_NAME_CHARACTERS_MAX: usize = 128;

/// A chat to be created. Its fields were validated where the request entered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewChat {
    /// Between two, or for many.
    pub kind: ChatKind,
    /// Its name; a direct chat has none.
    pub name: Option<String>,
    /// The creator: the owner of a group, one of the pair of a direct chat.
    pub creator_id: UserId,
    /// The others, without the creator, each once. Exactly one for a direct chat.
    pub member_ids: Vec<UserId>,
}

/// An `Idempotency-Key`: within 24 hours the same key of the same user on the same route gives
/// the first result; with another request it is a conflict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// Whose key it is.
    pub user_id: UserId,
    /// The method and path that it came with.
    pub route: String,
    /// The key.
    pub key: String,
    /// A digest of the request.
    pub fingerprint: [u8; 32],
}

/// A chat that was created, or found.
#[derive(Debug, Clone, PartialEq)]
pub struct Created {
    /// The chat.
    pub chat: Chat,
    /// False when it was there already: the pair's direct chat, or the result of the same key.
    pub is_new: bool,
    /// The version of its membership.
    pub members_version: u64,
}

/// On whose behalf something is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actor {
    /// A user, within what their role allows.
    User(UserId),
    /// The application's own back end, which may do what an owner may.
    Service,
}

/// A change to a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChatEdit {
    /// Another name, or none; for owners and admins.
    Rename(Option<String>),
    /// A new member. Owners may give any role but `owner`, admins only `member`.
    Add {
        /// The member.
        user_id: UserId,
        /// Their role.
        role: Role,
    },
    /// Another role; for owners. Making somebody else owner makes the acting owner an admin.
    SetRole {
        /// The member.
        user_id: UserId,
        /// Their role.
        role: Role,
    },
    /// A member goes: by themselves, or removed by an owner, or by an admin if they are a plain
    /// member. The owner goes only after making another one owner.
    Remove {
        /// The member.
        user_id: UserId,
    },
    /// The chat and its messages are no more; for owners.
    Delete,
}

/// A chat that was changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Edited {
    /// The chat after the change; its last state when it was deleted.
    pub chat: Chat,
    /// The version of its membership.
    pub members_version: u64,
    /// Users who were members before and are not any more.
    pub removed: Vec<UserId>,
    /// False when everything was as asked for already: nobody needs to be told.
    pub has_changed: bool,
}

/// Why a chat was not changed, though the store works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The actor does not belong to the chat, or there is no such chat.
    #[error("not a member of this chat")]
    NotAMember,
    /// The actor's role does not allow it.
    #[error("your role in this chat does not allow it")]
    Forbidden,
    /// The user whom it concerns is not a member.
    #[error("this user is not a member of the chat")]
    NoSuchMember,
    /// The user to be added is a member, with another role.
    #[error("this user is a member already, with another role")]
    AlreadyMember,
    /// The group has as many members as a group may have.
    #[error("the group is full")]
    Full,
    /// The owner may not go, or be made less, before another one is owner.
    #[error("the owner must make another member owner first")]
    OwnerMustStay,
    /// A direct chat has no name, and its two members stay.
    #[error("a direct chat cannot be changed like this")]
    DirectChat,
    /// The same `Idempotency-Key` came with another request.
    #[error("this Idempotency-Key was used for another request")]
    KeyReused,
}

/// A chat as its member's list shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatSummary {
    /// The chat with its head.
    pub chat: Chat,
    /// How far the user has acknowledged.
    pub last_acked_sequence: u64,
    /// The newest message, if there is one.
    pub last_message: Option<Message>,
}

/// How far a user has acknowledged a chat, on any device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watermark {
    /// The user.
    pub user_id: UserId,
    /// The chat.
    pub chat_id: ChatId,
    /// The user has received every message up to and including this sequence.
    pub last_acked_sequence: u64,
}

/// Chats and their members.
#[async_trait]
pub trait Chats: Send + Sync + std::fmt::Debug {
    /// Creates a chat, or finds the pair's direct chat, or the result of the same key.
    async fn create(
        &self,
        chat: NewChat,
        idempotency: Option<Idempotency>,
    ) -> Result<Result<Created, EditError>, StoreError>;

    /// A chat with its members; none when the viewer is not a member (none asks for the server
    /// itself) or there is no such chat.
    async fn chat(
        &self,
        chat_id: ChatId,
        viewer: Option<&UserId>,
    ) -> Result<Option<Chat>, StoreError>;

    /// The chats of a user in the order of their ids, beginning after one.
    async fn chats_of(
        &self,
        user_id: &UserId,
        after: Option<ChatId>,
        limit: usize,
    ) -> Result<Vec<ChatSummary>, StoreError>;

    /// Changes a chat in one transaction with the check of what the actor may do. Every change of
    /// who belongs to it raises its members' version.
    async fn edit(
        &self,
        chat_id: ChatId,
        actor: Actor,
        edit: ChatEdit,
        idempotency: Option<Idempotency>,
    ) -> Result<Result<Edited, EditError>, StoreError>;

    /// How far each member has acknowledged; none when the viewer is not a member.
    async fn watermarks(
        &self,
        chat_id: ChatId,
        viewer: &UserId,
    ) -> Result<Option<Vec<Watermark>>, StoreError>;
}
