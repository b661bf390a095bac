//! Recording announced messages, and claiming chats with unannounced ones.

use std::time::Duration;

use heartline_durability::{Published, Unpublished};
use tokio_postgres::Row;

use super::failure::Failure;
use super::pooled_connection::PooledConnection;
use super::rows::{self, Id, duration_ms, head, number, row_limit, signed};

/// How long a claim of a chat lasts.
const CLAIM: Duration = Duration::from_secs(10);

/// How long a store may not claim the same chat again, so that other nodes can: a node that cannot
/// announce must not keep a chat for ever. Longer than the interval of the relay.
const CLAIM_PAUSE: Duration = Duration::from_secs(3);

/// Ranges that one transaction records while it locks their chats.
pub(super) const RANGES_MAX: usize = 500;

/// Marks that one query moves to a later time at most.
const MOVED_MAX: usize = 1000;

/// Records announced ranges.
pub(super) async fn record(
    mut connection: PooledConnection<'_>,
    ranges: &[Published],
) -> Result<(), Failure> {
    const RECORD: &str = "SELECT record_published($1, $2, $3)";
    let chat_ids: Vec<Id> = ranges.iter().map(|range| range.chat_id.into()).collect();
    let firsts: Vec<i64> = ranges.iter().map(|range| signed(range.first)).collect();
    let lasts: Vec<i64> = ranges.iter().map(|range| signed(range.last)).collect();
    connection.write(RECORD, &[&chat_ids, &firsts, &lasts]).await.map(drop)
}

/// Selects the chats that have been marked for long enough and that no store has claimed, the
/// longest first. Chats whose oldest unannounced message has waited as long are claimed; the marks
/// of the others are moved to the time of that message, so that the next query does not read them.
pub(super) const CLAIM_UNPUBLISHED: &str = concat!(
    "WITH now AS MATERIALIZED (
        SELECT now_ms() AS ms
    ), marked AS MATERIALIZED (
        SELECT u.chat_key FROM unpublished_chats u
        WHERE u.since <= (SELECT ms FROM now) - $2::bigint
            AND (u.claimed_by = $1 AND u.claimed_until > (SELECT ms FROM now)
                OR u.claimed_until <= (SELECT ms FROM now)
                    - CASE WHEN u.claimed_by = $1 THEN $6::bigint ELSE 0 END)
        ORDER BY u.since LIMIT $4::bigint + $5::bigint FOR UPDATE SKIP LOCKED
    ), waiting AS MATERIALIZED (
        SELECT k.chat_key, c.chat_id, c.published_sequence, c.head_sequence, c.members_version,
            m.created_at,
            coalesce(m.created_at <= (SELECT ms FROM now) - $2::bigint, false) AS is_due
        FROM marked k
        CROSS JOIN LATERAL (
            SELECT c.chat_id, c.published_sequence, c.members_version, ",
    head!(),
    " AS head_sequence
            FROM chats c WHERE c.chat_key = k.chat_key LIMIT 1
        ) c
        LEFT JOIN LATERAL (
            SELECT m.created_at FROM messages m
            WHERE m.chat_key = k.chat_key AND m.sequence = c.published_sequence + 1 LIMIT 1
        ) m ON true
    ), due AS MATERIALIZED (
        SELECT * FROM waiting WHERE is_due ORDER BY created_at LIMIT $4::bigint
    ), claimed AS (
        UPDATE unpublished_chats u SET since = d.created_at, claimed_by = $1,
            claimed_until = CASE
                WHEN u.claimed_by = $1 AND u.claimed_until > (SELECT ms FROM now)
                    THEN u.claimed_until
                ELSE (SELECT ms FROM now) + $3::bigint
            END
        FROM due d WHERE u.chat_key = d.chat_key
    ), moved AS (
        UPDATE unpublished_chats u SET since = coalesce(w.created_at, (SELECT ms FROM now))
        FROM waiting w WHERE u.chat_key = w.chat_key AND NOT w.is_due
    )
    SELECT d.chat_id, d.published_sequence, d.head_sequence, d.members_version
    FROM due d ORDER BY d.created_at"
);

/// Claims chats whose oldest unannounced message has waited this long.
pub(super) async fn unpublished(
    mut connection: PooledConnection<'_>,
    claimant: i64,
    older_than: Duration,
    limit: usize,
) -> Result<Vec<Unpublished>, Failure> {
    let (older_than, claim, rest) =
        (duration_ms(older_than), duration_ms(CLAIM), duration_ms(CLAIM_PAUSE));
    let (limit, moved) = (row_limit(limit.min(u32::MAX as usize)), row_limit(MOVED_MAX));
    let rows = connection
        .write(CLAIM_UNPUBLISHED, &[&claimant, &older_than, &claim, &limit, &moved, &rest])
        .await?;
    let chat = |row: &Row| {
        Ok(Unpublished {
            chat_id: rows::chat_id(row, 0)?,
            published_sequence: number(row, 1)?,
            head_sequence: number(row, 2)?,
            members_version: number(row, 3)?,
        })
    };
    rows.iter().map(chat).collect()
}
