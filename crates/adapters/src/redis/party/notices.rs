//! What this node hears of sessions.

use std::sync::Arc;

use bytes::Bytes;
use heartline_party::{NOTICES_MAX, Notice, Revision};
use tokio::sync::broadcast;
use tracing::warn;

use super::keys::PartyKeys;
use super::revision;
use crate::redis::subscription::{Channels, Event, Message, Subscription};

/// Tells listeners of this process what is published.
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

    /// Passes on what the subscription hears, for ever.
    pub(super) async fn listen(self: Arc<Self>, mut subscription: Subscription) {
        loop {
            let notice = match subscription.next().await {
                Event::Message(message) => self.notice(&message),
                Event::Lost => Some(Notice::Gap),
            };
            if let Some(notice) = notice {
                // Nobody may be listening.
                let _ = self.listeners.send(notice);
            }
        }
    }

    fn notice(&self, message: &Message) -> Option<Notice> {
        if message.channel == self.keys.wanted() {
            let session_id = String::from_utf8_lossy(&message.payload).into_owned();
            return Some(Notice::Wanted { session_id });
        }
        // What was still under way when the session was left is not heard any more.
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
