//! Changing chats.

use heartline_durability::{Actor, ChatEdit, EditError, Edited, Idempotency};
use heartline_protocol::server_frame::Role;
use heartline_protocol::{ChatId, UserId};
use rusqlite::params;

use super::chats::{self, WholeChat};
use super::create::insert_member;
use super::keys;
use super::rows::role_number;
use super::write_transaction::WriteTransaction;
use heartline_durability::chat_rules::{self, Change};

/// Changes a chat, if the actor may.
pub(super) fn edit(
    transaction: &mut WriteTransaction<'_>,
    chat_id: ChatId,
    actor: &Actor,
    edit: &ChatEdit,
    idempotency: Option<&Idempotency>,
) -> rusqlite::Result<Result<Edited, EditError>> {
    match keys::recall(transaction, idempotency)? {
        Err(refusal) => return Ok(Err(refusal)),
        Ok(Some(first)) => {
            let members_version = first.members_version;
            let (chat, removed) = (first.chat, Vec::new());
            return Ok(Ok(Edited { chat, members_version, removed, has_changed: false }));
        }
        Ok(None) => {}
    }
    let Some(whole) = chats::find(transaction.connection, chat_id)? else {
        return Ok(Err(EditError::NotAMember));
    };
    let change = match chat_rules::decide(&whole.chat, actor, edit) {
        Ok(change) => change,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let edited = apply(transaction, whole, change)?;
    keys::keep(transaction, idempotency, &edited.chat, edited.members_version)?;
    Ok(Ok(edited))
}

/// Applies a change and returns the changed chat.
pub(super) fn apply(
    transaction: &mut WriteTransaction<'_>,
    whole: WholeChat,
    change: Change,
) -> rusqlite::Result<Edited> {
    let WholeChat { key, members_version, chat } = whole;
    let chat_id = chat.chat_id;
    let mut removed = Vec::new();
    match change {
        Change::Nothing => {
            return Ok(Edited { chat, members_version, removed, has_changed: false });
        }
        Change::End => {
            end(transaction, key)?;
            transaction.forget_chat(chat_id);
            let removed = chat.members.iter().map(|member| member.user_id.clone()).collect();
            let members_version = members_version + 1;
            return Ok(Edited { chat, members_version, removed, has_changed: true });
        }
        Change::Name(name) => {
            let sql = "UPDATE chats SET name = ?2 WHERE chat_key = ?1";
            transaction.connection.prepare_cached(sql)?.execute(params![key, name])?;
        }
        Change::Come(user_id, role) => add_member(transaction, key, &user_id, role)?,
        Change::Roles(roles) => {
            for (user_id, role) in roles {
                set_role(transaction, key, &user_id, role)?;
            }
        }
        Change::Go(user_id) => {
            remove_member(transaction, key, &user_id)?;
            removed.push(user_id);
        }
    }
    transaction.forget_chat(chat_id);
    let whole =
        chats::find(transaction.connection, chat_id)?.expect("the chat exists in this transaction");
    let WholeChat { members_version, chat, .. } = whole;
    Ok(Edited { chat, members_version, removed, has_changed: true })
}

fn add_member(
    transaction: &mut WriteTransaction<'_>,
    chat_key: i64,
    user_id: &UserId,
    role: Role,
) -> rusqlite::Result<()> {
    let user_key = transaction.named_user(user_id)?;
    let sql = "SELECT coalesce(max(join_order), 0) + 1 FROM members WHERE chat_key = ?1";
    let join_order =
        transaction.connection.prepare_cached(sql)?.query_row([chat_key], |row| row.get(0))?;
    insert_member(transaction, chat_key, user_key, role, join_order)?;
    raise_version(transaction, chat_key)
}

/// Sets the role of a member.
pub(super) fn set_role(
    transaction: &mut WriteTransaction<'_>,
    chat_key: i64,
    user_id: &UserId,
    role: Role,
) -> rusqlite::Result<()> {
    let user_key = transaction.named_user(user_id)?;
    let sql = "UPDATE members SET role = ?3 WHERE chat_key = ?1 AND user_key = ?2";
    let row = params![chat_key, user_key, role_number(role)];
    transaction.connection.prepare_cached(sql)?.execute(row)?;
    Ok(())
}

fn remove_member(
    transaction: &mut WriteTransaction<'_>,
    chat_key: i64,
    user_id: &UserId,
) -> rusqlite::Result<()> {
    let user_key = transaction.named_user(user_id)?;
    let sql = "DELETE FROM members WHERE chat_key = ?1 AND user_key = ?2";
    transaction.connection.prepare_cached(sql)?.execute([chat_key, user_key])?;
    raise_version(transaction, chat_key)
}

fn raise_version(transaction: &WriteTransaction<'_>, chat_key: i64) -> rusqlite::Result<()> {
    let sql = "UPDATE chats SET members_version = members_version + 1 WHERE chat_key = ?1";
    transaction.connection.prepare_cached(sql)?.execute([chat_key])?;
    Ok(())
}

/// Deletes a chat and its memberships; `forget` deletes its messages later.
fn end(transaction: &WriteTransaction<'_>, chat_key: i64) -> rusqlite::Result<()> {
    for sql in [
        "DELETE FROM members WHERE chat_key = ?1",
        "DELETE FROM chats WHERE chat_key = ?1",
        "INSERT INTO deleted_chats (chat_key) VALUES (?1)",
    ] {
        transaction.connection.prepare_cached(sql)?.execute([chat_key])?;
    }
    Ok(())
}
