//! Creating chats.

use heartline_durability::chats::GROUP_MEMBERS_MAX;
use heartline_durability::{Created, EditError, Idempotency, NewChat};
use heartline_protocol::ChatId;
use heartline_protocol::server_frame::{ChatKind, Role};
use rusqlite::{OptionalExtension, params};
use ulid::Ulid;

use super::chats;
use super::keys;
use super::rows::{self, chat_bytes, kind_number, milliseconds, role_number, row_limit};
use super::write_transaction::WriteTransaction;

/// Creates a chat, or returns the existing direct chat of the pair, or the first result of the
/// idempotency key.
pub(super) fn create(
    transaction: &mut WriteTransaction<'_>,
    new: &NewChat,
    idempotency: Option<&Idempotency>,
) -> rusqlite::Result<Result<Created, EditError>> {
    match keys::recall(transaction, idempotency)? {
        Err(refusal) => return Ok(Err(refusal)),
        Ok(Some(first)) => {
            let members_version = first.members_version;
            return Ok(Ok(Created { chat: first.chat, is_new: false, members_version }));
        }
        Ok(None) => {}
    }
    if new.member_ids.len() >= GROUP_MEMBERS_MAX {
        return Ok(Err(EditError::Full));
    }
    let creator = transaction.named_user(&new.creator_id)?;
    let others = new.member_ids.iter().map(|user_id| transaction.named_user(user_id));
    let others = others.collect::<rusqlite::Result<Vec<_>>>()?;
    let (chat_id, is_new) = match (new.kind, others.first()) {
        (ChatKind::Direct, Some(other)) => match direct_chat(transaction, creator, *other)? {
            Some(chat_id) => (chat_id, false),
            None => (insert(transaction, new, creator, &others)?, true),
        },
        (ChatKind::Direct, None) | (ChatKind::Group, _) => {
            (insert(transaction, new, creator, &others)?, true)
        }
    };
    let whole =
        chats::find(transaction.connection, chat_id)?.expect("the chat was inserted or found");
    let (chat, members_version) = (whole.chat, whole.members_version);
    keys::keep(transaction, idempotency, &chat, members_version)?;
    Ok(Ok(Created { chat, is_new, members_version }))
}

fn direct_chat(
    transaction: &WriteTransaction<'_>,
    one: i64,
    other: i64,
) -> rusqlite::Result<Option<ChatId>> {
    let sql = "SELECT chat_id FROM chats WHERE direct_low = ?1 AND direct_high = ?2";
    let mut statement = transaction.connection.prepare_cached(sql)?;
    let pair = [one.min(other), one.max(other)];
    statement.query_row(pair, |row| rows::chat_id(row, 0)).optional()
}

fn insert(
    transaction: &WriteTransaction<'_>,
    new: &NewChat,
    creator: i64,
    others: &[i64],
) -> rusqlite::Result<ChatId> {
    let chat_id = ChatId(Ulid::from_parts(transaction.now.unix_ms, transaction.random.draw()));
    let pair = match (new.kind, others.first()) {
        (ChatKind::Direct, Some(other)) => Some((creator.min(*other), creator.max(*other))),
        (ChatKind::Direct, None) | (ChatKind::Group, _) => None,
    };
    let sql = "INSERT INTO chats (chat_id, kind, name, created_at, head_sequence, members_version,
            direct_low, direct_high)
        VALUES (?1, ?2, ?3, ?4, 0, 1, ?5, ?6)";
    transaction.connection.prepare_cached(sql)?.execute(params![
        chat_bytes(chat_id),
        kind_number(new.kind),
        new.name,
        milliseconds(transaction.now),
        pair.map(|(low, _)| low),
        pair.map(|(_, high)| high),
    ])?;
    let chat_key = transaction.connection.last_insert_rowid();
    let creator_role = match new.kind {
        ChatKind::Direct => Role::Member,
        ChatKind::Group => Role::Owner,
    };
    insert_member(transaction, chat_key, creator, creator_role, 0)?;
    for (position, other) in others.iter().enumerate() {
        insert_member(transaction, chat_key, *other, Role::Member, row_limit(position + 1))?;
    }
    Ok(chat_id)
}

/// Adds a member; a later member has a higher `join_order`.
pub(super) fn insert_member(
    transaction: &WriteTransaction<'_>,
    chat_key: i64,
    user_key: i64,
    role: Role,
    join_order: i64,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO members (chat_key, user_key, role, join_order) VALUES (?1, ?2, ?3, ?4)";
    let row = params![chat_key, user_key, role_number(role), join_order];
    transaction.connection.prepare_cached(sql)?.execute(row)?;
    Ok(())
}
