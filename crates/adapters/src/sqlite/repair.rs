//! Repairing the counter of a halted chat.

use heartline_durability::Repair;
use heartline_protocol::ChatId;
use rusqlite::{Connection, OptionalExtension, params};

use super::rows::{self, chat_bytes, milliseconds, row_limit, sequence_of, signed, unsigned};
use super::write_transaction::{WriteTransaction, message_range};

/// The chats that are halted, the oldest first.
pub(super) const HALTED: &str = "SELECT chat_id FROM chats INDEXED BY chats_halted
    WHERE halted = 1 ORDER BY chat_key LIMIT ?1";

/// Sets the counter of a halted chat to its newest sequence, and ends the halt. The update compares
/// the counter with the value that was read, so that it cannot overwrite another repair.
pub(super) fn repair(
    transaction: &mut WriteTransaction<'_>,
    chat_id: ChatId,
) -> rusqlite::Result<Repair> {
    // Reading a chat halts it if its counter is wrong.
    let Some(chat) = transaction.chat(chat_id)? else { return Ok(Repair::NoSuchChat) };
    if !chat.halted {
        return Ok(Repair::NotNeeded { head: chat.head });
    }
    let sql = "SELECT head_sequence, published_sequence,
            (SELECT max(id) FROM messages WHERE id > ?2 AND id < ?3)
        FROM chats WHERE chat_key = ?1 AND halted = 1";
    let (first, end) = message_range(chat.key);
    let mut statement = transaction.connection.prepare_cached(sql)?;
    let found = statement.query_row([chat.key, first, end], |row| {
        Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, i64>(1)?, row.get::<_, Option<i64>>(2)?))
    });
    let Some((before, published, newest)) = found.optional()? else {
        return Ok(Repair::NotNeeded { head: chat.head });
    };
    drop(statement);
    // If retention has deleted all messages, `published_sequence` tells which sequences were in
    // use.
    let after = newest.map_or(published, |row_id| signed(sequence_of(row_id)));
    let sql = "UPDATE chats SET head_sequence = ?2, halted = 0,
            published_sequence = min(published_sequence, ?2)
        WHERE chat_key = ?1 AND halted = 1 AND head_sequence IS ?3";
    transaction.connection.prepare_cached(sql)?.execute(params![chat.key, after, before])?;
    let sql = "INSERT INTO repairs (repaired_at, chat_id, head_before, head_after)
        VALUES (?1, ?2, ?3, ?4)";
    let row = params![milliseconds(transaction.now), chat_bytes(chat_id), before, after];
    transaction.connection.prepare_cached(sql)?.execute(row)?;
    transaction.forget_chat(chat_id);
    Ok(Repair::Done { before: before.map(unsigned), after: unsigned(after) })
}

/// The chats that are halted, the oldest first.
pub(super) fn halted(connection: &Connection, limit: usize) -> rusqlite::Result<Vec<ChatId>> {
    let mut statement = connection.prepare_cached(HALTED)?;
    statement.query_map([row_limit(limit)], |row| rows::chat_id(row, 0))?.collect()
}
