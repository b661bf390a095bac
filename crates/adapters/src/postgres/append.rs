//! Stop 6 of the life of a message, in PostgreSQL: numbered once and stored.
//!
//! A batch is one call and one transaction, however many chats it is for; its chats are locked in
//! the order of their ids, so batches of any number of nodes may cross. Only if the transaction
//! fails because of some of its chats is the batch stored again in parts.

mod batch;
mod outcome;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use heartline_durability::{AppendError, Appended, StoreError};
use heartline_protocol::{ChatId, Outcome};
use heartline_runtime::Clock;
use tokio::time::Instant;
use tokio_postgres::Row;
use tracing::error;

pub(super) use self::batch::Batch;
use self::batch::{Outcomes, Part};
use self::outcome::MessageOutcome;
use super::chats;
use super::connection::LockTimeouts;
use super::failure::{Failure, Scope};
use super::pool::{Pool, Purpose};
use super::pooled_connection::PooledConnection;
use super::rows::{self, Id, content_type_bytes, number};

/// Stores messages: see the function in the migrations. The lateral join sets the timeout before
/// the function is called, for this transaction only.
const APPEND: &str = "SELECT a.place, a.outcome, a.sequence, a.created_at, a.members_version,
        a.published, a.message_id, a.content_type, a.content
    FROM set_config('lock_timeout', $7, true) AS timeout (setting)
    CROSS JOIN LATERAL append(
        CASE WHEN timeout.setting IS NOT NULL THEN $1::uuid[] END, $2, $3, $4, $5, $6
    ) AS a";

/// Selects the chats whose rows no other transaction has locked.
const UNLOCKED: &str =
    "SELECT chat_id FROM chats WHERE chat_id = ANY ($1) FOR NO KEY UPDATE SKIP LOCKED";

/// Halts the chats whose counter is wrong, unless it was repaired meanwhile.
const HALT: &str = "UPDATE chats c SET halted = true
    WHERE c.chat_id = ANY ($1) AND NOT c.halted AND (c.head_sequence IS NULL OR EXISTS (
        SELECT 1 FROM (
            SELECT m.sequence FROM messages m WHERE m.chat_key = c.chat_key
            ORDER BY m.sequence DESC LIMIT 1
        ) newest WHERE newest.sequence <> c.head_sequence
    ))
    RETURNING c.chat_id";

/// Parts with a single chat that one append stores at the same time. With the shards of ingest
/// they use half of the default pool.
const SINGLE_CALLS_MAX: usize = 2;

/// Zero would switch the timeout off.
const LOCK_TIMEOUT_MIN: Duration = Duration::from_millis(1);

/// Stores a batch and returns one result per message, in order.
///
/// A failure that some chats have caused is returned for the messages of those chats only: a
/// failed part is split, down to single chats. Chats that are locked are set apart first, so that
/// the others do not wait for them again.
pub(super) async fn append(
    pool: &Pool,
    clock: Clock,
    batch: &Batch,
) -> Vec<Result<Appended, AppendError>> {
    let whole = batch.whole();
    let mut outcomes: Outcomes = whole.indexes.iter().map(|_| None).collect();
    let appending = Appending::new(pool, clock, batch);
    let (mut parts, mut single) = (vec![whole], Vec::new());
    while let Some(part) = parts.pop() {
        if part.has_one_chat(batch) {
            single.push(part);
            continue;
        }
        let result = match appending.store(&part, false).await {
            Err(failure) => match appending.split(&part, failure).await {
                Ok(smaller) => {
                    parts.extend(smaller);
                    continue;
                }
                Err(failure) => Err(failure),
            },
            Ok(stored) => Ok(stored),
        };
        record(&mut outcomes, &part, result);
    }
    let mut running = FuturesUnordered::new();
    loop {
        while running.len() < SINGLE_CALLS_MAX
            && let Some(part) = single.pop()
        {
            running.push(appending.store_single(part));
        }
        let Some((part, result)) = running.next().await else { break };
        record(&mut outcomes, &part, result);
    }
    batch.results(&outcomes)
}

