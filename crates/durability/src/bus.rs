//! The port [`EventBus`]: what was stored, on its way to those who should hear of it.

use std::sync::Arc;

use async_trait::async_trait;
use heartline_protocol::server_frame::{Chat, ChatChange, Message};
use heartline_protocol::{ChatId, ConnectionId, UserId};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Something that was committed and that its chat should hear of.
#[derive(Debug, Clone)]
pub enum Event {
    /// A message.
    Message(Stored),
    /// A chat was made or changed.
    ChatChanged {
        /// What happened.
        change: ChatChange,
        /// The chat afterwards; its members are told.
        chat: Arc<Chat>,
        /// Who belonged to it before and does not any more; they are told without the chat.
        removed: Vec<UserId>,
        /// The version of its membership.
        members_version: u64,
    },
    /// Somebody is, or is no longer, typing. It was not stored, and nothing is lost with it.
    Typing {
        /// Where.
        chat_id: ChatId,
        /// Who.
        user_id: UserId,
        /// Whether they are typing.
        is_typing: bool,
    },
}

/// A stored message on its way.
#[derive(Debug, Clone)]
pub struct Stored {
    /// As it is stored.
    pub message: Arc<Message>,
    /// The version of the chat's membership when it was stored, or later.
    pub members_version: u64,
    /// The connection it came by, which is not told again.
    pub origin: Option<ConnectionId>,
    /// When its commit was known, on this process' clock; none if it was announced late.
    pub committed_at: Option<Instant>,
}

/// An event did not get onto the bus.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the bus did not take an event: {0}")]
pub struct BusError(pub String);

/// Carries events to the fanout, those of one chat in the order in which they were published.
#[async_trait]
pub trait EventBus: Send + Sync + std::fmt::Debug {
    /// Stop 7 of the life of a message: announced. Waits for room; when it returns, every event
    /// will be taken up at least once, also by another node if this one dies.
    async fn publish(&self, events: Vec<Event>) -> Result<(), BusError>;

    /// Announces what may be lost, and never waits. Answers whether there was room.
    fn whisper(&self, event: Event) -> bool;

    /// Whether the relay must record what it published itself; else whoever delivers does.
    fn records_on_publish(&self) -> bool;
}

/// Events that may wait on the bus of a process. A publisher waits for room.
pub const IN_PROCESS_EVENTS: usize = 1024;

/// The bus inside of one process: a bounded queue. What dies with the process is found in the
/// store by the relay, because only what was delivered is recorded as published.
#[derive(Debug)]
pub struct InProcessBus {
    queue: mpsc::Sender<Event>,
}

impl InProcessBus {
    /// The bus and the queue that the fanout reads.
    pub fn new() -> (Self, mpsc::Receiver<Event>) {
        let (queue, events) = mpsc::channel(IN_PROCESS_EVENTS);
        (Self { queue }, events)
    }
}

#[async_trait]
impl EventBus for InProcessBus {
    async fn publish(&self, events: Vec<Event>) -> Result<(), BusError> {
        for event in events {
            let sent = self.queue.send(event).await;
            sent.map_err(|_| BusError("the fanout has stopped".to_owned()))?;
        }
        Ok(())
    }

    fn whisper(&self, event: Event) -> bool {
        self.queue.try_send(event).is_ok()
    }

    fn records_on_publish(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::prove_event_bus;

    #[tokio::test]
    async fn the_bus_of_a_process_keeps_the_contract() {
        let (bus, mut events) = InProcessBus::new();
        prove_event_bus(&bus, async || events.recv().await.expect("the bus is there")).await;
    }

    fn typing() -> Event {
        let (chat_id, user_id) = (ChatId(ulid::Ulid(1)), "ana".parse().unwrap());
        Event::Typing { chat_id, user_id, is_typing: true }
    }

    #[tokio::test]
    async fn a_full_bus_makes_publishers_wait_and_drops_whispers() {
        let (bus, mut events) = InProcessBus::new();
        bus.publish(vec![typing(); IN_PROCESS_EVENTS]).await.unwrap();
        assert!(!bus.whisper(typing()));
        let mut late = std::pin::pin!(bus.publish(vec![typing()]));
        assert!(futures_are_pending(&mut late).await);
        events.recv().await.unwrap();
        late.await.unwrap();
    }

    async fn futures_are_pending(future: &mut (impl Future + Unpin)) -> bool {
        std::future::poll_fn(|context| {
            let polled = std::pin::Pin::new(&mut *future).poll(context);
            std::task::Poll::Ready(polled.is_pending())
        })
        .await
    }

    #[tokio::test]
    async fn a_bus_without_its_fanout_says_so() {
        let (bus, events) = InProcessBus::new();
        drop(events);
        assert!(bus.publish(vec![typing()]).await.is_err());
        assert!(!bus.whisper(typing()));
    }
}
