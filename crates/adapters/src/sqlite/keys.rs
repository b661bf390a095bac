//! Idempotency keys: the first result of a request, kept for a day.

use std::time::Duration;

use heartline_durability::{EditError, Idempotency};
use heartline_protocol::server_frame::Chat;
use rusqlite::types::Type;
use rusqlite::{OptionalExtension, params};

use super::rows::{milliseconds, signed, unsigned};
use super::write_transaction::WriteTransaction;

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

/// The result that is stored under a key, if any; a different request with the same key is refused.
pub(super) fn recall(
    transaction: &mut WriteTransaction<'_>,
    idempotency: Option<&Idempotency>,
) -> rusqlite::Result<Result<Option<FirstResult>, EditError>> {
    let Some(Idempotency { user_id, route, key, fingerprint }) = idempotency else {
        return Ok(Ok(None));
    };
    let Some(user_key) = transaction.user(user_id)? else { return Ok(Ok(None)) };
    let sql = "SELECT fingerprint, members_version, chat FROM idempotency_keys
        WHERE user_key = ?1 AND route = ?2 AND key = ?3 AND created_at > ?4";
    let mut statement = transaction.connection.prepare_cached(sql)?;
    let oldest = milliseconds(transaction.now.minus(LIFETIME));
    let found = statement.query_row(params![user_key, route, key, oldest], |row| {
        let fingerprint: [u8; 32] = row.get(0)?;
        let chat = serde_json::from_str(row.get_ref(2)?.as_str()?).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(2, Type::Text, Box::new(error))
        })?;
        let members_version = unsigned(row.get(1)?);
        Ok((fingerprint, FirstResult { chat, members_version }))
    });
    Ok(match found.optional()? {
        Some((first, _)) if first != *fingerprint => Err(EditError::KeyReused),
        Some((_, result)) => Ok(Some(result)),
        None => Ok(None),
    })
}

/// Stores the result of a request, and deletes some expired keys.
pub(super) fn keep(
    transaction: &mut WriteTransaction<'_>,
    idempotency: Option<&Idempotency>,
    chat: &Chat,
    members_version: u64,
) -> rusqlite::Result<()> {
    let Some(Idempotency { user_id, route, key, fingerprint }) = idempotency else {
        return Ok(());
    };
    let user_key = transaction.named_user(user_id)?;
    let chat = serde_json::to_string(chat)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    let now = milliseconds(transaction.now);
    let version = signed(members_version);
    let sql = "INSERT OR REPLACE INTO idempotency_keys
            (user_key, route, key, fingerprint, created_at, members_version, chat)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let row = params![user_key, route, key, fingerprint, now, version, chat];
    transaction.connection.prepare_cached(sql)?.execute(row)?;
    let sql = "DELETE FROM idempotency_keys WHERE (user_key, route, key) IN
        (SELECT user_key, route, key FROM idempotency_keys WHERE created_at <= ?1 LIMIT 100)";
    let oldest = milliseconds(transaction.now.minus(LIFETIME));
    transaction.connection.prepare_cached(sql)?.execute([oldest])?;
    Ok(())
}