/// The outcomes of the messages of a part, in its order.
type PartOutcomes = Vec<Result<MessageOutcome, StoreError>>;

fn record(outcomes: &mut Outcomes, part: &Part, result: Result<PartOutcomes, Failure>) {
    let result = result
        .map_err(StoreError::from)
        .unwrap_or_else(|error| part.indexes.iter().map(|_| Err(error.clone())).collect());
    for (index, outcome) in part.indexes.iter().zip(result) {
        outcomes[*index] = Some(outcome);
    }
}

/// An append that is running.
struct Appending<'call> {
    pool: &'call Pool,
    clock: Clock,
    batch: &'call Batch,
    deadline: Instant,
    /// The longest wait for one lock, in a transaction for several chats.
    lock_timeout: Duration,
    /// No lock is waited for after this.
    lock_deadline: Instant,
}

impl<'call> Appending<'call> {
    fn new(pool: &'call Pool, clock: Clock, batch: &'call Batch) -> Self {
        let timeouts = LockTimeouts::of_appends(pool.deadlines());
        Self {
            pool,
            clock,
            batch,
            deadline: pool.deadline(Purpose::Append),
            lock_timeout: timeouts.several_chats,
            lock_deadline: clock.now() + timeouts.total,
        }
    }

    /// Stores a part in one transaction.
    async fn store(&self, part: &Part, is_single: bool) -> Result<PartOutcomes, Failure> {
        let call = |connection| {
            let left = self.lock_deadline.saturating_duration_since(self.clock.now());
            let lock_timeout = if is_single { left } else { left.min(self.lock_timeout) };
            store(connection, self.batch, part, lock_timeout.max(LOCK_TIMEOUT_MIN))
        };
        self.pool.call_until(self.deadline, Purpose::Append, part.was_uncertain, call).await
    }

    async fn store_single(&self, part: Part) -> (Part, Result<PartOutcomes, Failure>) {
        let result = self.store(&part, true).await;
        (part, result)
    }

    /// Splits a part that failed, or returns the failure if no chat has caused it.
    async fn split(&self, part: &Part, failure: Failure) -> Result<Vec<Part>, Failure> {
        let was_uncertain = failure.outcome == Outcome::Unknown;
        let part = Part { was_uncertain, ..part.clone() };
        let parts = match failure.scope {
            Scope::Store => return Err(failure),
            Scope::Rows => part.halves(self.batch),
            Scope::LockedRows => {
                let chat_ids = part.chat_ids(self.batch);
                let ids: Vec<Id> = chat_ids.iter().copied().map(Id::from).collect();
                let call = |connection| unlocked(connection, &ids);
                let (deadline, purpose) = (self.deadline, Purpose::Append);
                let call = self.pool.call_until(deadline, purpose, was_uncertain, call);
                let unlocked = call.await?;
                if unlocked == chat_ids {
                    // The lock was released meanwhile, or is on a row of another table.
                    part.halves(self.batch)
                } else {
                    part.set_others_apart(self.batch, &unlocked)
                }
            }
        };
        self.pool.counters().retries.inc();
        Ok(parts)
    }
}

async fn unlocked(
    mut connection: PooledConnection<'_>,
    chat_ids: &[Id],
) -> Result<BTreeSet<ChatId>, Failure> {
    let rows = connection.query(UNLOCKED, &[&chat_ids]).await?;
    rows.iter().map(|row| rows::chat_id(row, 0)).collect()
}

