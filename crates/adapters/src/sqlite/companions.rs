//! The users who share an active chat with a user.

use std::collections::HashSet;

use heartline_fanout::audiences::COMPANIONS_MAX;
use heartline_protocol::{Timestamp, UserId};
use rusqlite::{Connection, OptionalExtension};

use super::rows::{self, milliseconds, row_limit};
use super::write_transaction::{message_range, user_key};

/// Chats of one user that are searched, the newest first: each costs a seek.
const CHATS_MAX: usize = 2000;

/// A user's chats, the newest first.
pub(super) const CHATS: &str =
    "SELECT chat_key FROM members WHERE user_key = ?1 ORDER BY chat_key DESC LIMIT ?2";

/// The time of the newest message of a chat.
pub(super) const NEWEST: &str =
    "SELECT created_at FROM messages WHERE id > ?1 AND id < ?2 ORDER BY id DESC LIMIT 1";

/// The conditions under which a chat is active.
#[derive(Debug, Clone, Copy)]
pub(super) struct Active {
    /// The newest message is not older than this.
    pub(super) since: Timestamp,
    /// The chat has no more members than this.
    pub(super) members_max: usize,
}

/// The companions of each user.
pub(super) fn of_users(
    connection: &Connection,
    user_ids: &[UserId],
    active: Active,
) -> rusqlite::Result<Vec<Vec<UserId>>> {
    user_ids.iter().map(|user_id| of_user(connection, user_id, active)).collect()
}

fn of_user(
    connection: &Connection,
    user_id: &UserId,
    active: Active,
) -> rusqlite::Result<Vec<UserId>> {
    let Some(user_key) = user_key(connection, user_id)? else { return Ok(Vec::new()) };
    let mut statement = connection.prepare_cached(CHATS)?;
    let mut chats = statement.query([user_key, row_limit(CHATS_MAX)])?;
    let (mut companions, mut met) = (Vec::new(), HashSet::from([user_key]));
    while companions.len() < COMPANIONS_MAX
        && let Some(row) = chats.next()?
    {
        let chat_key = row.get(0)?;
        if is_active(connection, chat_key, active.since)? {
            add_members(connection, chat_key, active.members_max, &mut met, &mut companions)?;
        }
    }
    companions.truncate(COMPANIONS_MAX);
    Ok(companions)
}

/// Whether the newest message of a chat is recent enough.
fn is_active(connection: &Connection, chat_key: i64, since: Timestamp) -> rusqlite::Result<bool> {
    let (first, end) = message_range(chat_key);
    let mut statement = connection.prepare_cached(NEWEST)?;
    let newest = statement.query_row([first, end], |row| row.get::<_, i64>(0)).optional()?;
    Ok(newest.is_some_and(|created_at| created_at >= milliseconds(since)))
}

/// Adds the members of a chat, unless there are too many.
fn add_members(
    connection: &Connection,
    chat_key: i64,
    members_max: usize,
    met: &mut HashSet<i64>,
    companions: &mut Vec<UserId>,
) -> rusqlite::Result<()> {
    let sql = "SELECT user_key FROM members WHERE chat_key = ?1 LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    // One more than the limit is read, to find out whether there are too many.
    let limit = row_limit(members_max.saturating_add(1));
    let members = statement.query_map([chat_key, limit], |row| row.get(0))?;
    let members = members.collect::<rusqlite::Result<Vec<i64>>>()?;
    if members.len() > members_max {
        return Ok(());
    }
    let mut name = connection.prepare_cached("SELECT user_id FROM users WHERE user_key = ?1")?;
    for user_key in members {
        if met.insert(user_key) {
            companions.push(name.query_row([user_key], |row| rows::user_id(row, 0))?);
        }
    }
    Ok(())
}
