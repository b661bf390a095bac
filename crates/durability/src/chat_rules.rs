//! The rules about who may change a chat: pure decisions, which a store makes inside the
//! transaction that applies them.

use heartline_protocol::UserId;
use heartline_protocol::server_frame::{Chat, ChatKind, Role};

use crate::chats::{Actor, ChatEdit, EditError, GROUP_MEMBERS_MAX};

/// The change that an edit leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The chat is already as requested.
    Nothing,
    /// A new name, or none.
    Name(Option<String>),
    /// A new member with a role.
    Come(UserId, Role),
    /// New roles of members.
    Roles(Vec<(UserId, Role)>),
    /// A member leaves or is removed.
    Go(UserId),
    /// The chat is deleted.
    End,
}

/// Decides an edit of a chat in its present state.
///
/// # Errors
/// The actor may not make this edit, or the chat does not allow it.
pub fn decide(chat: &Chat, actor: &Actor, edit: &ChatEdit) -> Result<Change, EditError> {
    let power = match actor {
        Actor::Service => Role::Owner,
        Actor::User(user_id) => role_in(chat, user_id).ok_or(EditError::NotAMember)?,
    };
    if chat.kind == ChatKind::Direct && *edit != ChatEdit::Delete {
        return Err(EditError::DirectChat);
    }
    match edit {
        ChatEdit::Rename(_) if power == Role::Member => Err(EditError::Forbidden),
        ChatEdit::Rename(name) if *name == chat.name => Ok(Change::Nothing),
        ChatEdit::Rename(name) => Ok(Change::Name(name.clone())),
        ChatEdit::Add { user_id, role } => decide_add(chat, power, user_id, *role),
        ChatEdit::SetRole { user_id, role } => decide_role(chat, power, user_id, *role),
        ChatEdit::Remove { user_id } => {
            let is_own = *actor == Actor::User(user_id.clone());
            decide_remove(chat, power, user_id, is_own)
        }
        ChatEdit::Delete if power == Role::Owner => Ok(Change::End),
        ChatEdit::Delete => Err(EditError::Forbidden),
    }
}

fn decide_add(chat: &Chat, power: Role, user_id: &UserId, role: Role) -> Result<Change, EditError> {
    let is_allowed = match (power, role) {
        (_, Role::Owner) | (Role::Member, _) | (Role::Admin, Role::Admin) => false,
        (Role::Owner, _) | (Role::Admin, Role::Member) => true,
    };
    match role_in(chat, user_id) {
        _ if !is_allowed => Err(EditError::Forbidden),
        Some(present) if present == role => Ok(Change::Nothing),
        Some(_) => Err(EditError::AlreadyMember),
        None if chat.members.len() >= GROUP_MEMBERS_MAX => Err(EditError::Full),
        None => Ok(Change::Come(user_id.clone(), role)),
    }
}

/// A group has exactly one owner at any time.
fn decide_role(
    chat: &Chat,
    power: Role,
    user_id: &UserId,
    role: Role,
) -> Result<Change, EditError> {
    if power != Role::Owner {
        return Err(EditError::Forbidden);
    }
    let present = role_in(chat, user_id).ok_or(EditError::NoSuchMember)?;
    match (present, role) {
        (present, role) if present == role => Ok(Change::Nothing),
        (Role::Owner, _) => Err(EditError::OwnerMustStay),
        (_, Role::Owner) => {
            let owners = chat.members.iter().filter(|member| member.role == Role::Owner);
            let mut roles: Vec<_> =
                owners.map(|owner| (owner.user_id.clone(), Role::Admin)).collect();
            roles.push((user_id.clone(), Role::Owner));
            Ok(Change::Roles(roles))
        }
        (_, role) => Ok(Change::Roles(vec![(user_id.clone(), role)])),
    }
}

fn decide_remove(
    chat: &Chat,
    power: Role,
    user_id: &UserId,
    is_own: bool,
) -> Result<Change, EditError> {
    if power == Role::Member && !is_own {
        return Err(EditError::Forbidden);
    }
    match role_in(chat, user_id).ok_or(EditError::NoSuchMember)? {
        Role::Owner if power == Role::Owner => Err(EditError::OwnerMustStay),
        Role::Owner | Role::Admin if power == Role::Admin && !is_own => Err(EditError::Forbidden),
        Role::Owner | Role::Admin | Role::Member => Ok(Change::Go(user_id.clone())),
    }
}

/// The member who becomes owner when the owner leaves: the longest-standing admin, or else the
/// longest-standing member.
pub fn heir(chat: &Chat, leaving: &UserId) -> Option<UserId> {
    if role_in(chat, leaving) != Some(Role::Owner) {
        return None;
    }
    // Members are listed in the order in which they joined.
    let others = chat.members.iter().filter(|member| member.user_id != *leaving);
    others.min_by_key(|member| rank(member.role)).map(|heir| heir.user_id.clone())
}

/// A role as a number, the highest first.
fn rank(role: Role) -> u8 {
    match role {
        Role::Owner => 0,
        Role::Admin => 1,
        Role::Member => 2,
    }
}

fn role_in(chat: &Chat, user_id: &UserId) -> Option<Role> {
    chat.members.iter().find(|member| member.user_id == *user_id).map(|member| member.role)
}
