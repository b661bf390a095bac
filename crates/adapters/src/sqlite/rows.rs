//! The representation of ids, numbers and times in the file.

use std::str::FromStr;

use heartline_durability::message::DEFAULT_CONTENT_TYPE;
use heartline_protocol::rest::Visibility;
use heartline_protocol::server_frame::{ChatKind, Message, Role};
use heartline_protocol::{ChatId, MessageId, Timestamp, UserId};
use rusqlite::Row;
use rusqlite::types::Type;
use ulid::Ulid;

/// The largest sequence that fits into the row id of a message.
pub(super) const SEQUENCE_MAX: u64 = u32::MAX as u64;

/// The columns of a query for [`message`], with `users` joined by the sender.
pub(super) const MESSAGE_COLUMNS: &str =
    "m.id, m.message_id, u.user_id, m.client_message_id, m.created_at, m.content_type, m.content";

/// The row id of a message: the key of the chat in the high bits, the sequence in the low bits.
pub(super) fn message_row_id(chat_key: i64, sequence: u64) -> i64 {
    (chat_key << 32) | signed(sequence.min(SEQUENCE_MAX))
}

/// The sequence in the row id of a message.
pub(super) fn sequence_of(row_id: i64) -> u64 {
    unsigned(row_id & signed(SEQUENCE_MAX))
}

/// A number from the file that is never negative.
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// A number for the file, at most the largest that fits.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A limit of rows for a statement.
pub(super) fn row_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// A time for the file.
pub(super) fn milliseconds(time: Timestamp) -> i64 {
    signed(time.unix_ms)
}

/// A time from the file.
pub(super) fn timestamp(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    Ok(Timestamp { unix_ms: unsigned(row.get(column)?) })
}

/// A chat id for the file; its byte order is the order of ids.
pub(super) fn chat_bytes(chat_id: ChatId) -> [u8; 16] {
    chat_id.0.to_bytes()
}

/// A chat id from the file.
pub(super) fn chat_id(row: &Row<'_>, column: usize) -> rusqlite::Result<ChatId> {
    Ok(ChatId(Ulid::from_bytes(row.get(column)?)))
}

/// A text id from the file.
pub(super) fn text_id<T>(row: &Row<'_>, column: usize) -> rusqlite::Result<T>
where
    T: FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    let text = row.get_ref(column)?.as_str()?;
    text.parse().map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
    })
}

/// A user id from the file.
pub(super) fn user_id(row: &Row<'_>, column: usize) -> rusqlite::Result<UserId> {
    text_id(row, column)
}

/// A message of [`MESSAGE_COLUMNS`].
pub(super) fn message(row: &Row<'_>, chat_id: ChatId) -> rusqlite::Result<Message> {
    let content_type: Option<String> = row.get(5)?;
    let content: Option<String> = row.get(6)?;
    Ok(Message {
        chat_id,
        sequence: sequence_of(row.get(0)?),
        message_id: MessageId(Ulid::from_bytes(row.get(1)?)),
        sender_id: user_id(row, 2)?,
        client_message_id: text_id(row, 3)?,
        created_at: timestamp(row, 4)?,
        content_type: content_type.unwrap_or_else(|| DEFAULT_CONTENT_TYPE.to_owned()),
        deleted: content.is_none(),
        content: content.unwrap_or_default(),
    })
}

/// A chat's kind as a number.
pub(super) fn kind_number(kind: ChatKind) -> i64 {
    match kind {
        ChatKind::Direct => 0,
        ChatKind::Group => 1,
    }
}

/// A chat's kind from the file.
pub(super) fn kind(row: &Row<'_>, column: usize) -> rusqlite::Result<ChatKind> {
    match row.get(column)? {
        0_i64 => Ok(ChatKind::Direct),
        1 => Ok(ChatKind::Group),
        other => Err(rusqlite::Error::IntegralValueOutOfRange(column, other)),
    }
}

/// A role as a number, the highest role first.
pub(super) fn role_number(role: Role) -> i64 {
    match role {
        Role::Owner => 0,
        Role::Admin => 1,
        Role::Member => 2,
    }
}

/// A role from the file.
pub(super) fn role(row: &Row<'_>, column: usize) -> rusqlite::Result<Role> {
    match row.get(column)? {
        0_i64 => Ok(Role::Owner),
        1 => Ok(Role::Admin),
        2 => Ok(Role::Member),
        other => Err(rusqlite::Error::IntegralValueOutOfRange(column, other)),
    }
}

/// A visibility as a number.
pub(super) fn visibility_number(visibility: Visibility) -> i64 {
    match visibility {
        Visibility::Everyone => 0,
        Visibility::ContactsOnly => 1,
        Visibility::Nobody => 2,
    }
}

/// A visibility from the file, if it is not null.
pub(super) fn visibility(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Visibility>> {
    match row.get(column)? {
        None => Ok(None),
        Some(0_i64) => Ok(Some(Visibility::Everyone)),
        Some(1) => Ok(Some(Visibility::ContactsOnly)),
        Some(2) => Ok(Some(Visibility::Nobody)),
        Some(other) => Err(rusqlite::Error::IntegralValueOutOfRange(column, other)),
    }
}
