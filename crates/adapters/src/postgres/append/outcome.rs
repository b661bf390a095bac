//! The outcome of one message, as the function `append` of the database returns it.

use heartline_durability::{AppendRefusal, Appended, NewMessage};
use heartline_protocol::server_frame::Message;
use heartline_protocol::{MessageId, Timestamp};
use tokio_postgres::Row;

use crate::postgres::failure::Failure;
use crate::postgres::rows::{Id, content_type, get, number, timestamp, utf8};

/// The result of one message that the database has processed.
type MessageResult = Result<Appended, AppendRefusal>;

/// The outcome of one distinct message.
pub(super) enum MessageOutcome {
    /// This append has stored the message.
    Stored { sequence: u64, created_at: Timestamp, members_version: u64 },
    /// An earlier attempt had stored a message with the same key.
    Found { found: Box<StoredMessage>, published: bool, members_version: u64 },
    /// The message was refused.
    Refused(AppendRefusal),
    /// The counter of the chat is wrong, and the chat must be halted.
    WrongCounter { is_taken: bool },
}

/// A message that is in the database.
pub(super) struct StoredMessage {
    sequence: u64,
    message_id: MessageId,
    created_at: Timestamp,
    content_type: String,
    content: Option<String>,
}

impl MessageOutcome {
    pub(super) fn from_row(row: &Row) -> Result<Self, Failure> {
        Ok(match get::<i16>(row, 1)? {
            0 => Self::Stored {
                sequence: number(row, 2)?,
                created_at: timestamp(row, 3)?,
                members_version: number(row, 4)?,
            },
            1 => Self::Found {
                found: Box::new(StoredMessage {
                    sequence: number(row, 2)?,
                    message_id: MessageId(get::<Id>(row, 6)?.0),
                    created_at: timestamp(row, 3)?,
                    content_type: content_type(row, 7)?,
                    content: utf8(row, 8)?,
                }),
                published: get(row, 5)?,
                members_version: number(row, 4)?,
            },
            2 => Self::Refused(AppendRefusal::NotAMember),
            3 => Self::Refused(AppendRefusal::Halted),
            4 => Self::WrongCounter { is_taken: false },
            5 => Self::WrongCounter { is_taken: true },
            other => return Err(Failure::rejected(format!("append returned outcome {other}"))),
        })
    }

    /// The result for the message that was given to the database.
    pub(super) fn of_first(&self, new: &NewMessage, message_id: MessageId) -> MessageResult {
        match self {
            Self::Stored { sequence, created_at, members_version } => {
                let stored = StoredMessage::new(*sequence, *created_at, new, message_id);
                let (message, members_version) = (stored.message(new), *members_version);
                Ok(Appended { message, duplicate: false, published: false, members_version })
            }
            Self::Found { found, published, members_version } => {
                let result = found.result(new, *published, *members_version);
                // Only this append uses this id: it stored the message, and the reply was lost.
                let is_own = found.message_id == message_id;
                result.map(|appended| Appended { duplicate: !is_own, ..appended })
            }
            Self::Refused(refusal) => Err(*refusal),
            Self::WrongCounter { .. } => Err(AppendRefusal::Halted),
        }
    }

    /// The result for a later message of the batch with the same key, as for a retry.
    pub(super) fn of_repeat(
        &self,
        new: &NewMessage,
        first: &NewMessage,
        message_id: MessageId,
    ) -> MessageResult {
        match self {
            Self::Stored { sequence, created_at, members_version } => {
                let stored = StoredMessage::new(*sequence, *created_at, first, message_id);
                stored.result(new, false, *members_version)
            }
            Self::Found { found, published, members_version } => {
                found.result(new, *published, *members_version)
            }
            Self::Refused(_) | Self::WrongCounter { .. } => self.of_first(new, message_id),
        }
    }
}

impl StoredMessage {
    fn new(sequence: u64, created_at: Timestamp, new: &NewMessage, message_id: MessageId) -> Self {
        let (content_type, content) = (new.content_type.clone(), Some(new.content.clone()));
        Self { sequence, message_id, created_at, content_type, content }
    }

    /// The result of a retry: the first result, or a conflict if the content differs.
    fn result(&self, new: &NewMessage, published: bool, members_version: u64) -> MessageResult {
        if !self.may_be(new) {
            return Err(AppendRefusal::Conflict);
        }
        Ok(Appended { message: self.message(new), duplicate: true, published, members_version })
    }

    /// Whether a retry has the same content. Deleted content cannot be compared, and conflicts
    /// with nothing.
    fn may_be(&self, new: &NewMessage) -> bool {
        let is_same =
            |content: &String| *content == new.content && self.content_type == new.content_type;
        self.content.as_ref().is_none_or(is_same)
    }

    fn message(&self, new: &NewMessage) -> Message {
        Message {
            chat_id: new.chat_id,
            sequence: self.sequence,
            message_id: self.message_id,
            sender_id: new.sender_id.clone(),
            client_message_id: new.client_message_id.clone(),
            content: self.content.clone().unwrap_or_default(),
            content_type: self.content_type.clone(),
            created_at: self.created_at,
            deleted: self.content.is_none(),
        }
    }
}
