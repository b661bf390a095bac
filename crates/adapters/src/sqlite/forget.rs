//! Forgetting: the messages of deleted chats, the content of deleted people, and what is older
//! than the retention. In small bites, so that sends never wait long.

use heartline_protocol::{ChatId, Timestamp};
use rusqlite::{OptionalExtension, params};

use super::rows::{self, message_row_id, milliseconds, row_limit, sequence_of, signed};
use super::session::{Session, message_range};

/// Removes up to `limit` messages or contents, and answers how many. Fewer than `limit` means
/// that nothing is left.
pub(super) fn forget(
    session: &mut Session<'_>,
    before: Option<Timestamp>,
    limit: usize,
) -> rusqlite::Result<usize> {
    let mut left = limit;
    left -= deleted_chats(session, left)?;
    left -= erasures(session, left)?;
    if let Some(before) = before {
        left -= outdated(session, before, left)?;
    }
    Ok(limit - left)
}

/// The messages of chats that are no more.
fn deleted_chats(session: &Session<'_>, limit: usize) -> rusqlite::Result<usize> {
    let mut removed = 0;
    while removed < limit {
        let sql = "SELECT chat_key FROM deleted_chats ORDER BY chat_key LIMIT 1";
        let mut statement = session.connection.prepare_cached(sql)?;
        let next = statement.query_row([], |row| row.get::<_, i64>(0)).optional()?;
        let Some(chat_key) = next else { break };
        let sql = "DELETE FROM messages WHERE id IN
            (SELECT id FROM messages WHERE id > ?1 AND id < ?2 ORDER BY id LIMIT ?3)";
        let (first, end) = message_range(chat_key);
        let mut statement = session.connection.prepare_cached(sql)?;
        removed += statement.execute([first, end, row_limit(limit - removed)])?;
        if removed < limit {
            let sql = "DELETE FROM deleted_chats WHERE chat_key = ?1";
            session.connection.prepare_cached(sql)?.execute([chat_key])?;
        }
    }
    Ok(removed)
}

/// One chat in which a deleted person's content is still there.
struct Erasure {
    user_key: i64,
    chat_key: i64,
    last_sequence: i64,
    after: String,
}

/// The content of people who are no more; the numbers stay.
fn erasures(session: &Session<'_>, limit: usize) -> rusqlite::Result<usize> {
    let mut erased = 0;
    while erased < limit {
        let sql = "SELECT user_key, chat_key, last_sequence, after_client_message_id
            FROM erasures LIMIT 1";
        let mut statement = session.connection.prepare_cached(sql)?;
        let next = statement.query_row([], |row| {
            Ok(Erasure {
                user_key: row.get(0)?,
                chat_key: row.get(1)?,
                last_sequence: row.get(2)?,
                after: row.get(3)?,
            })
        });
        let Some(erasure) = next.optional()? else { break };
        erased += erase_some(session, &erasure, limit - erased)?;
    }
    Ok(erased)
}

/// Erases up to `limit` contents of one person in one chat, and notes how far it has come.
fn erase_some(session: &Session<'_>, erasure: &Erasure, limit: usize) -> rusqlite::Result<usize> {
    let Erasure { user_key, chat_key, last_sequence, after } = erasure;
    let sql = "SELECT id, client_message_id FROM messages INDEXED BY messages_once
        WHERE sender_key = ?1 AND chat_key = ?2 AND client_message_id > ?3
        ORDER BY client_message_id LIMIT ?4";
    let mut statement = session.connection.prepare_cached(sql)?;
    let found = statement
        .query_map(params![user_key, chat_key, after, row_limit(limit)], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
        })?;
    let found = found.collect::<rusqlite::Result<Vec<_>>>()?;
    let sql = "UPDATE messages SET content = NULL WHERE id = ?1 AND content IS NOT NULL";
    let mut erase = session.connection.prepare_cached(sql)?;
    let mut erased = 0;
    for (row_id, _) in &found {
        if signed(sequence_of(*row_id)) <= *last_sequence {
            erased += erase.execute([row_id])?;
        }
    }
    match found.last() {
        Some((_, after)) if found.len() == limit => {
            let sql = "UPDATE erasures SET after_client_message_id = ?3
                WHERE user_key = ?1 AND chat_key = ?2";
            session.connection.prepare_cached(sql)?.execute(params![user_key, chat_key, after])?;
        }
        _ => {
            let sql = "DELETE FROM erasures WHERE user_key = ?1 AND chat_key = ?2";
            session.connection.prepare_cached(sql)?.execute([user_key, chat_key])?;
        }
    }
    Ok(erased)
}

/// A chat that begins with messages that are too old.
struct OldChat {
    key: i64,
    chat_id: ChatId,
}

/// The messages that were stored before an instant, from each chat's beginning on.
fn outdated(session: &mut Session<'_>, before: Timestamp, limit: usize) -> rusqlite::Result<usize> {
    let mut removed = 0;
    while removed < limit {
        let sql = "SELECT chat_key, chat_id FROM chats
            WHERE oldest_at IS NOT NULL AND oldest_at < ?1 ORDER BY oldest_at LIMIT 1";
        let mut statement = session.connection.prepare_cached(sql)?;
        let next = statement.query_row([milliseconds(before)], |row| {
            Ok(OldChat { key: row.get(0)?, chat_id: rows::chat_id(row, 1)? })
        });
        let next = next.optional()?;
        drop(statement);
        let Some(chat) = next else { break };
        removed += shorten(session, &chat, before, limit - removed)?;
    }
    Ok(removed)
}

/// Removes a chat's messages from the first on, up to the first that is young enough. What is
/// gone cannot be announced any more, so it counts as announced.
fn shorten(
    session: &mut Session<'_>,
    chat: &OldChat,
    before: Timestamp,
    limit: usize,
) -> rusqlite::Result<usize> {
    let sql = "SELECT id, created_at FROM messages WHERE id > ?1 AND id < ?2
        ORDER BY id LIMIT ?3";
    let (first, end) = message_range(chat.key);
    let mut statement = session.connection.prepare_cached(sql)?;
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
    session.connection.prepare_cached(sql)?.execute([first, last_row])?;
    let sql = "UPDATE chats SET oldest_at = ?2,
            published_sequence = max(published_sequence, ?3) WHERE chat_key = ?1";
    let row = params![chat.key, oldest_kept, signed(last_removed)];
    session.connection.prepare_cached(sql)?.execute(row)?;
    session.forget_chat(chat.chat_id);
    Ok(count)
}
