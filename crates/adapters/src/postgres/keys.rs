//! `Idempotency-Key`s: the first result of a request, for a day.

use std::time::Duration;

use heartline_durability::{EditError, Idempotency};
use heartline_protocol::server_frame::Chat;

use super::failure::Failure;
use super::lease::Lease;
use super::rows::{duration_ms, get, number, signed};

/// How long a key gives its first result.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// What a request came to the first time.
#[derive(Debug)]
pub(super) struct FirstResult {
    /// The chat as it was then.
    pub(super) chat: Chat,
    /// The version of its membership then.
    pub(super) members_version: u64,
}

/// Two requests with one key come one after the other, on whatever nodes they are.
const LOCK: &str = "SELECT pg_advisory_xact_lock(
    hashtextextended(concat_ws(' ', $1::text, $2::text, $3::text), 0))";

const RECALL: &str = "SELECT k.fingerprint, k.members_version, k.chat
    FROM users u CROSS JOIN LATERAL (
        SELECT * FROM idempotency_keys i
        WHERE i.user_key = u.user_key AND i.route = $2 AND i.key = $3 LIMIT 1
    ) k
    WHERE u.user_id = $1 AND k.created_at > now_ms() - $4::bigint";

/// What the same key gave before, if anything; another request under it is refused. Within a
/// transaction: until its end, others with the same key wait.
pub(super) async fn recall(
    lease: &mut Lease<'_>,
    idempotency: Option<&Idempotency>,
) -> Result<Result<Option<FirstResult>, EditError>, Failure> {
    let Some(Idempotency { user_id, route, key, fingerprint }) = idempotency else {
        return Ok(Ok(None));
    };
    lease.query(LOCK, &[&user_id.as_str(), route, key]).await?;
    let lifetime = duration_ms(LIFETIME);
    let rows = lease.query(RECALL, &[&user_id.as_str(), route, key, &lifetime]).await?;
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

/// Keeps what a request came to, and drops some keys that are too old. Its user was named.
pub(super) async fn keep(
    lease: &mut Lease<'_>,
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
    lease.write(KEEP, &[&user_id, route, key, &fingerprint, &version, &chat]).await?;
    lease.write(DROP_OLD, &[&duration_ms(LIFETIME)]).await.map(drop)
}
