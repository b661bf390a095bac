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
    /// Direct or group.
    pub kind: ChatKind,
    /// Its name; a direct chat has none.
    pub name: Option<String>,
    /// The creator: the owner of a group, one of the pair of a direct chat.
    pub creator_id: UserId,
    /// The others, without the creator, each once. Exactly one for a direct chat.
    pub member_ids: Vec<UserId>,
}

/// An `Idempotency-Key`: within 24 hours the same key of the same user on the same route returns
/// the first result; with another request it is a conflict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The user who sent the key.
    pub user_id: UserId,
    /// The method and path of the request.
    pub route: String,
    /// The key.
    pub key: String,
    /// A digest of the request.
    pub fingerprint: [u8; 32],
}

/// A chat that was created or found.
#[derive(Debug, Clone, PartialEq)]
pub struct Created {
    /// The chat.
    pub chat: Chat,
    /// False if the chat existed: the pair's direct chat, or the result of the same key.
    pub is_new: bool,
    /// The version of its membership.
    pub members_version: u64,
}

/// The originator of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actor {
    /// A user, with the rights of their role.
    User(UserId),
    /// The application's own back end, with the rights of an owner.
    Service,
}

/// A change to a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChatEdit {
    /// A new name, or none; for owners and admins.
    Rename(Option<String>),
    /// A new member. Owners may give any role but `owner`, admins only `member`.
    Add {
        /// The member.
        user_id: UserId,
        /// Their role.
        role: Role,
    },
    /// Another role; for owners. Appointing another owner makes the acting owner an admin.
    SetRole {
        /// The member.
        user_id: UserId,
        /// Their role.
        role: Role,
    },
    /// A member leaves, or is removed by an owner, or by an admin if they are a plain member. The
    /// owner can leave only after appointing another owner.
    Remove {
        /// The member.
        user_id: UserId,
    },
    /// The chat and its messages are deleted; for owners.
    Delete,
}

/// A chat that was changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Edited {
    /// The chat after the change; its last state if it was deleted.
    pub chat: Chat,
    /// The version of its membership.
    pub members_version: u64,
    /// Users who were members before the change.
    pub removed: Vec<UserId>,
    /// False if the chat was already as requested: nothing is announced.
    pub has_changed: bool,
}

/// Why the store refused a change of a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The actor is not a member of the chat, or there is no such chat.
    #[error("not a member of this chat")]
    NotAMember,
    /// The actor's role does not allow the change.
    #[error("your role in this chat does not allow it")]
    Forbidden,
    /// The user to change is not a member.
    #[error("this user is not a member of the chat")]
    NoSuchMember,
    /// The user to be added is already a member, with another role.
    #[error("this user is a member already, with another role")]
    AlreadyMember,
    /// The group has the maximum number of members.
    #[error("the group is full")]
    Full,
    /// The owner may not leave or take a lower role before there is another owner.
    #[error("the owner must make another member owner first")]
    OwnerMustStay,
    /// A direct chat has no name, and its two members cannot change.
    #[error("a direct chat cannot be changed like this")]
    DirectChat,
    /// The same `Idempotency-Key` was sent with another request.
    #[error("this Idempotency-Key was used for another request")]
    KeyReused,
}

/// A chat in the list of a member.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatSummary {
    /// The chat with its head.
    pub chat: Chat,
    /// The watermark of the user.
    pub last_acked_sequence: u64,
    /// The newest message, if there is one.
    pub last_message: Option<Message>,
}

/// The watermark of a user in a chat, across devices.
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

    /// A chat with its members; none if the viewer is not a member or there is no such chat.
    /// Without a viewer the server itself reads.
    async fn chat(
        &self,
        chat_id: ChatId,
        viewer: Option<&UserId>,
    ) -> Result<Option<Chat>, StoreError>;

    /// The chats of a user, ordered by id, beginning after `after`.
    async fn chats_of(
        &self,
        user_id: &UserId,
        after: Option<ChatId>,
        limit: usize,
    ) -> Result<Vec<ChatSummary>, StoreError>;

    /// Changes a chat in one transaction with the check of the actor's rights. Every change of its
    /// membership raises its members' version.
    async fn edit(
        &self,
        chat_id: ChatId,
        actor: Actor,
        edit: ChatEdit,
        idempotency: Option<Idempotency>,
    ) -> Result<Result<Edited, EditError>, StoreError>;

    /// The watermarks of all members; none if the viewer is not a member.
    async fn watermarks(
        &self,
        chat_id: ChatId,
        viewer: &UserId,
    ) -> Result<Option<Vec<Watermark>>, StoreError>;
}
