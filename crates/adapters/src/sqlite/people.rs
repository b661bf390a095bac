//! Users: display names, last-seen times, watermarks and deletion.

use heartline_durability::{Edited, Profile, Watermark};
use heartline_protocol::server_frame::{ChatKind, Role};
use heartline_protocol::{ChatId, Timestamp, UserId};
use rusqlite::{Connection, OptionalExtension, params};

use super::chats;
use super::edit::{apply, set_role};
use super::rows::{self, milliseconds, sequence_of, signed, unsigned};
use super::write_transaction::{WriteTransaction, message_range};
use heartline_durability::chat_rules::{self, Change};

/// A user's profile; empty for an unknown user.
pub(super) fn profile(connection: &Connection, user_id: &UserId) -> rusqlite::Result<Profile> {
    let sql = "SELECT display_name, last_seen FROM users WHERE user_id = ?1";
    let found = connection
        .prepare_cached(sql)?
        .query_row([user_id.as_str()], |row| Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?)))
        .optional()?;
    let (display_name, last_seen) = found.unwrap_or((None, None));
    let last_seen = last_seen.map(|unix_ms| Timestamp { unix_ms: unsigned(unix_ms) });
    Ok(Profile { user_id: user_id.clone(), display_name, last_seen })
}

/// Sets the display name of a user.
pub(super) fn set_display_name(
    transaction: &mut WriteTransaction<'_>,
    user_id: &UserId,
    display_name: Option<&str>,
) -> rusqlite::Result<Profile> {
    let user_key = transaction.named_user(user_id)?;
    let sql = "UPDATE users SET display_name = ?2 WHERE user_key = ?1";
    transaction.connection.prepare_cached(sql)?.execute(params![user_key, display_name])?;
    profile(transaction.connection, user_id)
}

/// Raises last-seen times.
pub(super) fn record_last_seen(
    transaction: &mut WriteTransaction<'_>,
    seen: &[(UserId, Timestamp)],
) -> rusqlite::Result<()> {
    for (user_id, at) in seen {
        let user_key = transaction.named_user(user_id)?;
        let sql = "UPDATE users SET last_seen = ?2
            WHERE user_key = ?1 AND (last_seen IS NULL OR last_seen < ?2)";
        transaction.connection.prepare_cached(sql)?.execute([user_key, milliseconds(*at)])?;
    }
    Ok(())
}

/// Raises watermarks, each clamped to its chat's head.
pub(super) fn record_watermarks(
    transaction: &mut WriteTransaction<'_>,
    watermarks: &[Watermark],
) -> rusqlite::Result<()> {
    for Watermark { user_id, chat_id, last_acked_sequence } in watermarks {
        let Some(chat) = transaction.chat(*chat_id)? else { continue };
        let Some(user_key) = transaction.user(user_id)? else { continue };
        let acked = signed((*last_acked_sequence).min(chat.head));
        let sql = "UPDATE members SET last_acked_sequence = ?3
            WHERE chat_key = ?1 AND user_key = ?2 AND last_acked_sequence < ?3";
        transaction.connection.prepare_cached(sql)?.execute([chat.key, user_key, acked])?;
    }
    Ok(())
}

/// Deletes a user: profile, memberships and contacts at once, the content of messages later.
pub(super) fn delete(
    transaction: &mut WriteTransaction<'_>,
    user_id: &UserId,
) -> rusqlite::Result<Vec<Edited>> {
    let Some(user_key) = transaction.user(user_id)? else { return Ok(Vec::new()) };
    let mut edited = Vec::new();
    for chat_id in chats_of(transaction.connection, user_key)? {
        edited.push(leave(transaction, chat_id, user_id)?);
    }
    plan_erasures(transaction.connection, user_key)?;
    for sql in [
        "UPDATE users SET display_name = NULL, last_seen = NULL, visibility = NULL
            WHERE user_key = ?1",
        "DELETE FROM contacts WHERE user_key = ?1",
        "DELETE FROM contacts WHERE contact_key = ?1",
        "DELETE FROM idempotency_keys WHERE user_key = ?1",
    ] {
        transaction.connection.prepare_cached(sql)?.execute([user_key])?;
    }
    Ok(edited)
}

fn chats_of(connection: &Connection, user_key: i64) -> rusqlite::Result<Vec<ChatId>> {
    let sql = "SELECT c.chat_id FROM members m JOIN chats c ON c.chat_key = m.chat_key
        WHERE m.user_key = ?1 ORDER BY c.chat_id";
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_map([user_key], |row| rows::chat_id(row, 0))?.collect()
}

/// Removes a deleted user from a chat. The other member of a direct chat may create a new one.
fn leave(
    transaction: &mut WriteTransaction<'_>,
    chat_id: ChatId,
    user_id: &UserId,
) -> rusqlite::Result<Edited> {
    let whole = chats::find(transaction.connection, chat_id)?.expect("a member's chat exists");
    if whole.chat.members.len() <= 1 {
        return apply(transaction, whole, Change::End);
    }
    if let Some(heir) = chat_rules::heir(&whole.chat, user_id) {
        set_role(transaction, whole.key, &heir, Role::Owner)?;
    }
    if whole.chat.kind == ChatKind::Direct {
        let sql = "UPDATE chats SET direct_low = NULL, direct_high = NULL WHERE chat_key = ?1";
        transaction.connection.prepare_cached(sql)?.execute([whole.key])?;
    }
    apply(transaction, whole, Change::Go(user_id.clone()))
}

/// Records every chat to which the user has sent messages, with its newest sequence, so that
/// messages that the user sends after coming back stay.
fn plan_erasures(connection: &Connection, user_key: i64) -> rusqlite::Result<()> {
    let spoken = "SELECT chat_key FROM speakers WHERE user_key = ?1";
    let newest = "SELECT max(id) FROM messages WHERE id > ?1 AND id < ?2";
    let plan = "INSERT INTO erasures (user_key, chat_key, last_sequence) VALUES (?1, ?2, ?3)
        ON CONFLICT (user_key, chat_key) DO UPDATE SET last_sequence = excluded.last_sequence";
    let mut spoken = connection.prepare_cached(spoken)?;
    let mut newest = connection.prepare_cached(newest)?;
    let mut plan = connection.prepare_cached(plan)?;
    for chat_key in spoken.query_map([user_key], |row| row.get::<_, i64>(0))? {
        let chat_key = chat_key?;
        let (first, end) = message_range(chat_key);
        let last: Option<i64> = newest.query_row([first, end], |row| row.get(0))?;
        let last_sequence = signed(last.map_or(0, sequence_of));
        plan.execute([user_key, chat_key, last_sequence])?;
    }
    Ok(())
}
