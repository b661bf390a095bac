//! Repairing the counter of a halted chat.

use heartline_durability::Repair;
use heartline_protocol::ChatId;

use super::chats;
use super::failure::Failure;
use super::pooled_connection::PooledConnection;
use super::rows::{self, Id, get, row_limit, unsigned};

const LOOK: &str = "SELECT c.chat_key, c.head_sequence, c.published_sequence, c.halted, (
        SELECT m.sequence FROM messages m WHERE m.chat_key = c.chat_key
        ORDER BY m.sequence DESC LIMIT 1
    )
    FROM chats c WHERE c.chat_id = $1";

/// The update compares the counter with the value that was read, so that it cannot overwrite
/// another repair.
const REPAIR: &str = "UPDATE chats SET head_sequence = $2, halted = false,
        published_sequence = least(published_sequence, $2)
    WHERE chat_key = $1 AND head_sequence IS NOT DISTINCT FROM $3 RETURNING 1";

const RECORD: &str = "INSERT INTO repairs (repaired_at, chat_id, head_before, head_after)
    VALUES (now_ms(), $1, $2, $3)";

/// Deletes the recorded ranges: sequences above the new counter will be assigned again.
const FORGET_RANGES: &str = "DELETE FROM published_ranges WHERE chat_key = $1";

/// A chat is marked while its head is ahead of what was announced.
const MARK: &str = "INSERT INTO unpublished_chats (chat_key, since)
    SELECT c.chat_key, coalesce((
        SELECT m.created_at FROM messages m
        WHERE m.chat_key = c.chat_key AND m.sequence = c.published_sequence + 1
    ), now_ms())
    FROM chats c WHERE c.chat_key = $1 AND c.head_sequence > c.published_sequence
    ON CONFLICT (chat_key) DO NOTHING";

const UNMARK: &str = "DELETE FROM unpublished_chats u USING chats c
    WHERE u.chat_key = $1 AND c.chat_key = $1 AND c.head_sequence <= c.published_sequence";

/// Sets the counter of a halted chat to its newest sequence, and ends the halt.
pub(super) async fn repair(
    mut connection: PooledConnection<'_>,
    chat_id: ChatId,
) -> Result<Repair, Failure> {
    let id = Id::from(chat_id);
    connection.begin().await?;
    chats::lock(&mut connection, &[id]).await?;
    let rows = connection.query(LOOK, &[&id]).await?;
    let Some(row) = rows.first() else {
        connection.roll_back().await?;
        return Ok(Repair::NoSuchChat);
    };
    let (chat_key, before): (i64, Option<i64>) = (get(row, 0)?, get(row, 1)?);
    let (published, newest): (i64, Option<i64>) = (get(row, 2)?, get(row, 4)?);
    let is_halted: bool = get(row, 3)?;
    if let Some(head) = before
        && !is_halted
        && newest.is_none_or(|newest| newest == head)
    {
        connection.roll_back().await?;
        return Ok(Repair::NotNeeded { head: unsigned(head) });
    }
    // If retention has deleted all messages, `published_sequence` tells which sequences were in
    // use.
    let after = newest.unwrap_or(published);
    if connection.write(REPAIR, &[&chat_key, &after, &before]).await?.is_empty() {
        return Err(Failure::again("the counter has changed under the repair"));
    }
    connection.write(RECORD, &[&id, &before, &after]).await?;
    connection.write(FORGET_RANGES, &[&chat_key]).await?;
    connection.write(MARK, &[&chat_key]).await?;
    connection.write(UNMARK, &[&chat_key]).await?;
    connection.commit().await?;
    Ok(Repair::Done { before: before.map(unsigned), after: unsigned(after) })
}

/// The chats that are halted, the oldest first.
pub(super) async fn halted(
    mut connection: PooledConnection<'_>,
    limit: usize,
) -> Result<Vec<ChatId>, Failure> {
    const HALTED: &str = "SELECT chat_id FROM chats WHERE halted ORDER BY chat_key LIMIT $1";
    let rows = connection.query(HALTED, &[&row_limit(limit)]).await?;
    rows.iter().map(|row| rows::chat_id(row, 0)).collect()
}
