//! Stores sent messages: collects pending sends, stores them as a batch, announces them, and
//! returns receipts.
//!
//! Sends are sharded by chat; a shard stores all pending sends as one batch, so a busy node pays
//! one disk sync for many messages. A sender waits at most until its deadline, and always learns
//! whether the message may have been stored.

mod pending_sends;
mod shard;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use heartline_protocol::{ChatId, Outcome};
use heartline_runtime::Clock;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use self::pending_sends::{PendingSend, PendingSends};
pub use self::shard::Shard;
use crate::breaker::{Breaker, Pass};
use crate::bus::EventBus;
use crate::log::ChatLog;
use crate::message::{NewMessage, Receipt};
use crate::metrics::Metrics;
use crate::send_error::SendError;

/// The limits of pending sends.
#[derive(Debug, Clone, Copy)]
pub struct IngestLimits {
    /// Pending sends in one chat.
    pub per_chat: usize,
    /// Pending sends on this node.
    pub per_node: usize,
}

/// The parts of ingest.
#[derive(Debug)]
pub struct IngestParts {
    /// The limits of pending sends.
    pub limits: IngestLimits,
    /// The number of shards.
    pub shards: usize,
    /// The store of messages.
    pub log: Arc<dyn ChatLog>,
    /// The bus on which stored messages are announced.
    pub bus: Arc<dyn EventBus>,
    /// The breaker of writes.
    pub breaker: Arc<Breaker>,
    /// The clocks.
    pub clock: Clock,
    /// The counters of the plane.
    pub metrics: Metrics,
}

/// Accepts sends. Clones share the shards.
#[derive(Debug, Clone)]
pub struct Ingest {
    shards: Arc<[mpsc::Sender<Item>]>,
    pending_sends: Arc<PendingSends>,
    breaker: Arc<Breaker>,
    clock: Clock,
    metrics: Arc<Metrics>,
}

/// A message in the queue of a shard.
#[derive(Debug)]
struct Item {
    message: NewMessage,
    state: Arc<SendState>,
    submitted_at: Instant,
    answer: oneshot::Sender<Result<Receipt, SendError>>,
    _pending: PendingSend,
}

/// An accepted message, whose outcome can be awaited.
#[derive(Debug)]
pub struct Submission {
    answer: oneshot::Receiver<Result<Receipt, SendError>>,
    state: Arc<SendState>,
    deadline: Instant,
    pass: Pass,
    metrics: Arc<Metrics>,
}

impl Ingest {
    /// Ingest, and the shards that must run for it. Nothing runs yet.
    pub fn new(parts: IngestParts) -> (Self, Vec<Shard>) {
        let IngestParts { limits, shards, log, bus, breaker, clock, metrics } = parts;
        let (senders, shards) = (0..shards.max(1))
            .map(|_| {
                // Never full before the node's own limit is reached.
                let (sender, items) = mpsc::channel(limits.per_node);
                let (log, bus) = (Arc::clone(&log), Arc::clone(&bus));
                (sender, Shard::new(items, log, bus, clock, metrics.clone()))
            })
            .unzip::<_, _, Vec<_>, Vec<_>>();
        let (pending_sends, metrics) = (Arc::new(PendingSends::new(limits)), Arc::new(metrics));
        (Self { shards: senders.into(), pending_sends, breaker, clock, metrics }, shards)
    }

    /// Stop 5 of the life of a message: accepted. Messages of one chat that are submitted one
    /// after the other are stored in this order.
    pub fn submit(&self, message: NewMessage, deadline: Instant) -> Result<Submission, SendError> {
        tracing::trace!(target: "heartline::life", message_stop = 5, "accepted");
        let submitted = self.try_submit(message, deadline);
        if let Err(error) = &submitted {
            self.metrics.sent(error.label());
        }
        submitted
    }

    fn try_submit(&self, message: NewMessage, deadline: Instant) -> Result<Submission, SendError> {
        let pending = self.pending_sends.add(message.chat_id).ok_or(SendError::Busy)?;
        let pass =
            self.breaker.admit().map_err(|retry_after| SendError::BreakerOpen { retry_after })?;
        let shard = &self.shards[shard_of(message.chat_id, self.shards.len())];
        let (sender, answer) = oneshot::channel();
        let state = Arc::new(SendState::default());
        let item = Item {
            message,
            state: Arc::clone(&state),
            submitted_at: self.clock.now(),
            answer: sender,
            _pending: pending,
        };
        shard.try_send(item).map_err(|_| SendError::Busy)?;
        let metrics = Arc::clone(&self.metrics);
        Ok(Submission { answer, state, deadline, pass, metrics })
    }

    /// Pending sends on this node.
    #[cfg(test)]
    fn pending(&self) -> usize {
        self.pending_sends.total()
    }
}

fn shard_of(chat_id: ChatId, shards: usize) -> usize {
    // The random part of the id spreads chats evenly.
    (chat_id.0.0 as u64 % shards as u64) as usize
}

// === impl Submission ===

impl Submission {
    /// The outcome, at the deadline at the latest.
    pub async fn outcome(self) -> Result<Receipt, SendError> {
        let Self { answer, state, deadline, pass, metrics } = self;
        let outcome = match tokio::time::timeout_at(deadline, answer).await {
            Ok(Ok(outcome)) => outcome,
            // The shard was dropped with the message, which happens only while a node stops.
            Ok(Err(_)) => Err(SendError::Unavailable { outcome: Outcome::Unknown }),
            Err(_) => Err(SendError::Unavailable { outcome: state.give_up() }),
        };
        match outcome {
            Err(SendError::Unavailable { .. }) => pass.failed(),
            // A failing bus is no failure of the store, which has stored the message.
            Ok(_) | Err(_) => pass.succeeded(),
        }
        metrics.sent(match &outcome {
            Ok(Receipt { duplicate: false, .. }) => "stored",
            Ok(Receipt { duplicate: true, .. }) => "duplicate",
            Err(error) => error.label(),
        });
        outcome
    }
}

/// Decides the race between the shard that stores the message and the sender that gives up.
#[derive(Debug, Default)]
struct SendState(AtomicU8);

const WAITING: u8 = 0;
const STORING: u8 = 1;
const GIVEN_UP: u8 = 2;

impl SendState {
    /// For the shard: whether the message may still be stored.
    fn begin_storing(&self) -> bool {
        self.0.compare_exchange(WAITING, STORING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// For the sender: whether the message may have been stored.
    fn give_up(&self) -> Outcome {
        match self.0.compare_exchange(WAITING, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Outcome::Rejected,
            Err(_) => Outcome::Unknown,
        }
    }
}
