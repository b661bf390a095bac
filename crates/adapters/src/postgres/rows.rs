//! The representation of ids, numbers and times in the database.

use std::error::Error;
use std::str::FromStr;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use heartline_durability::message::DEFAULT_CONTENT_TYPE;
use heartline_protocol::rest::Visibility;
use heartline_protocol::server_frame::{ChatKind, Message, Role};
use heartline_protocol::{ChatId, MessageId, Timestamp, UserId};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};
use ulid::Ulid;

use super::failure::Failure;

/// The columns of a query for [`message`], with `messages` as `m` and the sender as `u`. The caller
/// chooses the first column.
macro_rules! message_columns {
    () => {
        "m.sequence, m.message_id, u.user_id, m.client_message_id, m.created_at, m.content_type,
         m.content"
    };
}

/// The newest sequence of a chat `c`, also while its counter is lost.
macro_rules! head {
    () => {
        "coalesce(c.head_sequence, (SELECT newest.sequence FROM messages newest
            WHERE newest.chat_key = c.chat_key ORDER BY newest.sequence DESC LIMIT 1), 0)"
    };
}

pub(super) use {head, message_columns};

/// An id as a `uuid` of the database, whose byte order is the order of ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Id(pub(super) Ulid);

impl From<ChatId> for Id {
    fn from(chat_id: ChatId) -> Self {
        Self(chat_id.0)
    }
}

impl From<MessageId> for Id {
    fn from(message_id: MessageId) -> Self {
        Self(message_id.0)
    }
}

impl ToSql for Id {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_slice(&self.0.to_bytes());
        Ok(IsNull::No)
    }

    accepts!(UUID);
    to_sql_checked!();
}

impl<'row> FromSql<'row> for Id {
    fn from_sql(_: &Type, raw: &'row [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(Ulid::from_bytes(raw.try_into()?)))
    }

    accepts!(UUID);
}

/// A column of a row.
pub(super) fn get<'row, T: FromSql<'row>>(row: &'row Row, column: usize) -> Result<T, Failure> {
    row.try_get(column).map_err(|error| unreadable(column, error))
}

fn unreadable(column: usize, error: impl std::fmt::Display) -> Failure {
    Failure::rejected(format!("column {column} of an answer cannot be read: {error}"))
}

/// A number from the database that is never negative.
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// A number for the database, at most the largest that fits.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A limit of rows for the database.
pub(super) fn row_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// A number that is never negative.
pub(super) fn number(row: &Row, column: usize) -> Result<u64, Failure> {
    Ok(unsigned(get(row, column)?))
}

/// A time for the database.
pub(super) fn milliseconds(time: Timestamp) -> i64 {
    signed(time.unix_ms)
}

/// A duration for the database.
pub(super) fn duration_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// A time from the database.
pub(super) fn timestamp(row: &Row, column: usize) -> Result<Timestamp, Failure> {
    Ok(Timestamp { unix_ms: number(row, column)? })
}

/// A time from the database, if it is not null.
pub(super) fn some_timestamp(row: &Row, column: usize) -> Result<Option<Timestamp>, Failure> {
    let unix_ms: Option<i64> = get(row, column)?;
    Ok(unix_ms.map(|unix_ms| Timestamp { unix_ms: unsigned(unix_ms) }))
}

/// A chat id from the database.
pub(super) fn chat_id(row: &Row, column: usize) -> Result<ChatId, Failure> {
    Ok(ChatId(get::<Id>(row, column)?.0))
}

/// A text id from the database.
pub(super) fn text_id<T: FromStr<Err: Error>>(row: &Row, column: usize) -> Result<T, Failure> {
    get::<&str>(row, column)?.parse().map_err(|error| unreadable(column, error))
}

/// A user id from the database.
pub(super) fn user_id(row: &Row, column: usize) -> Result<UserId, Failure> {
    text_id(row, column)
}

/// User ids from the database.
pub(super) fn user_ids(row: &Row, column: usize) -> Result<Vec<UserId>, Failure> {
    let texts: Vec<&str> = get(row, column)?;
    let parse = |text: &str| text.parse().map_err(|error| unreadable(column, error));
    texts.into_iter().map(parse).collect()
}

/// Text that is stored as bytes.
pub(super) fn utf8(row: &Row, column: usize) -> Result<Option<String>, Failure> {
    let bytes: Option<&[u8]> = get(row, column)?;
    let text = bytes.map(|bytes| std::str::from_utf8(bytes).map(ToOwned::to_owned)).transpose();
    text.map_err(|error| unreadable(column, error))
}

/// A content type for the database; null for the default one.
pub(super) fn content_type_bytes(content_type: &str) -> Option<&[u8]> {
    Some(content_type).filter(|kind| *kind != DEFAULT_CONTENT_TYPE).map(str::as_bytes)
}

/// A content type from the database.
pub(super) fn content_type(row: &Row, column: usize) -> Result<String, Failure> {
    Ok(utf8(row, column)?.unwrap_or_else(|| DEFAULT_CONTENT_TYPE.to_owned()))
}

/// A message of [`message_columns`], which begin at this column.
pub(super) fn message(row: &Row, first: usize, chat_id: ChatId) -> Result<Message, Failure> {
    let content = utf8(row, first + 6)?;
    Ok(Message {
        chat_id,
        sequence: number(row, first)?,
        message_id: MessageId(get::<Id>(row, first + 1)?.0),
        sender_id: user_id(row, first + 2)?,
        client_message_id: text_id(row, first + 3)?,
        created_at: timestamp(row, first + 4)?,
        content_type: content_type(row, first + 5)?,
        deleted: content.is_none(),
        content: content.unwrap_or_default(),
    })
}

/// A chat's kind as a number.
pub(super) fn kind_number(kind: ChatKind) -> i16 {
    match kind {
        ChatKind::Direct => 0,
        ChatKind::Group => 1,
    }
}

/// A chat's kind from the database.
pub(super) fn kind(row: &Row, column: usize) -> Result<ChatKind, Failure> {
    match get::<i16>(row, column)? {
        0 => Ok(ChatKind::Direct),
        1 => Ok(ChatKind::Group),
        other => Err(unreadable(column, format_args!("there is no kind {other}"))),
    }
}

/// A role as a number, the highest role first.
pub(super) fn role_number(role: Role) -> i16 {
    match role {
        Role::Owner => 0,
        Role::Admin => 1,
        Role::Member => 2,
    }
}

/// Roles from the database.
pub(super) fn roles(row: &Row, column: usize) -> Result<Vec<Role>, Failure> {
    let role = |number| match number {
        0 => Ok(Role::Owner),
        1 => Ok(Role::Admin),
        2 => Ok(Role::Member),
        other => Err(unreadable(column, format_args!("there is no role {other}"))),
    };
    get::<Vec<i16>>(row, column)?.into_iter().map(role).collect()
}

/// A visibility as a number.
pub(super) fn visibility_number(visibility: Visibility) -> i16 {
    match visibility {
        Visibility::Everyone => 0,
        Visibility::ContactsOnly => 1,
        Visibility::Nobody => 2,
    }
}

/// A visibility from the database, if it is not null.
pub(super) fn visibility(row: &Row, column: usize) -> Result<Option<Visibility>, Failure> {
    match get::<Option<i16>>(row, column)? {
        None => Ok(None),
        Some(0) => Ok(Some(Visibility::Everyone)),
        Some(1) => Ok(Some(Visibility::ContactsOnly)),
        Some(2) => Ok(Some(Visibility::Nobody)),
        Some(other) => Err(unreadable(column, format_args!("there is no choice {other}"))),
    }
}
