//! Stop 6 of the life of a message, in PostgreSQL: numbered once and stored.
//!
//! A batch is one call and one transaction, however many chats it is for; its chats are locked in
//! the order of their ids, so batches of any number of nodes may cross.

use std::collections::HashMap;

use heartline_durability::{AppendRefusal, Appended, NewMessage};
use heartline_protocol::server_frame::Message;
use heartline_protocol::{ChatId, ClientMessageId, MessageId, Timestamp, UserId};
use heartline_runtime::Random;
use tokio_postgres::Row;
use tracing::error;
use ulid::Ulid;

use super::chats;
use super::failure::Failure;
use super::lease::Lease;
use super::rows::{Id, content_type, content_type_bytes, get, number, timestamp, utf8};

/// The result of one message.
pub(super) type Answer = Result<Appended, AppendRefusal>;

/// Stores messages: see the function in the migrations.
const APPEND: &str = "SELECT place, outcome, sequence, created_at, members_version, published,
        message_id, content_type, content
    FROM append($1, $2, $3, $4, $5, $6)";

/// Sets the flag of chats whose counter is wrong, unless it was mended meanwhile.
const HALT: &str = "UPDATE chats c SET halted = true
    WHERE c.chat_id = ANY ($1) AND NOT c.halted AND (c.head_sequence IS NULL OR EXISTS (
        SELECT 1 FROM (
            SELECT m.sequence FROM messages m WHERE m.chat_key = c.chat_key
            ORDER BY m.sequence DESC LIMIT 1
        ) newest WHERE newest.sequence <> c.head_sequence
    ))
    RETURNING c.chat_id";

/// What makes two messages of a batch the same.
type Key<'batch> = (ChatId, &'batch UserId, &'batch ClientMessageId);

/// The messages of a batch that differ, each with an id in case it is stored, and which of them
/// each message of the batch is.
pub(super) struct Batch {
    messages: Vec<NewMessage>,
    /// The places in `messages` of the distinct ones, the first of each.
    firsts: Vec<usize>,
    /// For each place in `messages`, which of the distinct ones it is.
    distinct: Vec<usize>,
    message_ids: Vec<MessageId>,
}

impl Batch {
    /// Ids are made once, so that another attempt stores the same.
    pub(super) fn new(messages: Vec<NewMessage>, now: Timestamp, random: Random) -> Self {
        let mut seen: HashMap<Key<'_>, usize> = HashMap::with_capacity(messages.len());
        let (mut firsts, mut distinct) = (Vec::new(), Vec::with_capacity(messages.len()));
        for (place, message) in messages.iter().enumerate() {
            let key = (message.chat_id, &message.sender_id, &message.client_message_id);
            let index = *seen.entry(key).or_insert_with(|| {
                firsts.push(place);
                firsts.len() - 1
            });
            distinct.push(index);
        }
        let id = |_: &usize| MessageId(Ulid::from_parts(now.unix_ms, random.draw()));
        let message_ids = firsts.iter().map(id).collect();
        Self { messages, firsts, distinct, message_ids }
    }

    fn distinct_messages(&self) -> impl Iterator<Item = &NewMessage> {
        self.firsts.iter().map(|first| &self.messages[*first])
    }
}

/// Stores a batch and answers one result per message, in order.
pub(super) async fn append(mut lease: Lease<'_>, batch: &Batch) -> Result<Vec<Answer>, Failure> {
    let messages = || batch.distinct_messages();
    let chat_ids: Vec<Id> = messages().map(|message| message.chat_id.into()).collect();
    let sender_ids: Vec<&str> = messages().map(|message| message.sender_id.as_str()).collect();
    let client_message_ids: Vec<&str> =
        messages().map(|message| message.client_message_id.as_str()).collect();
    let message_ids: Vec<Id> = batch.message_ids.iter().copied().map(Id::from).collect();
    let content_types: Vec<_> =
        messages().map(|message| content_type_bytes(&message.content_type)).collect();
    let contents: Vec<&[u8]> = messages().map(|message| message.content.as_bytes()).collect();
    let rows = lease
        .write(
            APPEND,
            &[&chat_ids, &sender_ids, &client_message_ids, &message_ids, &content_types, &contents],
        )
        .await?;
    let fates = fates(&rows, batch)?;
    halt(lease, batch, &fates).await;
    let answers = batch.messages.iter().enumerate().map(|(place, message)| {
        let index = batch.distinct[place];
        if batch.firsts[index] == place {
            return fates[index].of_first(message, batch.message_ids[index]);
        }
        let first = &batch.messages[batch.firsts[index]];
        fates[index].of_repeat(message, first, batch.message_ids[index])
    });
    Ok(answers.collect())
}

/// What the database says of one distinct message.
enum Fate {
    /// It is stored now.
    Stored { sequence: u64, created_at: Timestamp, members_version: u64 },
    /// An earlier attempt has stored this.
    Found { found: Box<FoundMessage>, published: bool, members_version: u64 },
    /// It is not stored.
    Refused(AppendRefusal),
    /// The chat's counter is wrong, and the chat must be halted.
    WrongCounter { is_taken: bool },
}

/// What an earlier attempt has stored.
struct FoundMessage {
    sequence: u64,
    message_id: MessageId,
    created_at: Timestamp,
    content_type: String,
    content: Option<String>,
}

