//! Changing chats.

use heartline_durability::{Actor, ChatEdit, EditError, Edited, Idempotency};
use heartline_protocol::server_frame::{Chat, ChatMember, Role};
use heartline_protocol::{ChatId, UserId};

use super::chats::{self, WholeChat};
use super::create::{add_member, refuse};
use super::failure::Failure;
use super::pooled_connection::PooledConnection;
use super::rows::role_number;
use super::{keys, users};
use heartline_durability::chat_rules::{self, Change};

/// Changes a chat, if the actor may.
pub(super) async fn edit(
    mut connection: PooledConnection<'_>,
    chat_id: ChatId,
    actor: &Actor,
    edit: &ChatEdit,
    idempotency: Option<&Idempotency>,
) -> Result<Result<Edited, EditError>, Failure> {
    connection.begin().await?;
    match keys::recall(&mut connection, idempotency).await? {
        Err(refusal) => return refuse(connection, refusal).await,
        Ok(Some(first)) => {
            connection.roll_back().await?;
            let members_version = first.members_version;
            let (chat, removed) = (first.chat, Vec::new());
            return Ok(Ok(Edited { chat, members_version, removed, has_changed: false }));
        }
        Ok(None) => {}
    }
    chats::lock(&mut connection, &[chat_id.into()]).await?;
    let Some(whole) = chats::find(&mut connection, chat_id).await? else {
        return refuse(connection, EditError::NotAMember).await;
    };
    let change = match chat_rules::decide(&whole.chat, actor, edit) {
        Ok(change) => change,
        Err(refusal) => return refuse(connection, refusal).await,
    };
    let edited = apply(&mut connection, whole, change).await?;
    if let Some(idempotency) = idempotency {
        users::named(&mut connection, &[&idempotency.user_id]).await?;
        keys::keep(&mut connection, Some(idempotency), &edited.chat, edited.members_version)
            .await?;
    }
    connection.commit().await?;
    Ok(Ok(edited))
}

/// Applies a change to a locked chat and returns the changed chat.
async fn apply(
    connection: &mut PooledConnection<'_>,
    whole: WholeChat,
    change: Change,
) -> Result<Edited, Failure> {
    let WholeChat { key, mut members_version, mut chat } = whole;
    let mut removed = Vec::new();
    match change {
        Change::Nothing => {
            return Ok(Edited { chat, members_version, removed, has_changed: false });
        }
        Change::End => {
            end(connection, &[key]).await?;
            removed = chat.members.iter().map(|member| member.user_id.clone()).collect();
            members_version += 1;
        }
        Change::Name(name) => {
            const RENAME: &str = "UPDATE chats SET name = $2 WHERE chat_key = $1";
            connection.write(RENAME, &[&key, &name]).await?;
            chat.name = name;
        }
        Change::Come(user_id, role) => {
            let named = users::named(connection, &[&user_id]).await?;
            for user_key in named.into_values() {
                add_member(connection, key, user_key, role).await?;
            }
            raise_versions(connection, &[key]).await?;
            members_version += 1;
            chat.members.push(ChatMember { user_id, role });
        }
        Change::Roles(roles) => {
            for (user_id, role) in roles {
                set_roles(connection, &[key], &[&user_id], role).await?;
                set_role(&mut chat, &user_id, role);
            }
        }
        Change::Go(user_id) => {
            remove_members(connection, &[key], &user_id).await?;
            raise_versions(connection, &[key]).await?;
            members_version += 1;
            chat.members.retain(|member| member.user_id != user_id);
            removed.push(user_id);
        }
    }
    Ok(Edited { chat, members_version, removed, has_changed: true })
}

/// Sets the role of a member in the chat that will be returned.
pub(super) fn set_role(chat: &mut Chat, user_id: &UserId, role: Role) {
    for member in chat.members.iter_mut().filter(|member| member.user_id == *user_id) {
        member.role = role;
    }
}

/// Sets the role of one member of each chat.
pub(super) async fn set_roles(
    connection: &mut PooledConnection<'_>,
    chat_keys: &[i64],
    user_ids: &[&UserId],
    role: Role,
) -> Result<(), Failure> {
    const SET_ROLES: &str = "UPDATE members m SET role = $3
        FROM unnest($1::bigint[], $2::text[]) AS n (chat_key, user_id)
        CROSS JOIN LATERAL (
            SELECT k.user_key FROM users k WHERE k.user_id = n.user_id LIMIT 1
        ) u
        WHERE m.chat_key = n.chat_key AND m.user_key = u.user_key";
    let user_ids: Vec<&str> = user_ids.iter().map(|user_id| user_id.as_str()).collect();
    connection.write(SET_ROLES, &[&chat_keys, &user_ids, &role_number(role)]).await.map(drop)
}

/// Removes a member from chats.
pub(super) async fn remove_members(
    connection: &mut PooledConnection<'_>,
    chat_keys: &[i64],
    user_id: &UserId,
) -> Result<(), Failure> {
    const REMOVE: &str = "DELETE FROM members WHERE chat_key = ANY ($1)
        AND user_key = (SELECT user_key FROM users WHERE user_id = $2)";
    connection.write(REMOVE, &[&chat_keys, &user_id.as_str()]).await.map(drop)
}

/// Raises the membership version of chats.
pub(super) async fn raise_versions(
    connection: &mut PooledConnection<'_>,
    chat_keys: &[i64],
) -> Result<(), Failure> {
    const RAISE: &str =
        "UPDATE chats SET members_version = members_version + 1 WHERE chat_key = ANY ($1)";
    connection.write(RAISE, &[&chat_keys]).await.map(drop)
}

/// Deletes chats and their memberships; `forget` deletes their messages later.
pub(super) async fn end(
    connection: &mut PooledConnection<'_>,
    chat_keys: &[i64],
) -> Result<(), Failure> {
    for sql in [
        "DELETE FROM members WHERE chat_key = ANY ($1)",
        "DELETE FROM unpublished_chats WHERE chat_key = ANY ($1)",
        "DELETE FROM published_ranges WHERE chat_key = ANY ($1)",
        "DELETE FROM chats WHERE chat_key = ANY ($1)",
        "INSERT INTO deleted_chats (chat_key) SELECT unnest($1::bigint[])",
    ] {
        connection.write(sql, &[&chat_keys]).await?;
    }
    Ok(())
}
