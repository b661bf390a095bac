//! Deleting the messages of deleted chats, the content of deleted users, and messages older than
//! the retention, in small transactions, so that sends never wait long.

use std::time::Duration;

use heartline_protocol::{ChatId, Timestamp};
use rusqlite::{OptionalExtension, params};

use super::rows::{self, message_row_id, milliseconds, row_limit, sequence_of, signed, unsigned};
use super::write_transaction::{WriteTransaction, message_range};

/// Messages that one transaction examines for the content of a deleted user.
const LOOKED_AT_MAX: usize = 4096;

/// The result of one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Forgotten {
    /// Messages that were deleted, or whose content was.
    pub(super) changed: usize,
    /// Whether nothing is left to delete; false also if the limit was reached.
    pub(super) is_last: bool,
}

/// Deletes at most `limit` messages, in one short transaction.
pub(super) fn forget(
    transaction: &mut WriteTransaction<'_>,
    retention: Option<Duration>,
    limit: usize,
) -> rusqlite::Result<Forgotten> {
    let mut left = limit;
    left -= deleted_chats(transaction, left)?;
    let erased = erasures(transaction, left)?;
    left -= erased.changed;
    if erased.is_last
        && let Some(retention) = retention
    {
        left -= outdated(transaction, transaction.now.minus(retention), left)?;
    }
    Ok(Forgotten { changed: limit - left, is_last: erased.is_last && left > 0 })
}

/// Deletes messages of deleted chats.
fn deleted_chats(transaction: &WriteTransaction<'_>, limit: usize) -> rusqlite::Result<usize> {
    let mut removed = 0;
    while removed < limit {
        let sql = "SELECT chat_key FROM deleted_chats ORDER BY chat_key LIMIT 1";
        let mut statement = transaction.connection.prepare_cached(sql)?;
        let next = statement.query_row([], |row| row.get::<_, i64>(0)).optional()?;
        let Some(chat_key) = next else { break };
        let sql = "DELETE FROM messages WHERE id IN
            (SELECT id FROM messages WHERE id > ?1 AND id < ?2 ORDER BY id LIMIT ?3)";
        let (first, end) = message_range(chat_key);
        let mut statement = transaction.connection.prepare_cached(sql)?;
        removed += statement.execute([first, end, row_limit(limit - removed)])?;
        if removed < limit {
            let sql = "DELETE FROM deleted_chats WHERE chat_key = ?1";
            transaction.connection.prepare_cached(sql)?.execute([chat_key])?;
        }
    }
    Ok(removed)
}

/// A chat that still has content of a deleted user.
struct Erasure {
    user_key: i64,
    chat_key: i64,
    last_sequence: u64,
    done_sequence: u64,
}

/// Deletes the content of deleted users; the sequences stay.
fn erasures(transaction: &WriteTransaction<'_>, limit: usize) -> rusqlite::Result<Forgotten> {
    let (mut changed, mut looked_at) = (0, 0);
    while changed < limit && looked_at < LOOKED_AT_MAX {
        let sql = "SELECT user_key, chat_key, last_sequence, done_sequence FROM erasures LIMIT 1";
        let mut statement = transaction.connection.prepare_cached(sql)?;
        let next = statement.query_row([], |row| {
            Ok(Erasure {
                user_key: row.get(0)?,
                chat_key: row.get(1)?,
                last_sequence: unsigned(row.get(2)?),
                done_sequence: unsigned(row.get(3)?),
            })
        });
        let Some(erasure) = next.optional()? else {
            return Ok(Forgotten { changed, is_last: true });
        };
        let (looked_at_here, changed_here) =
            erase_some(transaction, &erasure, LOOKED_AT_MAX - looked_at, limit - changed)?;
        // Each chat counts as one message, so that many empty chats do not make a long transaction.
        looked_at += looked_at_here + 1;
        changed += changed_here;
    }
    Ok(Forgotten { changed, is_last: false })
}

