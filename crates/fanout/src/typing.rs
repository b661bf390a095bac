//! Typing notices: delivered to the other members of a chat, or dropped.
//!
//! Typing is not stored and does not use the event bus. A notice waits in a bounded queue of its
//! own, so that messages and typing do not wait for each other.

use std::sync::Arc;

use heartline_protocol::{ChatId, UserId};
use heartline_routing::Envelope;
use tokio::sync::mpsc;

use crate::audience_cache::AudienceCache;
use crate::audiences::Audiences;
use crate::deliver::Fanout;
use crate::metrics::Metrics;

/// Pending notices, at most. Further ones are dropped.
pub const TYPING_QUEUE_NOTICES: usize = 1024;

#[derive(Debug)]
struct Notice {
    chat_id: ChatId,
    user_id: UserId,
    is_typing: bool,
}

/// Accepts typing notices. Clones share the queue.
#[derive(Debug, Clone)]
pub struct TypingQueue {
    notices: mpsc::Sender<Notice>,
    metrics: Metrics,
}

/// The receiving end of the queue.
#[derive(Debug)]
pub struct TypingReceiver(mpsc::Receiver<Notice>);

/// Delivers the notices of a queue.
#[derive(Debug)]
pub struct TypingFanout {
    notices: mpsc::Receiver<Notice>,
    fanout: Fanout,
    cache: AudienceCache,
}

impl TypingQueue {
    /// An empty queue with its receiving end.
    pub fn new(metrics: Metrics) -> (Self, TypingReceiver) {
        let (notices, receiver) = mpsc::channel(TYPING_QUEUE_NOTICES);
        (Self { notices, metrics }, TypingReceiver(receiver))
    }

    /// Queues a typing notice. Returns whether there was room; without room the notice is dropped
    /// and counted.
    pub fn typing(&self, chat_id: ChatId, user_id: UserId, is_typing: bool) -> bool {
        let has_room = self.notices.try_send(Notice { chat_id, user_id, is_typing }).is_ok();
        if !has_room {
            self.metrics.typing_dropped.inc();
        }
        has_room
    }
}

impl TypingFanout {
    /// The task that delivers the notices of a queue.
    pub fn new(receiver: TypingReceiver, fanout: Fanout, audiences: Arc<dyn Audiences>) -> Self {
        let cache = AudienceCache::new(audiences, fanout.clock, fanout.metrics.clone());
        Self { notices: receiver.0, fanout, cache }
    }

    /// Delivers notices until every sending end is dropped.
    pub async fn run(mut self) {
        while let Some(notice) = self.notices.recv().await {
            self.deliver(notice).await;
        }
    }

    async fn deliver(&mut self, notice: Notice) {
        let Notice { chat_id, user_id, is_typing } = notice;
        let audience = self.cache.recent(chat_id).await.unwrap_or_default();
        if !audience.contains(&user_id) {
            self.fanout.metrics.typing_dropped.inc();
            return;
        }
        let others = audience.iter().filter(|member| **member != user_id).cloned().collect();
        let envelope = |user_ids| {
            let user_id = user_id.clone();
            Envelope::Typing { user_ids, chat_id, user_id, is_typing }
        };
        self.fanout.send_to_users(others, envelope).await;
    }
}
