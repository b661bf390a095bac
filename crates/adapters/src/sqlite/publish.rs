//! Recording announced messages, and finding unannounced ones.

use std::time::Duration;

use heartline_durability::{Published, Unpublished};
use heartline_protocol::Timestamp;
use rusqlite::{Connection, params};

use super::rows::{self, milliseconds, row_limit, signed, unsigned};
use super::write_transaction::WriteTransaction;

/// Records announced ranges in any order: ranges after a gap are kept in memory, because only this
/// process can fill the gap. Ranges of a deleted chat are ignored.
pub(super) fn record(
    transaction: &mut WriteTransaction<'_>,
    ranges: Vec<Published>,
) -> rusqlite::Result<()> {
    for Published { chat_id, first, last } in ranges {
        let Some(chat) = transaction.chat(chat_id)? else {
            transaction.forget_early(chat_id);
            continue;
        };
        if first > chat.head {
            continue;
        }
        let published =
            transaction.announced(chat_id, chat.published, (first, last.min(chat.head)));
        if published > chat.published {
            let sql = "UPDATE chats SET published_sequence = ?2 WHERE chat_key = ?1";
            let mut statement = transaction.connection.prepare_cached(sql)?;
            statement.execute(params![chat.key, signed(published)])?;
            drop(statement);
            transaction.remember_published(chat_id, published);
        }
    }
    Ok(())
}

/// Chats whose oldest unannounced message has waited this long, the longest first.
pub(super) fn unpublished(
    connection: &Connection,
    older_than: Duration,
    limit: usize,
    now: Timestamp,
) -> rusqlite::Result<Vec<Unpublished>> {
    let sql = "SELECT c.chat_id, c.published_sequence, c.head_sequence, c.members_version
        FROM chats c INDEXED BY chats_unpublished
        CROSS JOIN messages m ON m.id = (c.chat_key << 32) + c.published_sequence + 1
        WHERE c.head_sequence > c.published_sequence AND m.created_at <= ?1
        ORDER BY m.created_at LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let before = milliseconds(now.minus(older_than));
    let chats = statement.query_map(params![before, row_limit(limit)], |row| {
        Ok(Unpublished {
            chat_id: rows::chat_id(row, 0)?,
            published_sequence: unsigned(row.get(1)?),
            head_sequence: unsigned(row.get(2)?),
            members_version: unsigned(row.get(3)?),
        })
    })?;
    chats.collect()
}
