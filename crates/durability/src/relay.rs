//! Announces what was stored and stayed behind: after a crash, or when the bus was away.

use std::sync::Arc;
use std::time::Duration;

use heartline_protocol::limits::{SYNC_PAGE_BYTES_MAX, SYNC_PAGE_MESSAGES};
use tracing::{info, warn};

use crate::bus::{Event, EventBus, Stored};
use crate::log::{ChatLog, LogRead, Position, Published, Unpublished};
use crate::metrics::Metrics;
use crate::publications::Publications;

/// How long a message may stay unannounced before the relay takes it up.
pub const RELAY_AFTER: Duration = Duration::from_secs(2);

/// How often the relay looks.
const RELAY_INTERVAL: Duration = Duration::from_secs(1);

/// Chats that one look takes up, and pages of each: more than a busy chat gains until the next.
const CHATS_PER_LOOK: usize = 100;
const PAGES_PER_LOOK: usize = 20;

/// The relay.
#[derive(Debug)]
pub struct Relay {
    /// Where messages are stored.
    pub log: Arc<dyn ChatLog>,
    /// Where they are announced.
    pub bus: Arc<dyn EventBus>,
    /// What was announced.
    pub publications: Publications,
    /// What is counted.
    pub metrics: Metrics,
}

impl Relay {
    /// Looks for ever.
    pub async fn run(self) {
        let mut ticks = tokio::time::interval(RELAY_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match self.log.unpublished(RELAY_AFTER, CHATS_PER_LOOK).await {
                Ok(chats) => {
                    for chat in chats {
                        self.announce_chat(chat).await;
                    }
                }
                Err(error) => warn!(%error, "the relay could not look for what stayed behind"),
            }
        }
    }

    async fn announce_chat(&self, mut chat: Unpublished) {
        for _ in 0..PAGES_PER_LOOK {
            match self.announce(chat).await {
                Some(last) if last < chat.head_sequence => chat.published_sequence = last,
                Some(_) | None => return,
            }
        }
    }

    /// Announces one page of a chat; answers how far it came.
    async fn announce(&self, chat: Unpublished) -> Option<u64> {
        let Unpublished { chat_id, published_sequence, head_sequence, members_version } = chat;
        let read = LogRead {
            chat_id,
            reader: None,
            position: Position::After(published_sequence),
            limit: SYNC_PAGE_MESSAGES as usize,
            content_bytes_max: SYNC_PAGE_BYTES_MAX,
        };
        let page = match self.log.read(read).await {
            Ok(page) => page.unwrap_or_default(),
            Err(error) => {
                warn!(%error, %chat_id, "the relay could not read a chat");
                return None;
            }
        };
        // What a retention has removed needs no announcing.
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
                info!(%chat_id, count, after = published_sequence, "announced what stayed behind");
                self.metrics.relayed.inc_by(count as u64);
                if self.bus.records_on_publish() {
                    self.publications.published(Published { chat_id, first, last });
                }
                Some(last)
            }
            Err(error) => {
                warn!(%error, %chat_id, "the relay could not announce");
                None
            }
        }
    }
}
