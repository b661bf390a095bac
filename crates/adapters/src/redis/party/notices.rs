//! Notices of commits, from the messages that Redis publishes.

use std::sync::Arc;

use bytes::Bytes;
use heartline_party::{NOTICES_MAX, Notice, Revision};
use heartline_runtime::{Clock, Supervisor};
use tokio::sync::broadcast;
use tracing::{info, warn};

use super::keys::PartyKeys;
use super::revision;
use crate::redis::client::RedisClient;
use crate::redis::subscription::{Channels, Event, Message, Subscription};

/// Forwards published messages to the subscribers of this process.
#[derive(Debug)]
pub(super) struct Notices {
    keys: PartyKeys,
    channels: Arc<Channels>,
    listeners: broadcast::Sender<Notice>,
}

impl Notices {
    pub(super) fn new(keys: PartyKeys, channels: Arc<Channels>) -> Self {
        Self { keys, channels, listeners: broadcast::channel(NOTICES_MAX).0 }
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<Notice> {
        self.listeners.subscribe()
    }

    /// Forwards the messages of a subscription as notices, for ever. A listener that panics is
    /// restarted with a new subscription to the same channels, and begins with a gap.
    pub(super) async fn run(
        self: Arc<Self>,
        client: RedisClient,
        clock: Clock,
        first: Subscription,
    ) {
        let restarts = client.counters().listener_restarts.clone();
        let mut first = Some(first);
        let supervisor = Supervisor::new("party listener", clock, restarts);
        supervisor.run(|| self.listen(&client, first.take())).await;
    }

    async fn listen(&self, client: &RedisClient, first: Option<Subscription>) {
        let mut subscription = match first {
            Some(subscription) => subscription,
            None => {
                let mut subscription = Subscription::to(client, Arc::clone(&self.channels));
                subscription.established().await;
                // Sending fails only if nobody has subscribed.
                let _ = self.listeners.send(Notice::Gap);
                info!("party listener recovered");
                subscription
            }
        };
        loop {
            let notice = match subscription.next().await {
                Event::Message(message) => self.notice(&message),
                Event::Lost => Some(Notice::Gap),
            };
            if let Some(notice) = notice {
                // Sending fails only if nobody has subscribed.
                let _ = self.listeners.send(notice);
            }
        }
    }

    fn notice(&self, message: &Message) -> Option<Notice> {
        if message.channel == self.keys.wanted() {
            let session_id = String::from_utf8_lossy(&message.payload).into_owned();
            return Some(Notice::Wanted { session_id });
        }
        // Messages of a session that is no longer watched are dropped.
        if !self.channels.contains(&message.channel) {
            return None;
        }
        let session_id = self.keys.session_of(&message.channel)?.to_owned();
        let Some((revision, entry)) = read(&message.payload) else {
            warn!("a party message could not be read");
            return Some(Notice::Gap);
        };
        Some(Notice::Committed { session_id, revision, entry })
    }
}

/// Reads `<incarnation>/<version>:<entry>`, or the same without the entry.
fn read(payload: &Bytes) -> Option<(Revision, Option<Bytes>)> {
    match payload.iter().position(|byte| *byte == b':') {
        None => Some((revision::read(payload)?, None)),
        Some(end) => Some((revision::read(&payload[..end])?, Some(payload.slice(end + 1..)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_a_revision_with_or_without_its_entry() {
        let revision = Revision { incarnation: 2, version: 7 };
        let message = |text: &'static [u8]| read(&Bytes::from_static(text));
        assert_eq!(message(b"2/7"), Some((revision, None)));
        assert_eq!(message(b"2/7:"), Some((revision, Some(Bytes::new()))));
        let entry = Bytes::from_static(b"a:\xff\0");
        assert_eq!(message(b"2/7:a:\xff\0"), Some((revision, Some(entry))));
        assert_eq!(message(b"nonsense"), None);
    }
}
