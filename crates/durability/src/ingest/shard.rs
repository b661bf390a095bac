//! One shard: a loop that has batches stored, one after the other.

use std::sync::Arc;

use heartline_protocol::Outcome;
use heartline_routing::Clock;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tracing::warn;

use super::Item;
use crate::bus::{Event, EventBus, Stored};
use crate::log::{AppendError, Appended, ChatLog};
use crate::message::{NewMessage, Receipt};
use crate::metrics::Metrics;
use crate::send_error::SendError;

/// Messages that are stored together.
const BATCH_MESSAGES_MAX: usize = 512;

/// A shard of ingest. It must run for its sends to be answered.
#[derive(Debug)]
pub struct Shard {
    items: mpsc::Receiver<Item>,
    log: Arc<dyn ChatLog>,
    bus: Arc<dyn EventBus>,
    clock: Clock,
    metrics: Metrics,
}

/// Who waits for a message of a batch.
struct Waiting {
    submitted_at: Instant,
    origin: Option<heartline_protocol::ConnectionId>,
    answer: oneshot::Sender<Result<Receipt, SendError>>,
    /// Given up with the answer.
    _place: super::Place,
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

    /// Stores what is sent, until nobody can send any more.
    pub async fn run(mut self) {
        let mut items = Vec::with_capacity(BATCH_MESSAGES_MAX);
        while self.items.recv_many(&mut items, BATCH_MESSAGES_MAX).await > 0 {
            let (messages, waiting) = take(items.drain(..));
            if !messages.is_empty() {
                self.store(messages, waiting).await;
            }
        }
    }

    async fn store(&self, messages: Vec<NewMessage>, waiting: Vec<Waiting>) {
        self.metrics.batch_messages.observe(messages.len() as f64);
        let results = match self.log.append(messages).await {
            Ok(results) => results,
            Err(error) => {
                warn!(reason = error.reason, outcome = ?error.outcome, "messages were not stored");
                return fail(waiting, error.outcome);
            }
        };
        let now = self.clock.now();
        let mut events = Vec::new();
        let mut outcomes = Vec::with_capacity(waiting.len());
        for (result, waiting) in results.into_iter().zip(waiting) {
            let outcome = self.stored(result, &waiting, now, &mut events);
            outcomes.push((outcome, waiting));
        }
        if !events.is_empty()
            && let Err(error) = self.bus.publish(events).await
        {
            warn!(%error, "stored messages were not announced; the relay will do it");
            return fail(outcomes.into_iter().map(|(_, waiting)| waiting), Outcome::Unknown);
        }
        for (outcome, waiting) in outcomes {
            // Whoever sent it may have given up; the message is stored all the same.
            let _ = waiting.answer.send(outcome);
        }
    }

    /// Counts what became of a message, and adds what must be announced.
    fn stored(
        &self,
        result: Result<Appended, AppendError>,
        waiting: &Waiting,
        now: Instant,
        events: &mut Vec<Event>,
    ) -> Result<Receipt, SendError> {
        let appended = match result {
            Ok(appended) => appended,
            Err(error) => {
                self.metrics.refused(error);
                return Err(SendError::Refused(error));
            }
        };
        let Appended { message, duplicate, published, members_version } = appended;
        let message = Arc::new(message);
        if duplicate {
            self.metrics.idempotency_hits.inc();
        } else {
            self.metrics.messages_persisted.inc();
            self.metrics.persist_seconds.observe((now - waiting.submitted_at).as_secs_f64());
        }
        if !published {
            events.push(Event::Message(Stored {
                message: Arc::clone(&message),
                members_version,
                origin: waiting.origin,
                committed_at: (!duplicate).then_some(now),
            }));
        }
        Ok(Receipt { message, duplicate })
    }
}

/// Parts the messages that still may be stored from those who wait for them.
fn take(items: impl Iterator<Item = Item>) -> (Vec<NewMessage>, Vec<Waiting>) {
    items
        .filter(|item| item.passage.take())
        .map(|item| {
            let Item { message, submitted_at, answer, _place, .. } = item;
            let origin = message.origin;
            (message, Waiting { submitted_at, origin, answer, _place })
        })
        .unzip()
}

fn fail(waiting: impl IntoIterator<Item = Waiting>, outcome: Outcome) {
    for waiting in waiting {
        let _ = waiting.answer.send(Err(SendError::Unavailable { outcome }));
    }
}
