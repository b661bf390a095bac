//! Reading pages of a chat, and the manifest of a user's chats.

use heartline_durability::{LogPage, LogRead, Position};
use heartline_protocol::server_frame::ManifestChat;
use heartline_protocol::{ChatId, UserId};

use super::failure::Failure;
use super::pooled_connection::PooledConnection;
use super::rows::{self, Id, get, head, message_columns, number, row_limit, signed};

/// One statement, so that chat and messages are read from the same snapshot: the chat, if the
/// reader may see it, with the messages of the page. One message more than the limit is read, to
/// find out whether there are more; messages beyond the byte limit are left out, except the first.
macro_rules! page {
    ($beyond:literal, $order:literal) => {
        concat!(
            "SELECT c.head_sequence, p.is_followed, ",
            message_columns!(),
            " FROM (
                SELECT c.chat_key, ",
            head!(),
            " AS head_sequence FROM chats c
                WHERE c.chat_id = $1 AND ($2::text IS NULL OR EXISTS (
                    SELECT 1 FROM members m WHERE m.chat_key = c.chat_key AND m.user_key = (
                        SELECT u.user_key FROM users u WHERE u.user_id = $2)))
                LIMIT 1
            ) c
            LEFT JOIN LATERAL (
                SELECT l.sequence, row_number() OVER by_sequence AS number,
                    sum(l.content_bytes) OVER by_sequence AS content_bytes,
                    lead(l.sequence) OVER by_sequence IS NOT NULL AS is_followed
                FROM (
                    SELECT m.sequence, coalesce(octet_length(m.content), 0) AS content_bytes
                    FROM messages m
                    WHERE m.chat_key = c.chat_key AND m.sequence ",
            $beyond,
            " $3 ORDER BY m.sequence ",
            $order,
            " LIMIT $4::bigint + 1
                ) l
                WINDOW by_sequence AS (ORDER BY l.sequence ",
            $order,
            ")
            ) p ON p.number <= $4 AND (p.number = 1 OR p.content_bytes <= $5)
            LEFT JOIN LATERAL (
                SELECT k.* FROM messages k
                WHERE k.chat_key = c.chat_key AND k.sequence = p.sequence LIMIT 1
            ) m ON true
            LEFT JOIN LATERAL (
                SELECT k.user_id FROM users k WHERE k.user_key = m.sender_key LIMIT 1
            ) u ON true
            ORDER BY m.sequence"
        )
    };
}

pub(super) const PAGE_AFTER: &str = page!(">", "ASC");
pub(super) const PAGE_BEFORE: &str = page!("<", "DESC");

/// A page of a chat; none when the reader is not a member or there is no such chat.
pub(super) async fn page(
    mut connection: PooledConnection<'_>,
    read: &LogRead,
) -> Result<Option<LogPage>, Failure> {
    let (sql, sequence) = match read.position {
        Position::After(sequence) => (PAGE_AFTER, sequence),
        Position::Before(sequence) => (PAGE_BEFORE, sequence),
    };
    let chat_id = Id::from(read.chat_id);
    let reader = read.reader.as_ref().map(UserId::as_str);
    // One less than the largest, because the statement adds one.
    let limit = row_limit(read.limit).min(i64::MAX - 1);
    let content_bytes_max = row_limit(read.content_bytes_max);
    let rows = connection
        .query(sql, &[&chat_id, &reader, &signed(sequence), &limit, &content_bytes_max])
        .await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let head = number(first, 0)?;
    if get::<Option<i64>>(first, 2)?.is_none() {
        return Ok(Some(LogPage { head_sequence: head, ..LogPage::default() }));
    }
    let messages = rows.iter().map(|row| rows::message(row, 2, read.chat_id));
    let messages = messages.collect::<Result<Vec<_>, _>>()?;
    let farthest = match read.position {
        Position::After(_) => rows.last(),
        Position::Before(_) => rows.first(),
    };
    let has_more = farthest.map(|row| get(row, 1)).transpose()?.unwrap_or(false);
    let last = messages.last().map_or(0, |message| message.sequence);
    Ok(Some(LogPage { messages, has_more, head_sequence: head.max(last) }))
}

pub(super) const MANIFEST: &str = concat!(
    "SELECT c.chat_id, ",
    head!(),
    ", m.last_acked_sequence
    FROM users u
    CROSS JOIN LATERAL (
        SELECT k.chat_key, k.last_acked_sequence FROM members k
        WHERE k.user_key = u.user_key OFFSET 0
    ) m
    CROSS JOIN LATERAL (
        SELECT k.chat_key, k.chat_id, k.head_sequence FROM chats k
        WHERE k.chat_key = m.chat_key LIMIT 1
    ) c
    WHERE u.user_id = $1 AND ($2::uuid IS NULL OR c.chat_id > $2) ORDER BY c.chat_id LIMIT $3"
);

/// The chats of a user in the order of their ids, with their heads and watermarks.
pub(super) async fn manifest(
    mut connection: PooledConnection<'_>,
    user_id: &UserId,
    after: Option<ChatId>,
    limit: usize,
) -> Result<Vec<ManifestChat>, Failure> {
    let after = after.map(Id::from);
    let rows = connection.query(MANIFEST, &[&user_id.as_str(), &after, &row_limit(limit)]).await?;
    let chat = |row: &tokio_postgres::Row| {
        Ok(ManifestChat {
            chat_id: rows::chat_id(row, 0)?,
            head_sequence: number(row, 1)?,
            last_acked_sequence: number(row, 2)?,
        })
    };
    rows.iter().map(chat).collect()
}
