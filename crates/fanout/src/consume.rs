//! Consumes events in order and sends envelopes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use heartline_durability::{
    Attempt, BusError, Event, EventPosition, EventSource, Received, Report, Stored,
};
use heartline_protocol::server_frame::{Chat, ChatChange};
use heartline_protocol::{ChatId, ServerFrame, UserId, encode_server};
use heartline_routing::Delivery;
use tokio::time::{Instant, MissedTickBehavior};

use crate::audience_cache::AudienceCache;
use crate::audiences::{Audience, Audiences};
use crate::deliver::{Fanout, NodeRoutes, RoutesUnreadable};
use crate::dirty::Dirty;

/// Events of one batch.
const BATCH_EVENTS: usize = 64;

/// The interval of attempts to make the members of dirty chats sync.
const RESYNC_INTERVAL: Duration = Duration::from_secs(1);

/// Delivers the events of a source.
#[derive(Debug)]
pub struct Consumer {
    fanout: Fanout,
    audiences: AudienceCache,
    dirty: Dirty,
}

/// A message of a batch, with its position for the report to the source.
struct Message {
    stored: Stored,
    position: EventPosition,
    committed_at: Option<Instant>,
}

impl Consumer {
    /// A consumer with an empty cache.
    pub fn new(fanout: Fanout, audiences: Arc<dyn Audiences>) -> Self {
        let audiences = AudienceCache::new(audiences, fanout.clock, fanout.metrics.clone());
        Self { fanout, audiences, dirty: Dirty::default() }
    }

    /// Delivers events one after the other, so that those of one chat keep their order, and reports
    /// each. Ends when the source fails.
    ///
    /// # Errors
    /// The source failed. A consumer with a new source continues where this one stopped.
    pub async fn run(mut self, mut source: Box<dyn EventSource>) -> Result<(), BusError> {
        let mut resyncs = tokio::time::interval(RESYNC_INTERVAL);
        resyncs.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = resyncs.tick() => self.resync_dirty(&mut *source).await?,
                batch = source.receive(BATCH_EVENTS) => {
                    let reports = self.deliver(batch?).await;
                    source.report(reports).await?;
                }
            }
        }
    }

    /// Delivers events in their order, messages that follow each other together.
    async fn deliver(&mut self, batch: Vec<Received>) -> Vec<Report> {
        let mut reports = Vec::with_capacity(batch.len());
        let mut messages = Vec::with_capacity(batch.len());
        for Received { event, position, committed_at } in batch {
            match event {
                Event::Message(stored) => messages.push(Message { stored, position, committed_at }),
                Event::ChatChanged { change, chat, removed, members_version } => {
                    self.messages(&mut messages, &mut reports).await;
                    self.chat_changed(change, &chat, removed, members_version).await;
                    reports.push(Report { position, attempt: Attempt::Attempted });
                }
            }
        }
        self.messages(&mut messages, &mut reports).await;
        reports
    }

    /// Stop 9 of the life of a message: picked up. Delivers messages in their order. The routes of a
    /// chat's members are read once for all of its messages, and for all chats at the same time.
    async fn messages(&mut self, messages: &mut Vec<Message>, reports: &mut Vec<Report>) {
        let mut audiences: Vec<(ChatId, Arc<[UserId]>)> = Vec::new();
        let mut deliveries = Vec::with_capacity(messages.len());
        for Message { stored, position, committed_at } in messages.drain(..) {
            let Stored { message, members_version, origin, committed_at: wall } = stored;
            let (chat_id, sequence) = (message.chat_id, message.sequence);
            tracing::trace!(target: "heartline::life", message_stop = 9, "picked up");
            self.fanout.metrics.messages.inc();
            let Ok(user_ids) = self.audiences.at(chat_id, members_version, committed_at).await
            else {
                self.fanout.metrics.skipped("members_unreadable");
                self.retry_later(chat_id, position, reports);
                continue;
            };
            let known = audiences
                .iter()
                .position(|(id, known)| *id == chat_id && Arc::ptr_eq(known, &user_ids));
            let index = known.unwrap_or_else(|| {
                audiences.push((chat_id, Arc::clone(&user_ids)));
                audiences.len() - 1
            });
            let frame = self.encode(&ServerFrame::Message(Arc::unwrap_or_clone(message)));
            let delivery =
                Delivery { chat_id, sequence, user_ids, frame, origin, committed_at: wall };
            deliveries.push((delivery, index, position));
        }
        let reads = audiences.iter().map(|(_, user_ids)| self.fanout.routes_of(user_ids));
        let routes = futures_util::future::join_all(reads).await;
        for (delivery, index, position) in deliveries {
            let chat_id = delivery.chat_id;
            match &routes[index] {
                Ok(routes) => {
                    self.fanout.deliver(delivery, routes).await;
                    reports.push(Report { position, attempt: Attempt::Attempted });
                }
                // Connections of this node get it now, those of other nodes with the next attempt.
                Err(RoutesUnreadable) => {
                    self.fanout.deliver(delivery, &NodeRoutes::default()).await;
                    self.retry_later(chat_id, position, reports);
                }
            }
        }
    }

    /// Reports that an event must be repeated, and marks the chat as dirty, so that its members
    /// sync as soon as they can be read. The repeat also covers a crash, which loses the dirty list.
    fn retry_later(&mut self, chat_id: ChatId, position: EventPosition, reports: &mut Vec<Report>) {
        self.dirty.insert(chat_id);
        self.fanout.metrics.dirty_chats.set(self.dirty.len() as i64);
        reports.push(Report { position, attempt: Attempt::Again });
    }

    async fn chat_changed(
        &mut self,
        change: ChatChange,
        chat: &Chat,
        removed: Vec<UserId>,
        members_version: u64,
    ) {
        let chat_id = chat.chat_id;
        let user_ids: Arc<[UserId]> =
            chat.members.iter().map(|member| member.user_id.clone()).collect();
        let audience = Audience { members_version, user_ids: Arc::clone(&user_ids) };
        self.audiences.learn(chat_id, audience);
        let current = Some(chat.clone());
        let frame = self.encode(&ServerFrame::ChatChanged { chat_id, change, chat: current });
        self.fanout.send_frame(user_ids, &frame).await;
        let frame = self.encode(&ServerFrame::ChatChanged { chat_id, change, chat: None });
        self.fanout.send_frame(removed.into(), &frame).await;
    }

    /// Sends `resync_required` to the members of dirty chats, as far as they can be read again.
    /// While their routes are unreadable nothing is sent: the connections of this node have the
    /// messages, and would sync again with each repeat.
    async fn resync_dirty(&mut self, source: &mut dyn EventSource) -> Result<(), BusError> {
        while let Some(chat_id) = self.dirty.next() {
            // A version that no chat has reached, so that the audience is read.
            let Ok(user_ids) = self.audiences.at(chat_id, u64::MAX, None).await else { break };
            let Ok(routes) = self.fanout.routes_of(&user_ids).await else { break };
            if self.dirty.take_everything() {
                self.fanout.resync_everything().await;
                source.resynced(None).await?;
            } else {
                self.fanout.resync(user_ids, routes, chat_id).await;
                self.dirty.remove(chat_id);
                source.resynced(Some(chat_id)).await?;
            }
            self.fanout.metrics.dirty_chats.set(self.dirty.len() as i64);
        }
        Ok(())
    }

    fn encode(&self, frame: &ServerFrame) -> Bytes {
        Bytes::from(encode_server(frame, self.fanout.clock.wall()))
    }
}
