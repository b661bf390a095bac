//! The event bus inside one process.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};

use async_trait::async_trait;
use heartline_protocol::ChatId;
use heartline_runtime::Clock;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, timeout};
use tracing::error;

use super::{
    Attempt, BusError, EventBus, EventPosition, EventSource, PUBLISH_WAIT_MAX, Received, Report,
};
use crate::announcements::Published;
use crate::event::Event;
use crate::publications::Publications;

/// Events in the queue of the bus, at most. A publisher waits for room.
pub const IN_PROCESS_EVENTS: usize = 1024;

/// How often an event is yielded that is never reported. A consumer that fails at one event would
/// never get past it otherwise.
const YIELDS_MAX: u32 = 3;

/// A bounded queue. A message is recorded as published when its delivery was attempted, so the relay
/// finds the messages in the store that were not reported, after a crash too. Other events that were
/// not reported are put back.
#[derive(Debug)]
pub struct InProcessBus {
    queue: mpsc::Sender<Queued>,
    events: Arc<Mutex<mpsc::Receiver<Queued>>>,
    unreported: Arc<SyncMutex<VecDeque<Queued>>>,
    publications: Publications,
    clock: Clock,
    dropped: Counter,
}

/// An event, with the time at which this process learned of its commit.
#[derive(Debug)]
struct Queued {
    event: Event,
    committed_at: Option<Instant>,
    /// How often a source has yielded it.
    yields: u32,
}

/// An event of the last batch that was not reported yet.
#[derive(Debug)]
enum Unreported {
    /// The relay repeats it.
    Message(Published),
    /// The next receive, or the next source, repeats it.
    Other(Queued),
}

/// The consuming end of the queue. Events that a dropped source has not received or not reported go
/// to the next one.
#[derive(Debug)]
pub struct InProcessSource {
    events: Arc<Mutex<mpsc::Receiver<Queued>>>,
    /// Events of earlier batches that were not reported. At most one batch of each source: they are
    /// yielded before any other.
    unreported: Arc<SyncMutex<VecDeque<Queued>>>,
    publications: Publications,
    dropped: Counter,
    /// The offset of the first event of the last batch.
    first_offset: u64,
    /// The events of the last batch; none for a reported one.
    batch: Vec<Option<Unreported>>,
}

impl InProcessBus {
    /// An empty bus, which records attempted messages as published.
    pub fn new(publications: Publications, clock: Clock) -> Self {
        let (queue, events) = mpsc::channel(IN_PROCESS_EVENTS);
        let (events, unreported) = (Arc::new(Mutex::new(events)), Arc::default());
        Self { queue, events, unreported, publications, clock, dropped: Counter::default() }
    }

    /// Registers the bus' metric under its documented name.
    pub fn register(&self, registry: &mut Registry) {
        let plane = registry.sub_registry_with_prefix("durability");
        plane.register("events_dropped", "Events whose delivery failed", self.dropped.clone());
    }

    /// The consuming end. With several, each event goes to one of them.
    pub fn source(&self) -> InProcessSource {
        InProcessSource {
            events: Arc::clone(&self.events),
            unreported: Arc::clone(&self.unreported),
            publications: self.publications.clone(),
            dropped: self.dropped.clone(),
            first_offset: 0,
            batch: Vec::new(),
        }
    }
}

impl InProcessSource {
    /// Puts back the events of the last batch that were not reported, except messages.
    fn put_back(&mut self) {
        self.first_offset += self.batch.len() as u64;
        let mut waiting = self.unreported.lock().unwrap_or_else(PoisonError::into_inner);
        for event in self.batch.drain(..).rev().flatten() {
            let Unreported::Other(queued) = event else { continue };
            if queued.yields < YIELDS_MAX {
                waiting.push_front(queued);
                continue;
            }
            let dropped = self.dropped.inc() + 1;
            let chat = queued.event.chat_id();
            error!(%chat, dropped, "event dropped: its delivery failed three times");
        }
    }
}

impl Drop for InProcessSource {
    fn drop(&mut self) {
        self.put_back();
    }
}

#[async_trait]
impl EventBus for InProcessBus {
    /// Stop 7 of the life of a message: announced.
    async fn publish(&self, events: Vec<Event>) -> Result<(), BusError> {
        tracing::trace!(target: "heartline::life", message_stop = 7, "announced");
        let now = self.clock.now();
        let sent = async {
            for event in events {
                let is_fresh =
                    matches!(&event, Event::Message(stored) if stored.committed_at.is_some());
                let committed_at = is_fresh.then_some(now);
                let queued = Queued { event, committed_at, yields: 0 };
                self.queue.send(queued).await.map_err(|_| BusError::Stopped)?;
            }
            Ok(())
        };
        timeout(PUBLISH_WAIT_MAX, sent).await.unwrap_or(Err(BusError::Full))
    }
}

#[async_trait]
impl EventSource for InProcessSource {
    async fn receive(&mut self, limit: usize) -> Result<Vec<Received>, BusError> {
        self.put_back();
        let mut yielded = Vec::with_capacity(limit);
        // One at a time, so that a consumer that fails at one of them reports the others.
        let unreported = self.unreported.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        match unreported {
            Some(queued) => yielded.push(queued),
            None => {
                if self.events.lock().await.recv_many(&mut yielded, limit).await == 0 {
                    return Err(BusError::Stopped);
                }
            }
        }
        self.batch.extend(yielded.iter().map(|queued| Some(Unreported::of(queued))));
        let received = yielded.into_iter().zip(self.first_offset..).map(|(queued, offset)| {
            let Queued { event, committed_at, .. } = queued;
            Received { event, position: EventPosition { partition: 0, offset }, committed_at }
        });
        Ok(received.collect())
    }

    async fn report(&mut self, reports: Vec<Report>) -> Result<(), BusError> {
        // An event that must be repeated is treated like one without a report.
        for report in reports.iter().filter(|report| report.attempt == Attempt::Attempted) {
            let index = report.position.offset.checked_sub(self.first_offset);
            let event = index.and_then(|index| self.batch.get_mut(index as usize)?.take());
            if let Some(Unreported::Message(published)) = event {
                self.publications.published(published);
            }
        }
        Ok(())
    }

    async fn resynced(&mut self, _: Option<ChatId>) -> Result<(), BusError> {
        // The relay repeats the event even after a sync; a repeat is harmless.
        Ok(())
    }
}

impl Unreported {
    fn of(queued: &Queued) -> Self {
        let Queued { event, committed_at, yields } = queued;
        match event {
            Event::Message(stored) => {
                let (chat_id, sequence) = (stored.message.chat_id, stored.message.sequence);
                Self::Message(Published { chat_id, first: sequence, last: sequence })
            }
            Event::ChatChanged { .. } => {
                let (event, committed_at) = (event.clone(), *committed_at);
                Self::Other(Queued { event, committed_at, yields: yields + 1 })
            }
        }
    }
}

#[cfg(test)]
mod tests;
