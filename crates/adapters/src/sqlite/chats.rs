//! Reading chats, their members and the watermarks of the members.

use std::sync::Arc;

use heartline_durability::{ChatSummary, Watermark};
use heartline_fanout::Audience;
use heartline_protocol::server_frame::{Chat, ChatMember, Message};
use heartline_protocol::{ChatId, UserId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::pages::HEAD;
use super::rows::{self, MESSAGE_COLUMNS, chat_bytes, row_limit, unsigned};
use super::write_transaction::{message_range, user_key};

const CHAT_COLUMNS: &str = "c.chat_key, c.members_version, c.chat_id, c.kind, c.name, c.created_at";

/// A chat with its key and version in the file.
#[derive(Debug, Clone)]
pub(super) struct WholeChat {
    /// The key of the chat in the file.
    pub(super) key: i64,
    /// The version of the membership.
    pub(super) members_version: u64,
    /// The chat with its members.
    pub(super) chat: Chat,
}

/// A chat with its members; none when there is no such chat.
pub(super) fn find(
    connection: &Connection,
    chat_id: ChatId,
) -> rusqlite::Result<Option<WholeChat>> {
    let sql = format!("SELECT {CHAT_COLUMNS}, {HEAD} FROM chats c WHERE c.chat_id = ?1");
    let mut statement = connection.prepare_cached(&sql)?;
    let found = statement.query_row([chat_bytes(chat_id)], bare).optional()?;
    found.map(|bare| with_members(connection, bare)).transpose()
}

/// A chat from its own row, without members; [`CHAT_COLUMNS`] and [`HEAD`].
fn bare(row: &Row<'_>) -> rusqlite::Result<WholeChat> {
    Ok(WholeChat {
        key: row.get(0)?,
        members_version: unsigned(row.get(1)?),
        chat: Chat {
            chat_id: rows::chat_id(row, 2)?,
            kind: rows::kind(row, 3)?,
            name: row.get(4)?,
            members: Vec::new(),
            created_at: rows::timestamp(row, 5)?,
            head_sequence: unsigned(row.get(6)?),
        },
    })
}

fn with_members(connection: &Connection, mut whole: WholeChat) -> rusqlite::Result<WholeChat> {
    let sql = "SELECT u.user_id, m.role FROM members m JOIN users u ON u.user_key = m.user_key
        WHERE m.chat_key = ?1 ORDER BY m.join_order";
    let mut statement = connection.prepare_cached(sql)?;
    let members = statement.query_map([whole.key], |row| {
        Ok(ChatMember { user_id: rows::user_id(row, 0)?, role: rows::role(row, 1)? })
    })?;
    whole.chat.members = members.collect::<Result<_, _>>()?;
    Ok(whole)
}

/// A chat, if the viewer may see it: a member, or the server itself.
pub(super) fn visible(
    connection: &Connection,
    chat_id: ChatId,
    viewer: Option<&UserId>,
) -> rusqlite::Result<Option<Chat>> {
    let chat = find(connection, chat_id)?.map(|whole| whole.chat);
    Ok(chat.filter(|chat| {
        viewer.is_none_or(|viewer| chat.members.iter().any(|member| member.user_id == *viewer))
    }))
}

/// The chats of a user in the order of their ids.
pub(super) fn of_user(
    connection: &Connection,
    user_id: &UserId,
    after: Option<ChatId>,
    limit: usize,
) -> rusqlite::Result<Vec<ChatSummary>> {
    let Some(user_key) = user_key(connection, user_id)? else { return Ok(Vec::new()) };
    // The CROSS JOIN makes SQLite begin with the chats of the user, which are few.
    let sql = format!(
        "SELECT {CHAT_COLUMNS}, {HEAD}, m.last_acked_sequence
         FROM members m CROSS JOIN chats c ON c.chat_key = m.chat_key
         WHERE m.user_key = ?1 AND c.chat_id > ?2 ORDER BY c.chat_id LIMIT ?3"
    );
    let after = after.map_or(Vec::new(), |chat_id| chat_bytes(chat_id).to_vec());
    let mut statement = connection.prepare_cached(&sql)?;
    let found = statement.query_map(params![user_key, after, row_limit(limit)], |row| {
        Ok((bare(row)?, unsigned(row.get(7)?)))
    })?;
    let mut summaries = Vec::new();
    for found in found {
        let (bare, last_acked_sequence) = found?;
        let last_message = newest(connection, bare.key, bare.chat.chat_id)?;
        let chat = with_members(connection, bare)?.chat;
        summaries.push(ChatSummary { chat, last_acked_sequence, last_message });
    }
    Ok(summaries)
}

fn newest(
    connection: &Connection,
    chat_key: i64,
    chat_id: ChatId,
) -> rusqlite::Result<Option<Message>> {
    let sql = format!(
        "SELECT {MESSAGE_COLUMNS} FROM messages m CROSS JOIN users u ON u.user_key = m.sender_key
         WHERE m.id > ?1 AND m.id < ?2 ORDER BY m.id DESC LIMIT 1"
    );
    let (first, end) = message_range(chat_key);
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_row([first, end], |row| rows::message(row, chat_id)).optional()
}

/// The members of a chat; none if there is no such chat.
pub(super) fn audience(
    connection: &Connection,
    chat_id: ChatId,
) -> rusqlite::Result<Option<Audience>> {
    let sql = "SELECT chat_key, members_version FROM chats WHERE chat_id = ?1";
    let found = connection
        .prepare_cached(sql)?
        .query_row([chat_bytes(chat_id)], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
        .optional()?;
    let Some((chat_key, members_version)) = found else { return Ok(None) };
    let sql = "SELECT u.user_id FROM members m JOIN users u ON u.user_key = m.user_key
        WHERE m.chat_key = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let user_ids = statement.query_map([chat_key], |row| rows::user_id(row, 0))?;
    let user_ids: Arc<[UserId]> = user_ids.collect::<Result<_, _>>()?;
    Ok(Some(Audience { members_version: unsigned(members_version), user_ids }))
}

/// The watermark of each member; none if the viewer is not a member.
pub(super) fn watermarks(
    connection: &Connection,
    chat_id: ChatId,
    viewer: &UserId,
) -> rusqlite::Result<Option<Vec<Watermark>>> {
    let sql = "SELECT u.user_id, m.last_acked_sequence FROM chats c
        JOIN members m ON m.chat_key = c.chat_key JOIN users u ON u.user_key = m.user_key
        WHERE c.chat_id = ?1 ORDER BY m.join_order";
    let mut statement = connection.prepare_cached(sql)?;
    let watermarks = statement.query_map([chat_bytes(chat_id)], |row| {
        let last_acked_sequence = unsigned(row.get(1)?);
        Ok(Watermark { user_id: rows::user_id(row, 0)?, chat_id, last_acked_sequence })
    })?;
    let watermarks = watermarks.collect::<rusqlite::Result<Vec<_>>>()?;
    let is_member = watermarks.iter().any(|watermark| watermark.user_id == *viewer);
    Ok(is_member.then_some(watermarks))
}