/// Stores a part in one transaction and returns the outcomes of its messages.
async fn store(
    mut connection: PooledConnection<'_>,
    batch: &Batch,
    part: &Part,
    lock_timeout: Duration,
) -> Result<PartOutcomes, Failure> {
    let messages = || part.indexes.iter().map(|index| batch.message(*index));
    let chat_ids: Vec<Id> = messages().map(|message| message.chat_id.into()).collect();
    let sender_ids: Vec<&str> = messages().map(|message| message.sender_id.as_str()).collect();
    let client_message_ids: Vec<&str> =
        messages().map(|message| message.client_message_id.as_str()).collect();
    let message_ids: Vec<Id> =
        part.indexes.iter().map(|index| batch.message_id(*index).into()).collect();
    let content_types: Vec<_> =
        messages().map(|message| content_type_bytes(&message.content_type)).collect();
    let contents: Vec<&[u8]> = messages().map(|message| message.content.as_bytes()).collect();
    let lock_timeout = format!("{}ms", lock_timeout.as_millis());
    let rows = connection
        .write(
            APPEND,
            &[
                &chat_ids,
                &sender_ids,
                &client_message_ids,
                &message_ids,
                &content_types,
                &contents,
                &lock_timeout,
            ],
        )
        .await?;
    let outcomes = outcomes(&rows, part);
    halt(connection, batch, part, &outcomes).await;
    Ok(outcomes)
}

/// The outcomes of the messages of a part. The transaction is committed, so a row that cannot be
/// read leaves the outcome of its own message unknown.
fn outcomes(rows: &[Row], part: &Part) -> PartOutcomes {
    let mut outcomes: Outcomes = part.indexes.iter().map(|_| None).collect();
    for row in rows {
        // Places count from one.
        let place =
            number(row, 0).ok().and_then(|place| usize::try_from(place).ok()?.checked_sub(1));
        let Some(slot) = place.and_then(|place| outcomes.get_mut(place)) else { continue };
        *slot = Some(MessageOutcome::from_row(row).map_err(|failure| failure.after(true).into()));
    }
    let missing = || Err(StoreError::unknown("append returned no row for a message"));
    outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(missing)).collect()
}

/// Halts the chats whose counter is wrong. Until they are halted every append finds the wrong
/// counter again, so a failure here loses nothing.
async fn halt(
    mut connection: PooledConnection<'_>,
    batch: &Batch,
    part: &Part,
    outcomes: &PartOutcomes,
) {
    let wrong: HashMap<ChatId, bool> = part
        .indexes
        .iter()
        .zip(outcomes)
        .filter_map(|(index, outcome)| match outcome {
            Ok(MessageOutcome::WrongCounter { is_taken }) => {
                Some((batch.message(*index).chat_id, *is_taken))
            }
            Ok(_) | Err(_) => None,
        })
        .collect();
    if wrong.is_empty() {
        return;
    }
    let chat_ids: Vec<Id> = wrong.keys().copied().map(Id::from).collect();
    let halted = match halt_wrong(&mut connection, &chat_ids).await {
        Ok(halted) => halted,
        Err(failure) => {
            error!(reason = failure.reason, "chats with a wrong counter could not be halted");
            return;
        }
    };
    for row in &halted {
        let Ok(chat_id) = rows::chat_id(row, 0) else { continue };
        let counters = connection.counters();
        let reason = if wrong.get(&chat_id) == Some(&true) {
            counters.duplicate_sequences.inc();
            "its next number is taken"
        } else {
            counters.counter_corruptions.inc();
            "its counter is missing or ahead of its messages"
        };
        error!(%chat_id, reason, "chat halted: run `heartline repair counter`");
    }
}

/// Halts those of some chats whose counter is wrong, and returns them. The chats are locked first:
/// a single statement that waits for a lock sees the messages as they were before the wait, and
/// would halt a chat that was repaired and used meanwhile.
pub(super) async fn halt_wrong(
    connection: &mut PooledConnection<'_>,
    chat_ids: &[Id],
) -> Result<Vec<Row>, Failure> {
    connection.begin().await?;
    chats::lock(connection, chat_ids).await?;
    let halted = connection.write(HALT, &[&chat_ids]).await?;
    connection.commit().await?;
    Ok(halted)
}
