//! Idempotency keys: the first result of a request, kept for a day.

use std::time::Duration;

use heartline_durability::{EditError, Idempotency};
use heartline_protocol::server_frame::Chat;

use super::failure::Failure;
use super::pooled_connection::PooledConnection;
use super::rows::{duration_ms, get, number, signed};

/// How long the result of a key is kept.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// The first result of a request.
#[derive(Debug)]
pub(super) struct FirstResult {
    /// The chat as it was then.
    pub(super) chat: Chat,
    /// The version of the membership then.
    pub(super) members_version: u64,
}

/// Serializes requests with the same key, on all nodes.
const LOCK: &str = "SELECT pg_advisory_xact_lock(
    hashtextextended(concat_ws(' ', $1::text, $2::text, $3::text), 0))";

const RECALL: &str = "SELECT k.fingerprint, k.members_version, k.chat
    FROM users u CROSS JOIN LATERAL (
        SELECT * FROM idempotency_keys i
        WHERE i.user_key = u.user_key AND i.route = $2 AND i.key = $3 LIMIT 1
    ) k
    WHERE u.user_id = $1 AND k.created_at > now_ms() - $4::bigint";

/// The result that is stored under a key, if any; a different request with the same key is refused.
/// Must be called within a transaction: other requests with the key wait until its end.
pub(super) async fn recall(
    connection: &mut PooledConnection<'_>,
    idempotency: Option<&Idempotency>,
) -> Result<Result<Option<FirstResult>, EditError>, Failure> {
    let Some(Idempotency { user_id, route, key, fingerprint }) = idempotency else {
        return Ok(Ok(None));
    };
    connection.query(LOCK, &[&user_id.as_str(), route, key]).await?;
    let lifetime = duration_ms(LIFETIME);
    let rows = connection.query(RECALL, &[&user_id.as_str(), route, key, &lifetime]).await?;
    let Some(row) = rows.first() else { return Ok(Ok(None)) };
    if get::<&[u8]>(row, 0)? != fingerprint {
        return Ok(Err(EditError::KeyReused));
    }
    let chat = serde_json::from_str(get(row, 2)?)
        .map_err(|error| Failure::rejected(format!("a first result cannot be read: {error}")))?;
    Ok(Ok(Some(FirstResult { chat, members_version: number(row, 1)? })))
}

const KEEP: &str = "INSERT INTO idempotency_keys
        (user_key, route, key, fingerprint, created_at, members_version, chat)
    SELECT u.user_key, $2, $3, $4, now_ms(), $5, $6 FROM users u WHERE u.user_id = $1
    ON CONFLICT (user_key, route, key) DO UPDATE SET fingerprint = excluded.fingerprint,
        created_at = excluded.created_at, members_version = excluded.members_version,
        chat = excluded.chat";

const DROP_OLD: &str = "DELETE FROM idempotency_keys i USING (
        SELECT k.user_key, k.route, k.key FROM idempotency_keys k
        WHERE k.created_at <= now_ms() - $1::bigint
        ORDER BY k.created_at LIMIT 100 FOR UPDATE SKIP LOCKED
    ) old
    WHERE i.user_key = old.user_key AND i.route = old.route AND i.key = old.key";

/// Stores the result of a request, and deletes some expired keys. The row of the user must exist.
pub(super) async fn keep(
    connection: &mut PooledConnection<'_>,
    idempotency: Option<&Idempotency>,
    chat: &Chat,
    members_version: u64,
) -> Result<(), Failure> {
    let Some(Idempotency { user_id, route, key, fingerprint }) = idempotency else {
        return Ok(());
    };
    let chat = serde_json::to_string(chat)
        .map_err(|error| Failure::rejected(format!("a result cannot be kept: {error}")))?;
    let (fingerprint, version) = (&fingerprint[..], signed(members_version));
    let user_id = user_id.as_str();
    connection.write(KEEP, &[&user_id, route, key, &fingerprint, &version, &chat]).await?;
    connection.write(DROP_OLD, &[&duration_ms(LIFETIME)]).await.map(drop)
}
