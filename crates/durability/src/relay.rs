//! The relay: publishes stored messages that were not published in time: after a crash, after an
//! outage of the bus, or because a chat's members could not be read.

use std::sync::Arc;
use std::time::Duration;

use heartline_protocol::ChatId;
use heartline_protocol::limits::{SYNC_PAGE_BYTES_MAX, SYNC_PAGE_MESSAGES};
use heartline_runtime::Map;
use tracing::{info, warn};

use crate::announcements::{Announcements, Published, Unpublished};
use crate::bus::EventBus;
use crate::event::{Event, Stored};
use crate::log::{ChatLog, LogRead, Position};
use crate::metrics::Metrics;
use crate::publications::Publications;
use crate::store::Chain;

/// The age at which the relay publishes a message that is not recorded as published.
pub const RELAY_AFTER: Duration = Duration::from_secs(2);

/// The interval of reads of unpublished chats.
const RELAY_INTERVAL: Duration = Duration::from_secs(1);

/// Chats per read, and pages of each: more than a busy chat gains until the next read.
const CHATS_PER_READ: usize = 100;
const PAGES_PER_LOOK: usize = 20;

/// The relay.
#[derive(Debug)]
pub struct Relay {
    /// The stored messages.
    pub log: Arc<dyn ChatLog>,
    /// The record of published messages.
    pub announcements: Arc<dyn Announcements>,
    /// Publishes messages.
    pub bus: Arc<dyn EventBus>,
    /// Records messages that need no publishing.
    pub publications: Publications,
    /// The counters of the plane.
    pub metrics: Metrics,
}

impl Relay {
    /// Publishes for ever.
    pub async fn run(self) {
        let mut ticks = tokio::time::interval(RELAY_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut taken_up = Map::default();
        loop {
            ticks.tick().await;
            match self.announcements.unpublished(RELAY_AFTER, CHATS_PER_READ).await {
                Ok(chats) => taken_up = self.announce_chats(chats, &taken_up).await,
                Err(error) => {
                    warn!(error = %Chain(&error), "relay: reading unpublished chats failed")
                }
            }
        }
    }

    /// Returns the position of each chat. Of a chat that has not advanced since the last read only
    /// the next message is announced: while that one cannot be delivered the rest cannot either,
    /// and announcing all of it every second would overload the node.
    async fn announce_chats(
        &self,
        chats: Vec<Unpublished>,
        taken_up: &Map<ChatId, u64>,
    ) -> Map<ChatId, u64> {
        let place = |chat: &Unpublished| (chat.chat_id, chat.published_sequence);
        let places = chats.iter().map(place).collect();
        for chat in chats {
            if taken_up.get(&chat.chat_id) == Some(&chat.published_sequence) {
                self.announce(chat, 1).await;
            } else {
                self.announce_chat(chat).await;
            }
        }
        places
    }

    async fn announce_chat(&self, mut chat: Unpublished) {
        for _ in 0..PAGES_PER_LOOK {
            let after = chat.published_sequence;
            let Some(last) = self.announce(chat, SYNC_PAGE_MESSAGES as usize).await else { return };
            info!(chat_id = %chat.chat_id, after, last, "relay: unpublished messages announced");
            if last >= chat.head_sequence {
                return;
            }
            chat.published_sequence = last;
        }
    }

    /// Announces up to `limit` messages of a chat; returns the last announced sequence.
    async fn announce(&self, chat: Unpublished, limit: usize) -> Option<u64> {
        let Unpublished { chat_id, published_sequence, head_sequence, members_version } = chat;
        let read = LogRead {
            chat_id,
            reader: None,
            position: Position::After(published_sequence),
            limit,
            content_bytes_max: SYNC_PAGE_BYTES_MAX,
        };
        let mut page = match self.log.read(read).await {
            Ok(page) => page.unwrap_or_default(),
            Err(error) => {
                warn!(error = %Chain(&error), %chat_id, "relay: reading a chat failed");
                return None;
            }
        };
        // Messages that were stored since the chat was read may have a later version of its
        // membership, and are too young for the relay.
        page.messages.retain(|message| message.sequence <= head_sequence);
        // Messages that the retention has removed need no announcement.
        let first = page.messages.first().map_or(head_sequence + 1, |message| message.sequence);
        let last = page.messages.last().map_or(head_sequence, |message| message.sequence);
        if first > published_sequence + 1 {
            let (first, last) = (published_sequence + 1, first - 1);
            self.publications.published(Published { chat_id, first, last });
        }
        let count = page.messages.len();
        let stored = |message| Stored {
            message: Arc::new(message),
            members_version,
            origin: None,
            committed_at: None,
        };
        let events = page.messages.into_iter().map(|message| Event::Message(stored(message)));
        match self.bus.publish(events.collect()).await {
            Ok(()) => {
                self.metrics.relayed.inc_by(count as u64);
                Some(last)
            }
            Err(error) => {
                warn!(error = %Chain(&error), %chat_id, "relay: publishing failed");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;
