//! `Idempotency-Key`s: the first result of a request, for a day.

use std::time::Duration;

use heartline_durability::{EditError, Idempotency};
use heartline_protocol::server_frame::Chat;
use rusqlite::types::Type;
use rusqlite::{OptionalExtension, params};

use super::rows::{milliseconds, signed, unsigned};
use super::session::Session;

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

/// What the same key gave before, if anything; another request under it is refused.
pub(super) fn recall(
    session: &mut Session<'_>,
    idempotency: Option<&Idempotency>,
) -> rusqlite::Result<Result<Option<FirstResult>, EditError>> {
    let Some(Idempotency { user_id, route, key, fingerprint }) = idempotency else {
        return Ok(Ok(None));
    };
    let Some(user_key) = session.user(user_id)? else { return Ok(Ok(None)) };
    let sql = "SELECT fingerprint, members_version, chat FROM idempotency_keys
        WHERE user_key = ?1 AND route = ?2 AND key = ?3 AND created_at > ?4";
    let mut statement = session.connection.prepare_cached(sql)?;
    let oldest = milliseconds(session.now.minus(LIFETIME));
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

/// Keeps what a request came to, and drops some keys that are too old.
pub(super) fn keep(
    session: &mut Session<'_>,
    idempotency: Option<&Idempotency>,
    chat: &Chat,
    members_version: u64,
) -> rusqlite::Result<()> {
    let Some(Idempotency { user_id, route, key, fingerprint }) = idempotency else {
        return Ok(());
    };
    let user_key = session.named_user(user_id)?;
    let chat = serde_json::to_string(chat)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    let now = milliseconds(session.now);
    let version = signed(members_version);
    let sql = "INSERT OR REPLACE INTO idempotency_keys
            (user_key, route, key, fingerprint, created_at, members_version, chat)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let row = params![user_key, route, key, fingerprint, now, version, chat];
    session.connection.prepare_cached(sql)?.execute(row)?;
    let sql = "DELETE FROM idempotency_keys WHERE (user_key, route, key) IN
        (SELECT user_key, route, key FROM idempotency_keys WHERE created_at <= ?1 LIMIT 100)";
    let oldest = milliseconds(session.now.minus(LIFETIME));
    session.connection.prepare_cached(sql)?.execute([oldest])?;
    Ok(())
}
