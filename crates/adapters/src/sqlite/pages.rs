//! Reading pages of a chat, and the manifest of a user's chats.

use heartline_durability::{LogPage, LogRead, Position};
use heartline_protocol::server_frame::ManifestChat;
use heartline_protocol::{ChatId, UserId};
use rusqlite::{Connection, OptionalExtension, params};

use super::rows::{self, MESSAGE_COLUMNS, chat_bytes, message_row_id, row_limit, unsigned};
use super::write_transaction::{is_member, message_range, user_key};

/// The newest sequence of a chat `c`, also while its counter is lost.
pub(super) const HEAD: &str = "coalesce(c.head_sequence,
    (SELECT max(id) & 0xffffffff FROM messages
     WHERE id > c.chat_key << 32 AND id < (c.chat_key + 1) << 32), 0)";

/// A page of a chat; none when the reader is not a member or there is no such chat.
pub(super) fn page(connection: &Connection, read: &LogRead) -> rusqlite::Result<Option<LogPage>> {
    let Some((chat_key, head)) = chat_of(connection, read.chat_id)? else { return Ok(None) };
    if let Some(reader) = &read.reader {
        let Some(reader) = user_key(connection, reader)? else { return Ok(None) };
        if !is_member(connection, chat_key, reader)? {
            return Ok(None);
        }
    }
    let mut page = LogPage { head_sequence: head, ..LogPage::default() };
    fill(connection, read, chat_key, &mut page)?;
    if matches!(read.position, Position::Before(_)) {
        page.messages.reverse();
    }
    let last = page.messages.last().map_or(0, |message| message.sequence);
    page.head_sequence = head.max(last);
    Ok(Some(page))
}

fn chat_of(connection: &Connection, chat_id: ChatId) -> rusqlite::Result<Option<(i64, u64)>> {
    let sql = format!("SELECT c.chat_key, {HEAD} FROM chats c WHERE c.chat_id = ?1");
    connection
        .prepare_cached(&sql)?
        .query_row([chat_bytes(chat_id)], |row| Ok((row.get(0)?, unsigned(row.get(1)?))))
        .optional()
}

/// Reads messages in the direction of the read until the page is full.
fn fill(
    connection: &Connection,
    read: &LogRead,
    chat_key: i64,
    page: &mut LogPage,
) -> rusqlite::Result<()> {
    let (first, end) = message_range(chat_key);
    let (above, below, order) = match read.position {
        Position::After(sequence) => (message_row_id(chat_key, sequence), end, "ASC"),
        Position::Before(sequence) => (first, message_row_id(chat_key, sequence), "DESC"),
    };
    let sql = format!(
        "SELECT {MESSAGE_COLUMNS} FROM messages m CROSS JOIN users u ON u.user_key = m.sender_key
         WHERE m.id > ?1 AND m.id < ?2 ORDER BY m.id {order} LIMIT ?3"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    // One message more than the limit is read, to find out whether there are more.
    let limit = row_limit(read.limit.saturating_add(1));
    let mut rows = statement.query(params![above, below, limit])?;
    let mut content_bytes = 0_usize;
    while let Some(row) = rows.next()? {
        let message = rows::message(row, read.chat_id)?;
        content_bytes = content_bytes.saturating_add(message.content.len());
        let is_over = content_bytes > read.content_bytes_max && !page.messages.is_empty();
        if page.messages.len() == read.limit || is_over {
            page.has_more = true;
            break;
        }
        page.messages.push(message);
    }
    Ok(())
}

/// The chats of a user in the order of their ids, with their heads and watermarks.
pub(super) fn manifest(
    connection: &Connection,
    user_id: &UserId,
    after: Option<ChatId>,
    limit: usize,
) -> rusqlite::Result<Vec<ManifestChat>> {
    let Some(user_key) = user_key(connection, user_id)? else { return Ok(Vec::new()) };
    // The CROSS JOIN makes SQLite begin with the chats of the user, which are few.
    let sql = format!(
        "SELECT c.chat_id, {HEAD}, m.last_acked_sequence
         FROM members m CROSS JOIN chats c ON c.chat_key = m.chat_key
         WHERE m.user_key = ?1 AND c.chat_id > ?2 ORDER BY c.chat_id LIMIT ?3"
    );
    let after = after.map_or(Vec::new(), |chat_id| chat_bytes(chat_id).to_vec());
    let mut statement = connection.prepare_cached(&sql)?;
    let chats = statement.query_map(params![user_key, after, row_limit(limit)], |row| {
        Ok(ManifestChat {
            chat_id: rows::chat_id(row, 0)?,
            head_sequence: unsigned(row.get(1)?),
            last_acked_sequence: unsigned(row.get(2)?),
        })
    })?;
    chats.collect()
}
