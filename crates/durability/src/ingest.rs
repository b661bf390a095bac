//! From sends to receipts: gather what waits, store it at once, announce it, answer.
//!
//! Sends are sharded by chat; a shard takes what is waiting and has it stored as one batch, so a
//! busy node pays one sync of the disk for many messages. Whoever sends waits at most until its
//! deadline, and always learns whether the message may have been stored.

mod places;
mod shard;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use heartline_protocol::{ChatId, Outcome};
use heartline_routing::Clock;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use self::places::{Place, Places};
pub use self::shard::Shard;
use crate::breaker::{Breaker, Pass};
use crate::bus::EventBus;
use crate::log::ChatLog;
use crate::message::{NewMessage, Receipt};
use crate::metrics::Metrics;
use crate::send_error::SendError;

/// How many sends may be under way.
#[derive(Debug, Clone, Copy)]
pub struct IngestLimits {
    /// In one chat.
    pub per_chat: usize,
    /// On this node.
    pub per_node: usize,
}

/// What ingest is made of.
#[derive(Debug)]
pub struct IngestParts {
    /// How many sends may be under way.
    pub limits: IngestLimits,
    /// How many shards work side by side.
    pub shards: usize,
    /// Where messages are stored.
    pub log: Arc<dyn ChatLog>,
    /// Where they are announced.
    pub bus: Arc<dyn EventBus>,
    /// Guards the store.
    pub breaker: Arc<Breaker>,
    /// The clocks.
    pub clock: Clock,
    /// What is counted.
    pub metrics: Metrics,
}

/// Takes sends. Clones share it.
#[derive(Debug, Clone)]
pub struct Ingest {
    shards: Arc<[mpsc::Sender<Item>]>,
    places: Arc<Places>,
    breaker: Arc<Breaker>,
    clock: Clock,
    metrics: Arc<Metrics>,
}

/// A message on its way through a shard.
#[derive(Debug)]
struct Item {
    message: NewMessage,
    passage: Arc<Passage>,
    submitted_at: Instant,
    answer: oneshot::Sender<Result<Receipt, SendError>>,
    _place: Place,
}

/// A message that was taken in: its answer comes.
#[derive(Debug)]
pub struct Submission {
    answer: oneshot::Receiver<Result<Receipt, SendError>>,
    passage: Arc<Passage>,
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
                // Never full before the node's own bound is reached.
                let (sender, items) = mpsc::channel(limits.per_node);
                let (log, bus) = (Arc::clone(&log), Arc::clone(&bus));
                (sender, Shard::new(items, log, bus, clock, metrics.clone()))
            })
            .unzip::<_, _, Vec<_>, Vec<_>>();
        let (places, metrics) = (Arc::new(Places::new(limits)), Arc::new(metrics));
        (Self { shards: senders.into(), places, breaker, clock, metrics }, shards)
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
        let place = self.places.take(message.chat_id).ok_or(SendError::Busy)?;
        let pass =
            self.breaker.admit().map_err(|retry_after| SendError::BreakerOpen { retry_after })?;
        let shard = &self.shards[shard_of(message.chat_id, self.shards.len())];
        let (sender, answer) = oneshot::channel();
        let passage = Arc::new(Passage::default());
        let item = Item {
            message,
            passage: Arc::clone(&passage),
            submitted_at: self.clock.now(),
            answer: sender,
            _place: place,
        };
        shard.try_send(item).map_err(|_| SendError::Busy)?;
        let metrics = Arc::clone(&self.metrics);
        Ok(Submission { answer, passage, deadline, pass, metrics })
    }

    /// Sends that are under way on this node.
    #[cfg(test)]
    fn under_way(&self) -> usize {
        self.places.total()
    }
}

fn shard_of(chat_id: ChatId, shards: usize) -> usize {
    // The random part of the id spreads chats evenly.
    (chat_id.0.0 as u64 % shards as u64) as usize
}

// === impl Submission ===

impl Submission {
    /// The answer, at the deadline at the latest.
    pub async fn outcome(self) -> Result<Receipt, SendError> {
        let Self { answer, passage, deadline, pass, metrics } = self;
        let outcome = match tokio::time::timeout_at(deadline, answer).await {
            Ok(Ok(outcome)) => outcome,
            // The shard is gone with the message: only a stopping node does that.
            Ok(Err(_)) => Err(SendError::Unavailable { outcome: Outcome::Unknown }),
            Err(_) => Err(SendError::Unavailable { outcome: passage.give_up() }),
        };
        match outcome {
            Err(SendError::Unavailable { .. }) => pass.failed(),
            // A bus that fails says nothing about the store, which has stored the message.
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

/// Who was first: the shard that takes the message to the store, or the sender who gives up.
#[derive(Debug, Default)]
struct Passage(AtomicU8);

const WAITING: u8 = 0;
const TAKEN: u8 = 1;
const GIVEN_UP: u8 = 2;

impl Passage {
    /// For the shard: whether the message may go to the store.
    fn take(&self) -> bool {
        self.0.compare_exchange(WAITING, TAKEN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// For the sender: whether the message can still be stored.
    fn give_up(&self) -> Outcome {
        match self.0.compare_exchange(WAITING, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Outcome::Rejected,
            Err(_) => Outcome::Unknown,
        }
    }
}