/// Deletes the content of up to `limit` messages of one user in one chat, examines a bounded number
/// of messages, and records the position. Returns how many were examined and how many were changed.
fn erase_some(
    transaction: &WriteTransaction<'_>,
    erasure: &Erasure,
    look_at: usize,
    limit: usize,
) -> rusqlite::Result<(usize, usize)> {
    let Erasure { user_key, chat_key, last_sequence, done_sequence } = *erasure;
    let sql = "SELECT id, sender_key = ?4 AND content IS NOT NULL FROM messages
        WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3";
    let (from, to) =
        (message_row_id(chat_key, done_sequence), message_row_id(chat_key, last_sequence));
    let mut statement = transaction.connection.prepare_cached(sql)?;
    let mut rows = statement.query([from, to, row_limit(look_at), user_key])?;
    let (mut looked_at, mut found, mut done) = (0, Vec::new(), done_sequence);
    while found.len() < limit
        && let Some(row) = rows.next()?
    {
        let row_id: i64 = row.get(0)?;
        (looked_at, done) = (looked_at + 1, sequence_of(row_id));
        if row.get(1)? {
            found.push(row_id);
        }
    }
    drop(rows);
    let mut erase = transaction
        .connection
        .prepare_cached("UPDATE messages SET content = NULL WHERE id = ?1")?;
    for row_id in &found {
        erase.execute([row_id])?;
    }
    if found.len() == limit || looked_at == look_at {
        let sql = "UPDATE erasures SET done_sequence = ?3 WHERE user_key = ?1 AND chat_key = ?2";
        transaction.connection.prepare_cached(sql)?.execute([user_key, chat_key, signed(done)])?;
    } else {
        let sql = "DELETE FROM erasures WHERE user_key = ?1 AND chat_key = ?2";
        transaction.connection.prepare_cached(sql)?.execute([user_key, chat_key])?;
    }
    Ok((looked_at, found.len()))
}

/// A chat whose oldest messages are older than the retention.
struct OldChat {
    key: i64,
    chat_id: ChatId,
}

/// Deletes messages that were stored before a time, from the beginning of each chat.
fn outdated(
    transaction: &mut WriteTransaction<'_>,
    before: Timestamp,
    limit: usize,
) -> rusqlite::Result<usize> {
    let mut removed = 0;
    while removed < limit {
        let sql = "SELECT chat_key, chat_id FROM chats
            WHERE oldest_at IS NOT NULL AND oldest_at < ?1 ORDER BY oldest_at LIMIT 1";
        let mut statement = transaction.connection.prepare_cached(sql)?;
        let next = statement.query_row([milliseconds(before)], |row| {
            Ok(OldChat { key: row.get(0)?, chat_id: rows::chat_id(row, 1)? })
        });
        let next = next.optional()?;
        drop(statement);
        let Some(chat) = next else { break };
        removed += shorten(transaction, &chat, before, limit - removed)?;
    }
    Ok(removed)
}

/// Deletes the messages of a chat from the first to the last that is too old. Deleted messages
/// cannot be announced any more, so they count as announced.
fn shorten(
    transaction: &mut WriteTransaction<'_>,
    chat: &OldChat,
    before: Timestamp,
    limit: usize,
) -> rusqlite::Result<usize> {
    let sql = "SELECT id, created_at FROM messages WHERE id > ?1 AND id < ?2
        ORDER BY id LIMIT ?3";
    let (first, end) = message_range(chat.key);
    let mut statement = transaction.connection.prepare_cached(sql)?;
    let mut rows = statement.query([first, end, row_limit(limit.saturating_add(1))])?;
    let (mut last_removed, mut oldest_kept, mut count) = (0, None, 0);
    while let Some(row) = rows.next()? {
        let created_at: i64 = row.get(1)?;
        if created_at >= milliseconds(before) || count == limit {
            oldest_kept = Some(created_at);
            break;
        }
        (last_removed, count) = (sequence_of(row.get(0)?), count + 1);
    }
    drop(rows);
    drop(statement);
    let sql = "DELETE FROM messages WHERE id > ?1 AND id <= ?2";
    let last_row = message_row_id(chat.key, last_removed);
    transaction.connection.prepare_cached(sql)?.execute([first, last_row])?;
    let sql = "UPDATE chats SET oldest_at = ?2,
            published_sequence = max(published_sequence, ?3) WHERE chat_key = ?1";
    let row = params![chat.key, oldest_kept, signed(last_removed)];
    transaction.connection.prepare_cached(sql)?.execute(row)?;
    transaction.forget_chat(chat.chat_id);
    Ok(count)
}