/// The fates of the distinct messages, in their order.
fn fates(rows: &[Row], batch: &Batch) -> Result<Vec<Fate>, Failure> {
    let mut fates: Vec<Option<Fate>> = batch.firsts.iter().map(|_| None).collect();
    for row in rows {
        // Places count from one.
        let place = usize::try_from(number(row, 0)?).ok().and_then(|place| place.checked_sub(1));
        let slot = place.and_then(|place| fates.get_mut(place));
        *slot.ok_or_else(|| Failure::rejected("an answer for no message"))? = Some(fate(row)?);
    }
    let fates: Option<Vec<Fate>> = fates.into_iter().collect();
    fates.ok_or_else(|| Failure::rejected("a message without an answer"))
}

fn fate(row: &Row) -> Result<Fate, Failure> {
    Ok(match get::<i16>(row, 1)? {
        0 => Fate::Stored {
            sequence: number(row, 2)?,
            created_at: timestamp(row, 3)?,
            members_version: number(row, 4)?,
        },
        1 => Fate::Found {
            found: Box::new(FoundMessage {
                sequence: number(row, 2)?,
                message_id: MessageId(get::<Id>(row, 6)?.0),
                created_at: timestamp(row, 3)?,
                content_type: content_type(row, 7)?,
                content: utf8(row, 8)?,
            }),
            published: get(row, 5)?,
            members_version: number(row, 4)?,
        },
        2 => Fate::Refused(AppendRefusal::NotAMember),
        3 => Fate::Refused(AppendRefusal::Halted),
        4 => Fate::WrongCounter { is_taken: false },
        5 => Fate::WrongCounter { is_taken: true },
        other => return Err(Failure::rejected(format!("there is no outcome {other}"))),
    })
}

impl Fate {
    /// What it means for the message that was given to the database.
    fn of_first(&self, new: &NewMessage, message_id: MessageId) -> Answer {
        match self {
            Self::Stored { sequence, created_at, members_version } => {
                let message = stored(*sequence, *created_at, new, message_id).message(new);
                let members_version = *members_version;
                Ok(Appended { message, duplicate: false, published: false, members_version })
            }
            Self::Found { found, published, members_version } => {
                let answer = found.answer(new, *published, *members_version);
                // Under this id nobody else has stored it: the answer to that was lost.
                let is_own = found.message_id == message_id;
                answer.map(|appended| Appended { duplicate: !is_own, ..appended })
            }
            Self::Refused(refusal) => Err(*refusal),
            Self::WrongCounter { .. } => Err(AppendRefusal::Halted),
        }
    }

    /// What it means for another one of the batch with the same key, as if that had come later.
    fn of_repeat(&self, new: &NewMessage, first: &NewMessage, message_id: MessageId) -> Answer {
        match self {
            Self::Stored { sequence, created_at, members_version } => {
                let found = stored(*sequence, *created_at, first, message_id);
                found.answer(new, false, *members_version)
            }
            Self::Found { found, published, members_version } => {
                found.answer(new, *published, *members_version)
            }
            Self::Refused(_) | Self::WrongCounter { .. } => self.of_first(new, message_id),
        }
    }
}

fn stored(
    sequence: u64,
    created_at: Timestamp,
    new: &NewMessage,
    message_id: MessageId,
) -> FoundMessage {
    let (content_type, content) = (new.content_type.clone(), Some(new.content.clone()));
    FoundMessage { sequence, message_id, created_at, content_type, content }
}

impl FoundMessage {
    /// The answer to a retry: the first result, or a conflict if it says something else.
    fn answer(&self, new: &NewMessage, published: bool, members_version: u64) -> Answer {
        if !self.may_be(new) {
            return Err(AppendRefusal::Conflict);
        }
        Ok(Appended { message: self.message(new), duplicate: true, published, members_version })
    }

    /// Whether a retry says the same. Content that was deleted cannot be compared, and conflicts
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

/// Stores the halt of chats whose counter is wrong. Until it is stored every append finds them
/// wrong again, so a failure here loses nothing.
async fn halt(mut lease: Lease<'_>, batch: &Batch, fates: &[Fate]) {
    let messages = batch.distinct_messages().zip(fates);
    let wrong: HashMap<ChatId, bool> = messages
        .filter_map(|(message, fate)| match fate {
            Fate::WrongCounter { is_taken } => Some((message.chat_id, *is_taken)),
            Fate::Stored { .. } | Fate::Found { .. } | Fate::Refused(_) => None,
        })
        .collect();
    if wrong.is_empty() {
        return;
    }
    let chat_ids: Vec<Id> = wrong.keys().copied().map(Id::from).collect();
    let halted = match halt_wrong(&mut lease, &chat_ids).await {
        Ok(halted) => halted,
        Err(failure) => {
            error!(reason = failure.reason, "chats with a wrong counter could not be halted");
            return;
        }
    };
    for row in &halted {
        let Ok(chat_id) = super::rows::chat_id(row, 0) else { continue };
        let counters = lease.counters();
        let reason = if wrong.get(&chat_id) == Some(&true) {
            counters.duplicate_sequences.inc();
            "its next number is taken"
        } else {
            counters.counter_corruptions.inc();
            "its counter is missing or ahead of its messages"
        };
        error!(%chat_id, reason, "the chat is halted: `heartline repair counter` helps");
    }
}

/// Halts those of some chats whose counter is wrong, and answers them. They are locked first: one
/// statement that waits for a lock looks at messages as they were before, and would halt a chat
/// that was repaired and used meanwhile.
pub(super) async fn halt_wrong(
    lease: &mut Lease<'_>,
    chat_ids: &[Id],
) -> Result<Vec<Row>, Failure> {
    lease.begin().await?;
    chats::lock(lease, chat_ids).await?;
    let halted = lease.write(HALT, &[&chat_ids]).await?;
    lease.commit().await?;
    Ok(halted)
}
