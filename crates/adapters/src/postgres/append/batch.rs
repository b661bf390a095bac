//! The messages of one append, and the parts in which they are stored.

use std::collections::{BTreeSet, HashMap};

use heartline_durability::{AppendError, Appended, NewMessage, StoreError};
use heartline_protocol::{ChatId, ClientMessageId, MessageId, Timestamp, UserId};
use heartline_runtime::Random;
use ulid::Ulid;

use super::outcome::MessageOutcome;

/// The key of idempotency: two messages of a batch with the same key are the same message.
type Key<'batch> = (ChatId, &'batch UserId, &'batch ClientMessageId);

/// The messages of one append. The database is given each distinct message once, with an id under
/// which it is stored.
pub(in crate::postgres) struct Batch {
    messages: Vec<NewMessage>,
    /// For each distinct message, the index in `messages` of its first occurrence.
    firsts: Vec<usize>,
    /// For each message, the index of its distinct message.
    distinct: Vec<usize>,
    /// The ids of the distinct messages.
    message_ids: Vec<MessageId>,
}

/// Distinct messages of a batch that are stored in one transaction; all messages of a chat are in
/// the same part.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// The indexes of the distinct messages, ascending.
    pub(super) indexes: Vec<usize>,
    /// Whether an earlier attempt may have stored these messages.
    pub(super) was_uncertain: bool,
}

/// The outcomes of the distinct messages of a batch; none for a message that is still pending.
pub(super) type Outcomes = Vec<Option<Result<MessageOutcome, StoreError>>>;

impl Batch {
    /// A batch of messages. Their ids are drawn once, so that a retry stores the same ids.
    pub(in crate::postgres) fn new(
        messages: Vec<NewMessage>,
        now: Timestamp,
        random: Random,
    ) -> Self {
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

    /// All distinct messages.
    pub(super) fn whole(&self) -> Part {
        Part { indexes: (0..self.firsts.len()).collect(), was_uncertain: false }
    }

    /// A distinct message.
    pub(super) fn message(&self, index: usize) -> &NewMessage {
        &self.messages[self.firsts[index]]
    }

    /// The id of a distinct message.
    pub(super) fn message_id(&self, index: usize) -> MessageId {
        self.message_ids[index]
    }

    /// The result of every message of the batch, in order.
    pub(super) fn results(&self, outcomes: &Outcomes) -> Vec<Result<Appended, AppendError>> {
        let results = self.messages.iter().enumerate().map(|(place, message)| {
            let index = self.distinct[place];
            let outcome = outcomes[index].as_ref().expect("every part was stored or has failed");
            let outcome = outcome.as_ref().map_err(|error| AppendError::Store(error.clone()))?;
            let (first, message_id) = (self.message(index), self.message_ids[index]);
            let result = if self.firsts[index] == place {
                outcome.of_first(message, message_id)
            } else {
                outcome.of_repeat(message, first, message_id)
            };
            Ok(result?)
        });
        results.collect()
    }
}

impl Part {
    /// Whether all messages are of the same chat.
    pub(super) fn has_one_chat(&self, batch: &Batch) -> bool {
        let mut chat_ids = self.indexes.iter().map(|index| batch.message(*index).chat_id);
        let first = chat_ids.next();
        chat_ids.all(|chat_id| Some(chat_id) == first)
    }

    /// The chats of the messages.
    pub(super) fn chat_ids(&self, batch: &Batch) -> BTreeSet<ChatId> {
        self.indexes.iter().map(|index| batch.message(*index).chat_id).collect()
    }

    /// Two parts, each with half of the chats.
    pub(super) fn halves(&self, batch: &Batch) -> Vec<Self> {
        let chat_ids = self.chat_ids(batch);
        let middle = chat_ids.len() / 2;
        let first_half = chat_ids.into_iter().take(middle).collect();
        let (first, second) = self.partition(batch, &first_half);
        vec![second, first]
    }

    /// One part with the messages of these chats, and one part for each other chat.
    pub(super) fn set_others_apart(&self, batch: &Batch, chat_ids: &BTreeSet<ChatId>) -> Vec<Self> {
        let (together, mut rest) = self.partition(batch, chat_ids);
        let mut parts = Vec::new();
        while let Some(index) = rest.indexes.first() {
            let chat_id = BTreeSet::from([batch.message(*index).chat_id]);
            let (apart, others) = rest.partition(batch, &chat_id);
            parts.push(apart);
            rest = others;
        }
        if !together.indexes.is_empty() {
            parts.push(together);
        }
        parts
    }

    /// The messages of these chats, and the other messages.
    fn partition(&self, batch: &Batch, chat_ids: &BTreeSet<ChatId>) -> (Self, Self) {
        let is_inside = |index: &usize| chat_ids.contains(&batch.message(*index).chat_id);
        let (inside, outside) = self.indexes.iter().copied().partition(is_inside);
        let part = |indexes| Self { indexes, was_uncertain: self.was_uncertain };
        (part(inside), part(outside))
    }
}
