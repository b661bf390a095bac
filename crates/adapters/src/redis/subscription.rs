//! A subscription that never ends, and says where it may have lost something.

mod channels;
mod keeper;

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::keeper::Keeper;
use super::client::RedisClient;
use super::mailbox::Mailbox;

pub(super) use self::channels::Channels;

/// A published message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Where it was published.
    pub channel: String,
    /// What was said.
    pub payload: Bytes,
}

/// What a subscription yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A message.
    Message(Message),
    /// Messages may be missing before this point: the connection was made again, or the reader
    /// was too slow. Whatever is published from now on is heard, so that a reader who now reads
    /// the state that the messages speak of is up to date.
    Lost,
}

/// A subscription to some channels. It reconnects for ever, and ends when it is dropped.
#[derive(Debug)]
pub struct Subscription {
    mailbox: Arc<Mailbox>,
    channels: Arc<Channels>,
    is_established: watch::Receiver<bool>,
    /// Owns the task, which is aborted with it.
    _keeper: JoinSet<()>,
}

impl Subscription {
    pub(super) fn start(client: &RedisClient, channels: Vec<String>) -> Self {
        let mailbox = Arc::new(Mailbox::new(client.counters().clone()));
        let channels = Arc::new(Channels::new(channels));
        let (established, is_established) = watch::channel(false);
        let keeper = Keeper {
            client: client.clone(),
            channels: Arc::clone(&channels),
            mailbox: Arc::clone(&mailbox),
            established,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(keeper.run());
        Self { mailbox, channels, is_established, _keeper: tasks }
    }

    /// Waits until every channel is subscribed for the first time. Before that nothing is heard.
    pub async fn established(&self) {
        let mut is_established = self.is_established.clone();
        // The sender lives in the task, which ends only with this subscription.
        let _ = is_established.wait_for(|is_established| *is_established).await;
    }

    /// The next message, or that some may be missing.
    pub async fn next(&mut self) -> Event {
        self.mailbox.next().await
    }

    /// Its channels, which may come and go.
    pub(super) fn channels(&self) -> Arc<Channels> {
        Arc::clone(&self.channels)
    }
}
