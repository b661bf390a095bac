//! The event bus: [`EventBus`] publishes committed events, [`EventSource`] yields them to a
//! consumer and receives a report about each.

mod in_process;

use std::error::Error;
use std::time::Duration;

use async_trait::async_trait;
use heartline_protocol::ChatId;
use tokio::time::Instant;

pub use self::in_process::{IN_PROCESS_EVENTS, InProcessBus, InProcessSource};
use crate::event::Event;

/// How long publishing may wait for room. Events that are not published by then are already stored,
/// and the relay publishes them.
pub const PUBLISH_WAIT_MAX: Duration = Duration::from_secs(1);

/// A failure of the bus.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The bus had no room for [`PUBLISH_WAIT_MAX`].
    #[error("the event bus had no room for {PUBLISH_WAIT_MAX:?}")]
    Full,
    /// The other end of the bus was dropped.
    #[error("the event bus has stopped")]
    Stopped,
    /// The engine behind the bus failed.
    #[error("the event bus failed")]
    Engine(#[source] Box<dyn Error + Send + Sync>),
}

/// The publishing end of the bus.
#[async_trait]
pub trait EventBus: Send + Sync + std::fmt::Debug {
    /// Publishes events, those of one chat in the order in which they are given, also across calls
    /// that follow each other.
    ///
    /// Waits for room, but no longer than [`PUBLISH_WAIT_MAX`]. After `Ok` a consumer receives
    /// every event at least once. After an error any of them may be on the bus or not; the caller
    /// leaves them to the relay.
    ///
    /// The implementation records messages as published, through
    /// [`Publications`](crate::Publications): a bus that keeps events when every process dies
    /// records them here, another one when its source receives the report that they were attempted.
    async fn publish(&self, events: Vec<Event>) -> Result<(), BusError>;
}

/// The consuming end of the bus.
#[async_trait]
pub trait EventSource: Send + std::fmt::Debug {
    /// Waits for events and yields up to `limit` of them, at least one; those of one chat in the
    /// order in which they were published. Dropping the future loses no event.
    ///
    /// An event that was yielded and not reported before the next call, or before the source is
    /// dropped, is yielded again, by this source or a later one.
    async fn receive(&mut self, limit: usize) -> Result<Vec<Received>, BusError>;

    /// Receives the reports about events of the last batch.
    async fn report(&mut self, reports: Vec<Report>) -> Result<(), BusError>;

    /// Records that the members of a chat, or of every chat, were sent `resync_required`. A source
    /// that holds its position before an event of the chat that must be repeated may skip it now.
    async fn resynced(&mut self, chat_id: Option<ChatId>) -> Result<(), BusError>;
}

/// The position of an event in the source that yielded it. Only that source can interpret it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventPosition {
    /// A part of the source in which events have an order.
    pub partition: u32,
    /// The position in that order.
    pub offset: u64,
}

/// An event that a source yields.
#[derive(Debug, Clone)]
pub struct Received {
    /// The event.
    pub event: Event,
    /// Its position, by which it is reported.
    pub position: EventPosition,
    /// When this process learned of the commit, by its own clock. None when another process
    /// stored the message or it was published late.
    pub committed_at: Option<Instant>,
}

/// The report about an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// The event's position.
    pub position: EventPosition,
    /// The result of its delivery.
    pub attempt: Attempt,
}

/// The result of delivering an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// The event was delivered, or skipped on purpose, and need not be repeated.
    Attempted,
    /// The chat's members or their routes could not be read. The event must be repeated.
    Again,
}
