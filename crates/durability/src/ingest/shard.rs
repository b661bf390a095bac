//! One shard of ingest: a loop that stores batches, one after the other.

use std::sync::Arc;

use heartline_protocol::Timestamp;
use heartline_runtime::Clock;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tracing::warn;

use super::Item;
use crate::bus::EventBus;
use crate::event::{Event, Stored};
use crate::log::{AppendError, Appended, ChatLog};
use crate::message::{NewMessage, Receipt};
use crate::metrics::Metrics;
use crate::send_error::SendError;
use crate::store::Chain;

/// Messages of one batch, at most.
const BATCH_MESSAGES_MAX: usize = 512;

/// A shard of ingest. Its sends are answered only while it runs.
#[derive(Debug)]
pub struct Shard {
    items: mpsc::Receiver<Item>,
    log: Arc<dyn ChatLog>,
    bus: Arc<dyn EventBus>,
    clock: Clock,
    metrics: Metrics,
}

/// The sender that waits for a message of a batch.
struct Waiting {
    submitted_at: Instant,
    origin: Option<heartline_protocol::ConnectionId>,
    answer: oneshot::Sender<Result<Receipt, SendError>>,
    /// Dropped with the answer.
    _pending: super::PendingSend,
}

impl Shard {
    pub(super) fn new(
        items: mpsc::Receiver<Item>,
        log: Arc<dyn ChatLog>,
        bus: Arc<dyn EventBus>,
        clock: Clock,
        metrics: Metrics,
    ) -> Self {
        Self { items, log, bus, clock, metrics }
    }

    /// Stores messages until every sending end is dropped.
    pub async fn run(mut self) {
        let mut items = Vec::with_capacity(BATCH_MESSAGES_MAX);
        while self.items.recv_many(&mut items, BATCH_MESSAGES_MAX).await > 0 {
            let (messages, waiting) = begin(items.drain(..));
            if !messages.is_empty() {
                self.store(messages, waiting).await;
            }
        }
    }

    /// Stop 6 of the life of a message: stored. Stores a batch, announces it and answers the
    /// waiting senders.
    async fn store(&self, messages: Vec<NewMessage>, waiting: Vec<Waiting>) {
        self.metrics.batch_messages.observe(messages.len() as f64);
        let results = self.log.append(messages).await;
        tracing::trace!(target: "heartline::life", message_stop = 6, "stored");
        let committed = Committed { now: self.clock.now(), wall: self.clock.wall() };
        log_failure(&results);
        let mut events = Vec::new();
        let mut outcomes = Vec::with_capacity(waiting.len());
        for (result, waiting) in results.into_iter().zip(waiting) {
            let outcome = self.stored(result, &waiting, committed, &mut events);
            outcomes.push((outcome, waiting));
        }
        let mut is_published = true;
        if !events.is_empty()
            && let Err(error) = self.bus.publish(events).await
        {
            warn!(error = %Chain(&error), "stored messages not published; the relay will do it");
            is_published = false;
        }
        for (outcome, waiting) in outcomes {
            let outcome = outcome.and_then(|receipt| match receipt {
                (receipt, Publishing::Done) => Ok(receipt),
                (receipt, Publishing::Needed) if is_published => Ok(receipt),
                (_, Publishing::Needed) => Err(SendError::NotPublished),
            });
            // The sender may have given up; the message is stored all the same.
            let _ = waiting.answer.send(outcome);
        }
    }

    /// Counts the result of a message, and adds the event that must be published.
    fn stored(
        &self,
        result: Result<Appended, AppendError>,
        waiting: &Waiting,
        committed: Committed,
        events: &mut Vec<Event>,
    ) -> Result<(Receipt, Publishing), SendError> {
        let appended = match result {
            Ok(appended) => appended,
            Err(AppendError::Refused(refusal)) => {
                self.metrics.refused(refusal);
                return Err(SendError::Refused(refusal));
            }
            Err(AppendError::Store(error)) => {
                return Err(SendError::Unavailable { outcome: error.outcome });
            }
        };
        let Appended { message, duplicate, published, members_version } = appended;
        let message = Arc::new(message);
        if duplicate {
            self.metrics.idempotency_hits.inc();
        } else {
            self.metrics.messages_persisted.inc();
            let persist = committed.now - waiting.submitted_at;
            self.metrics.persist_seconds.observe(persist.as_secs_f64());
        }
        if published {
            return Ok((Receipt { message, duplicate }, Publishing::Done));
        }
        events.push(Event::Message(Stored {
            message: Arc::clone(&message),
            members_version,
            origin: waiting.origin,
            committed_at: (!duplicate).then_some(committed.wall),
        }));
        Ok((Receipt { message, duplicate }, Publishing::Needed))
    }
}

/// When the commit of a batch was known, by both clocks of this node.
#[derive(Clone, Copy)]
struct Committed {
    now: Instant,
    wall: Timestamp,
}

/// Whether a stored message must be published before it is acknowledged.
enum Publishing {
    Done,
    Needed,
}

/// Logs one line for a batch that the store failed, however many messages it has.
fn log_failure(results: &[Result<Appended, AppendError>]) {
    let failures = || {
        results.iter().filter_map(|result| match result {
            Err(AppendError::Store(error)) => Some(error),
            Ok(_) | Err(AppendError::Refused(_)) => None,
        })
    };
    if let Some(error) = failures().next() {
        let (messages, outcome) = (failures().count(), error.outcome);
        warn!(messages, ?outcome, error = %Chain(error), "storing messages failed");
    }
}

/// Separates the messages that may still be stored from their waiting senders.
fn begin(items: impl Iterator<Item = Item>) -> (Vec<NewMessage>, Vec<Waiting>) {
    items
        .filter(|item| item.state.begin_storing())
        .map(|item| {
            let Item { message, submitted_at, answer, _pending, .. } = item;
            let origin = message.origin;
            (message, Waiting { submitted_at, origin, answer, _pending })
        })
        .unzip()
}
