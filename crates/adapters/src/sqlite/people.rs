//! People: what they are called, when they were here, how far they have read, and their going.

use heartline_durability::{Edited, Profile, Watermark};
use heartline_protocol::server_frame::{ChatKind, Role};
use heartline_protocol::{ChatId, Timestamp, UserId};
use rusqlite::{Connection, OptionalExtension, params};

use super::chats;
use super::edit::{apply, set_role};
use super::rows::{self, milliseconds, sequence_of, signed, unsigned};
use super::session::{Session, message_range};
use heartline_durability::chat_rules::{self, Change};

/// A user's profile; one who never came has an empty one.
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

/// Sets what a user wants to be called.
pub(super) fn set_display_name(
    session: &mut Session<'_>,
    user_id: &UserId,
    display_name: Option<&str>,
) -> rusqlite::Result<Profile> {
    let user_key = session.named_user(user_id)?;
    let sql = "UPDATE users SET display_name = ?2 WHERE user_key = ?1";
    session.connection.prepare_cached(sql)?.execute(params![user_key, display_name])?;
    profile(session.connection, user_id)
}

/// Raises when users were last online.
pub(super) fn record_last_seen(
    session: &mut Session<'_>,
    seen: &[(UserId, Timestamp)],
) -> rusqlite::Result<()> {
    for (user_id, at) in seen {
        let user_key = session.named_user(user_id)?;
        let sql = "UPDATE users SET last_seen = ?2
            WHERE user_key = ?1 AND (last_seen IS NULL OR last_seen < ?2)";
        session.connection.prepare_cached(sql)?.execute([user_key, milliseconds(*at)])?;
    }
    Ok(())
}

/// Raises watermarks, each clamped to its chat's head.
pub(super) fn record_watermarks(
    session: &mut Session<'_>,
    watermarks: &[Watermark],
) -> rusqlite::Result<()> {
    for Watermark { user_id, chat_id, last_acked_sequence } in watermarks {
        let Some(chat) = session.chat(*chat_id)? else { continue };
        let Some(user_key) = session.user(user_id)? else { continue };
        let acked = signed((*last_acked_sequence).min(chat.head));
        let sql = "UPDATE members SET last_acked_sequence = ?3
            WHERE chat_key = ?1 AND user_key = ?2 AND last_acked_sequence < ?3";
        session.connection.prepare_cached(sql)?.execute([chat.key, user_key, acked])?;
    }
    Ok(())
}

/// Removes a person: at once all that names them, the content of their messages by and by.
pub(super) fn delete(session: &mut Session<'_>, user_id: &UserId) -> rusqlite::Result<Vec<Edited>> {
    let Some(user_key) = session.user(user_id)? else { return Ok(Vec::new()) };
    let mut edited = Vec::new();
    for chat_id in chats_of(session.connection, user_key)? {
        edited.push(leave(session, chat_id, user_id)?);
    }
    plan_erasures(session.connection, user_key)?;
    for sql in [
        "UPDATE users SET display_name = NULL, last_seen = NULL, visibility = NULL
            WHERE user_key = ?1",
        "DELETE FROM contacts WHERE user_key = ?1",
        "DELETE FROM contacts WHERE contact_key = ?1",
        "DELETE FROM idempotency_keys WHERE user_key = ?1",
    ] {
        session.connection.prepare_cached(sql)?.execute([user_key])?;
    }
    Ok(edited)
}

fn chats_of(connection: &Connection, user_key: i64) -> rusqlite::Result<Vec<ChatId>> {
    let sql = "SELECT c.chat_id FROM members m JOIN chats c ON c.chat_key = m.chat_key
        WHERE m.user_key = ?1 ORDER BY c.chat_id";
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_map([user_key], |row| rows::chat_id(row, 0))?.collect()
}

/// Takes one who is no more out of a chat. A pair that is no pair any more may be made anew.
fn leave(session: &mut Session<'_>, chat_id: ChatId, user_id: &UserId) -> rusqlite::Result<Edited> {
    let whole = chats::find(session.connection, chat_id)?.expect("a member's chat exists");
    if whole.chat.members.len() <= 1 {
        return apply(session, whole, Change::End);
    }
    if let Some(heir) = chat_rules::heir(&whole.chat, user_id) {
        set_role(session, whole.key, &heir, Role::Owner)?;
    }
    if whole.chat.kind == ChatKind::Direct {
        let sql = "UPDATE chats SET direct_low = NULL, direct_high = NULL WHERE chat_key = ?1";
        session.connection.prepare_cached(sql)?.execute([whole.key])?;
    }
    apply(session, whole, Change::Go(user_id.clone()))
}

/// Notes every chat in which the person has said something, with its newest number, so that what
/// they say after coming back is not taken for what they said before.
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
