//! Stop 6 of the life of a message, in SQLite: numbered once and stored.

use heartline_durability::message::DEFAULT_CONTENT_TYPE;
use heartline_durability::{AppendRefusal, Appended, NewMessage};
use heartline_protocol::MessageId;
use heartline_protocol::server_frame::Message;
use rusqlite::ffi::{SQLITE_CONSTRAINT_PRIMARYKEY, SQLITE_CONSTRAINT_ROWID};
use rusqlite::{OptionalExtension, params};
use ulid::Ulid;

use super::rows::{self, MESSAGE_COLUMNS, SEQUENCE_MAX, message_row_id, milliseconds};
use super::session::{ChatState, Session};

/// The result of one message.
pub(super) type Answer = Result<Appended, AppendRefusal>;

/// Stores messages in their order. The common path is one statement per message: the index over
/// (client_message_id, sender, chat) refuses what was stored before, and only then is it looked
/// up. A statement is atomic by itself, so a message that is refused leaves no trace. The heads
/// are written by the caller, once for all batches of a transaction.
pub(super) fn append(
    session: &mut Session<'_>,
    batch: Vec<NewMessage>,
) -> rusqlite::Result<Vec<Answer>> {
    batch.into_iter().map(|message| append_one(session, message)).collect()
}

fn append_one(session: &mut Session<'_>, new: NewMessage) -> rusqlite::Result<Answer> {
    let Some(chat) = session.chat(new.chat_id)? else { return Ok(Err(AppendRefusal::NotAMember)) };
    let Some(sender_key) = session.user(&new.sender_id)? else {
        return Ok(Err(AppendRefusal::NotAMember));
    };
    let is_member = session.is_member(&chat, sender_key)?;
    if !is_member || chat.halted || chat.head >= SEQUENCE_MAX {
        let refusal = if is_member { AppendRefusal::Halted } else { AppendRefusal::NotAMember };
        let stored = stored_before(session, &chat, sender_key, &new)?;
        return Ok(stored.unwrap_or(Err(refusal)));
    }
    let message_id = MessageId(Ulid::from_parts(session.now.unix_ms, session.random.draw()));
    match insert(session, &chat, sender_key, &new, message_id) {
        Ok(1) => {
            session.advance(new.chat_id);
            session.note_speaker(chat.key, sender_key)?;
            let message = stored_now(session, &chat, message_id, new);
            let members_version = chat.members_version;
            Ok(Ok(Appended { message, duplicate: false, published: false, members_version }))
        }
        Ok(_) => {
            let stored = stored_before(session, &chat, sender_key, &new)?;
            Ok(stored.expect("only a message that was stored before is passed over"))
        }
        Err(error) if is_number_taken(&error) => {
            if let Some(stored) = stored_before(session, &chat, sender_key, &new)? {
                return Ok(stored);
            }
            session.counters.duplicate_sequences.inc();
            session.halt(new.chat_id, chat.key, "its next number is taken")?;
            Ok(Err(AppendRefusal::Halted))
        }
        Err(error) => Err(error),
    }
}

fn insert(
    session: &Session<'_>,
    chat: &ChatState,
    sender_key: i64,
    new: &NewMessage,
    message_id: MessageId,
) -> rusqlite::Result<usize> {
    let sql = "INSERT INTO messages (id, chat_key, sender_key, client_message_id, message_id,
            created_at, content_type, content)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
        ON CONFLICT (sender_key, chat_key, client_message_id) DO NOTHING";
    let content_type = Some(&new.content_type).filter(|kind| *kind != DEFAULT_CONTENT_TYPE);
    session.connection.prepare_cached(sql)?.execute(params![
        message_row_id(chat.key, chat.head + 1),
        chat.key,
        sender_key,
        new.client_message_id.as_str(),
        message_id.0.to_bytes(),
        milliseconds(session.now),
        content_type,
        new.content,
    ])
}

fn is_number_taken(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    matches!(code, Some(SQLITE_CONSTRAINT_PRIMARYKEY | SQLITE_CONSTRAINT_ROWID))
}

fn stored_now(
    session: &Session<'_>,
    chat: &ChatState,
    message_id: MessageId,
    new: NewMessage,
) -> Message {
    Message {
        chat_id: new.chat_id,
        sequence: chat.head + 1,
        message_id,
        sender_id: new.sender_id,
        client_message_id: new.client_message_id,
        content: new.content,
        content_type: new.content_type,
        created_at: session.now,
        deleted: false,
    }
}

/// What an earlier attempt has stored: the first result, or a conflict if it said something else.
/// Content that was deleted cannot be compared, and conflicts with nothing.
fn stored_before(
    session: &Session<'_>,
    chat: &ChatState,
    sender_key: i64,
    new: &NewMessage,
) -> rusqlite::Result<Option<Answer>> {
    let sql = format!(
        "SELECT {MESSAGE_COLUMNS} FROM messages m JOIN users u ON u.user_key = m.sender_key
         WHERE m.sender_key = ?1 AND m.chat_key = ?2 AND m.client_message_id = ?3"
    );
    let mut statement = session.connection.prepare_cached(&sql)?;
    let key = params![sender_key, chat.key, new.client_message_id.as_str()];
    let found = statement.query_row(key, |row| rows::message(row, new.chat_id)).optional()?;
    Ok(found.map(|message| {
        let is_same = message.content == new.content && message.content_type == new.content_type;
        if !is_same && !message.deleted {
            return Err(AppendRefusal::Conflict);
        }
        let published = message.sequence <= chat.published;
        let members_version = chat.members_version;
        Ok(Appended { message, duplicate: true, published, members_version })
    }))
}
