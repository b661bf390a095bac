//! A subscription to channels that reconnects for ever and reports where messages may be lost.

mod channels;
mod keeper;

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

use self::keeper::Keeper;
use super::client::RedisClient;
use super::message_queue::MessageQueue;

pub(super) use self::channels::Channels;

/// A published message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The channel.
    pub channel: String,
    /// The content.
    pub payload: Bytes,
}

/// An event of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A message.
    Message(Message),
    /// Messages may be missing before this point: the connection was replaced, or the reader was
    /// too slow. Every message that is published from now on is received, so a reader that now
    /// reads the state is up to date.
    Lost,
}

/// A subscription to some channels. The subscription has no task of its own: awaiting
/// [`next`](Self::next) or [`established`](Self::established) also connects, reconnects and checks
/// the connection, so that the task that reads it is the only one that can fail. Dropping the
/// subscription ends it.
pub struct Subscription {
    messages: Arc<MessageQueue>,
    channels: Arc<Channels>,
    is_established: watch::Receiver<bool>,
    keeper: Pin<Box<dyn Future<Output = Infallible> + Send>>,
}

impl Subscription {
    pub(super) fn new(client: &RedisClient, channels: Vec<String>) -> Self {
        Self::to(client, Arc::new(Channels::new(channels)))
    }

    /// A subscription to channels that another subscription had before it failed.
    pub(super) fn to(client: &RedisClient, channels: Arc<Channels>) -> Self {
        let messages = Arc::new(MessageQueue::new(client.counters().clone()));
        let (established, is_established) = watch::channel(false);
        let keeper = Keeper {
            client: client.clone(),
            channels: Arc::clone(&channels),
            messages: Arc::clone(&messages),
            established,
        };
        Self { messages, channels, is_established, keeper: Box::pin(keeper.run()) }
    }

    /// Waits until every channel is subscribed for the first time. Messages that are published
    /// before are not received.
    pub async fn established(&mut self) {
        tokio::select! {
            never = &mut self.keeper => match never {},
            // The sender lives in the keeper.
            _ = self.is_established.wait_for(|is_established| *is_established) => {}
        }
    }

    /// The next message, or that some may be missing.
    pub async fn next(&mut self) -> Event {
        tokio::select! {
            biased;
            never = &mut self.keeper => match never {},
            event = self.messages.next() => event,
        }
    }

    /// The channels of the subscription, which can be changed.
    pub(super) fn channels(&self) -> Arc<Channels> {
        Arc::clone(&self.channels)
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Subscription")
            .field("channels", &self.channels)
            .finish_non_exhaustive()
    }
}
