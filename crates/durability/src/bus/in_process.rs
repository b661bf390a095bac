//! The event bus inside one process.

use std::sync::Arc;

use async_trait::async_trait;
use heartline_protocol::ChatId;
use heartline_runtime::Clock;
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, timeout};

use super::{
    Attempt, BusError, EventBus, EventPosition, EventSource, PUBLISH_WAIT_MAX, Received, Report,
};
use crate::announcements::Published;
use crate::event::Event;
use crate::publications::Publications;

/// Events in the queue of the bus, at most. A publisher waits for room.
pub const IN_PROCESS_EVENTS: usize = 1024;

/// A bounded queue. A message is recorded as published when its delivery was attempted, so after a
/// crash the relay finds the undelivered messages in the store.
#[derive(Debug)]
pub struct InProcessBus {
    queue: mpsc::Sender<Queued>,
    events: Arc<Mutex<mpsc::Receiver<Queued>>>,
    publications: Publications,
    clock: Clock,
}

/// An event, with the time at which this process learned of its commit.
#[derive(Debug)]
struct Queued {
    event: Event,
    committed_at: Option<Instant>,
}

/// The consuming end of the queue. Events that a dropped source has not received go to the next
/// one.
#[derive(Debug)]
pub struct InProcessSource {
    events: Arc<Mutex<mpsc::Receiver<Queued>>>,
    publications: Publications,
    /// The offset of the first event of the last batch.
    first_offset: u64,
    /// The messages of the last batch; none for an event of another type.
    batch: Vec<Option<Published>>,
}

impl InProcessBus {
    /// An empty bus, which records attempted messages as published.
    pub fn new(publications: Publications, clock: Clock) -> Self {
        let (queue, events) = mpsc::channel(IN_PROCESS_EVENTS);
        Self { queue, events: Arc::new(Mutex::new(events)), publications, clock }
    }

    /// The consuming end. With several, each event goes to one of them.
    pub fn source(&self) -> InProcessSource {
        let (events, publications) = (Arc::clone(&self.events), self.publications.clone());
        InProcessSource { events, publications, first_offset: 0, batch: Vec::new() }
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
                let queued = Queued { event, committed_at: is_fresh.then_some(now) };
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
        let mut queued = Vec::with_capacity(limit);
        if self.events.lock().await.recv_many(&mut queued, limit).await == 0 {
            return Err(BusError::Stopped);
        }
        self.first_offset += self.batch.len() as u64;
        self.batch.clear();
        self.batch.extend(queued.iter().map(|queued| published(&queued.event)));
        let received = queued.into_iter().zip(self.first_offset..).map(|(queued, offset)| {
            let Queued { event, committed_at } = queued;
            Received { event, position: EventPosition { partition: 0, offset }, committed_at }
        });
        Ok(received.collect())
    }

    async fn report(&mut self, reports: Vec<Report>) -> Result<(), BusError> {
        for Report { position, attempt } in reports {
            let index = position.offset.checked_sub(self.first_offset);
            let published = index.and_then(|index| self.batch.get_mut(index as usize)?.take());
            if let (Some(published), Attempt::Attempted) = (published, attempt) {
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

fn published(event: &Event) -> Option<Published> {
    let Event::Message(stored) = event else { return None };
    let (chat_id, sequence) = (stored.message.chat_id, stored.message.sequence);
    Some(Published { chat_id, first: sequence, last: sequence })
}

#[cfg(test)]
mod tests;
