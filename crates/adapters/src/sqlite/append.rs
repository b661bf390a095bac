//! Stop 6 of the life of a message, in SQLite: numbered once and stored.

use heartline_durability::message::DEFAULT_CONTENT_TYPE;
use heartline_durability::{AppendRefusal, Appended, NewMessage};
use heartline_protocol::server_frame::Message;
use heartline_protocol::{MessageId, Timestamp};
use rusqlite::ffi::{SQLITE_CONSTRAINT_PRIMARYKEY, SQLITE_CONSTRAINT_ROWID};
use rusqlite::{OptionalExtension, params};
use ulid::Ulid;

use super::rows::{self, MESSAGE_COLUMNS, SEQUENCE_MAX, message_row_id, milliseconds};
use super::write_transaction::{ChatState, WriteTransaction};

/// The outcome of one message inside the transaction.
pub(super) type MessageOutcome = Result<Numbered, AppendRefusal>;

/// A message that has its sequence.
pub(super) enum Numbered {
    /// The transaction stores the message.
    Now { sequence: u64, message_id: MessageId, created_at: Timestamp, members_version: u64 },
    /// An earlier attempt had stored the message.
    Before(Box<Appended>),
}

impl Numbered {
    /// The result for the sender, once the transaction is committed.
    pub(super) fn appended(self, new: NewMessage) -> Appended {
        match self {
            Self::Now { sequence, message_id, created_at, members_version } => {
                let message = Message {
                    chat_id: new.chat_id,
                    sequence,
                    message_id,
                    sender_id: new.sender_id,
                    client_message_id: new.client_message_id,
                    content: new.content,
                    content_type: new.content_type,
                    created_at,
                    deleted: false,
                };
                Appended { message, duplicate: false, published: false, members_version }
            }
            Self::Before(appended) => *appended,
        }
    }
}

/// Stores one message. The common path is one statement: the index over (client_message_id,
/// sender, chat) rejects a message that was stored before, and only then is that one looked up. A
/// statement is atomic by itself, so a refused message leaves no trace. The caller writes the
/// heads, once for all messages of a transaction.
pub(super) fn append(
    transaction: &mut WriteTransaction<'_>,
    new: &NewMessage,
) -> rusqlite::Result<MessageOutcome> {
    let Some(chat) = transaction.chat(new.chat_id)? else {
        return Ok(Err(AppendRefusal::NotAMember));
    };
    let Some(sender_key) = transaction.user(&new.sender_id)? else {
        return Ok(Err(AppendRefusal::NotAMember));
    };
    let is_member = transaction.is_member(&chat, sender_key)?;
    if !is_member || chat.halted || chat.head >= SEQUENCE_MAX {
        let refusal = if is_member { AppendRefusal::Halted } else { AppendRefusal::NotAMember };
        let stored = stored_before(transaction, &chat, sender_key, new)?;
        return Ok(stored.unwrap_or(Err(refusal)));
    }
    let message_id =
        MessageId(Ulid::from_parts(transaction.now.unix_ms, transaction.random.draw()));
    match insert(transaction, &chat, sender_key, new, message_id) {
        Ok(1) => {
            transaction.advance(new.chat_id);
            transaction.note_speaker(chat.key, sender_key)?;
            Ok(Ok(Numbered::Now {
                sequence: chat.head + 1,
                message_id,
                created_at: transaction.now,
                members_version: chat.members_version,
            }))
        }
        Ok(_) => {
            let stored = stored_before(transaction, &chat, sender_key, new)?;
            Ok(stored.expect("only a message that was stored before is not inserted"))
        }
        Err(error) if is_number_taken(&error) => {
            if let Some(stored) = stored_before(transaction, &chat, sender_key, new)? {
                return Ok(stored);
            }
            transaction.counters.duplicate_sequences.inc();
            transaction.halt(new.chat_id, chat.key, "its next number is taken")?;
            Ok(Err(AppendRefusal::Halted))
        }
        Err(error) => Err(error),
    }
}

fn insert(
    transaction: &WriteTransaction<'_>,
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
    transaction.connection.prepare_cached(sql)?.execute(params![
        message_row_id(chat.key, chat.head + 1),
        chat.key,
        sender_key,
        new.client_message_id.as_str(),
        message_id.0.to_bytes(),
        milliseconds(transaction.now),
        content_type,
        new.content,
    ])
}

fn is_number_taken(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    matches!(code, Some(SQLITE_CONSTRAINT_PRIMARYKEY | SQLITE_CONSTRAINT_ROWID))
}

/// The message that an earlier attempt has stored, or a conflict if its content differs. Deleted
/// content cannot be compared, and conflicts with nothing.
fn stored_before(
    transaction: &WriteTransaction<'_>,
    chat: &ChatState,
    sender_key: i64,
    new: &NewMessage,
) -> rusqlite::Result<Option<MessageOutcome>> {
    let sql = format!(
        "SELECT {MESSAGE_COLUMNS} FROM messages m JOIN users u ON u.user_key = m.sender_key
         WHERE m.sender_key = ?1 AND m.chat_key = ?2 AND m.client_message_id = ?3"
    );
    let mut statement = transaction.connection.prepare_cached(&sql)?;
    let key = params![sender_key, chat.key, new.client_message_id.as_str()];
    let found = statement.query_row(key, |row| rows::message(row, new.chat_id)).optional()?;
    Ok(found.map(|message| {
        let is_same = message.content == new.content && message.content_type == new.content_type;
        if !is_same && !message.deleted {
            return Err(AppendRefusal::Conflict);
        }
        let published = message.sequence <= chat.published;
        let members_version = chat.members_version;
        let appended = Appended { message, duplicate: true, published, members_version };
        Ok(Numbered::Before(Box::new(appended)))
    }))
}
