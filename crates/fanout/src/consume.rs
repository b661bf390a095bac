//! From events to envelopes, one after the other.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use heartline_durability::{Audience, Event, Members, Publications, Published, Stored};
use heartline_protocol::server_frame::{Chat, ChatChange};
use heartline_protocol::{ChatId, ServerFrame, UserId, encode_server};
use heartline_routing::{Delivery, Envelope};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use crate::audience::Audiences;
use crate::deliver::{Fanout, Nowhere, Whereabouts};
use crate::dirty::Dirty;

/// Events taken together, so that the queue is not woken for each.
const BATCH_EVENTS: usize = 64;

/// How often it is tried to tell the members of dirty chats.
const HEAL_INTERVAL: Duration = Duration::from_secs(1);

/// Takes up what was stored and sends it to those who should hear.
#[derive(Debug)]
pub struct Consumer {
    fanout: Fanout,
    audiences: Audiences,
    dirty: Dirty,
    publications: Publications,
}

impl Consumer {
    /// A consumer that has taken up nothing yet.
    pub fn new(fanout: Fanout, members: Arc<dyn Members>, publications: Publications) -> Self {
        let audiences = Audiences::new(members, fanout.clock, fanout.metrics.clone());
        Self { fanout, audiences, dirty: Dirty::default(), publications }
    }

    /// Stop 9 of the life of a message: picked up. Takes events one after the other, so that those
    /// of one chat keep their order, until the bus is gone.
    pub async fn run(mut self, mut events: mpsc::Receiver<Event>) {
        let mut batch = Vec::with_capacity(BATCH_EVENTS);
        let mut heals = tokio::time::interval(HEAL_INTERVAL);
        heals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = heals.tick() => self.heal().await,
                count = events.recv_many(&mut batch, BATCH_EVENTS) => {
                    if count == 0 {
                        return;
                    }
                    self.take_all(&mut batch).await;
                }
            }
        }
    }

    /// Takes events in their order, messages that follow each other together.
    async fn take_all(&mut self, batch: &mut Vec<Event>) {
        let mut messages = Vec::with_capacity(batch.len());
        for event in batch.drain(..) {
            if let Event::Message(stored) = event {
                messages.push(stored);
                continue;
            }
            self.messages(&mut messages).await;
            self.take(event).await;
        }
        self.messages(&mut messages).await;
    }

    async fn take(&mut self, event: Event) {
        match event {
            Event::Message(stored) => self.messages(&mut vec![stored]).await,
            Event::ChatChanged { change, chat, removed, members_version } => {
                self.chat_changed(change, &chat, removed, members_version).await;
            }
            Event::Typing { chat_id, user_id, is_typing } => {
                self.typing(chat_id, user_id, is_typing).await;
            }
        }
    }

    /// Delivers messages in their order. Where the members of a chat are is read once for all of
    /// its messages, and for all chats at the same time.
    async fn messages(&mut self, messages: &mut Vec<Stored>) {
        let mut audiences: Vec<(ChatId, Arc<[UserId]>)> = Vec::new();
        let mut deliveries = Vec::with_capacity(messages.len());
        for stored in messages.drain(..) {
            let Stored { message, members_version, origin, committed_at } = stored;
            let (chat_id, sequence) = (message.chat_id, message.sequence);
            self.fanout.metrics.messages.inc();
            match self.audiences.at(chat_id, members_version, committed_at).await {
                Ok(user_ids) => {
                    let place = audiences
                        .iter()
                        .position(|(id, known)| *id == chat_id && Arc::ptr_eq(known, &user_ids));
                    let place = place.unwrap_or_else(|| {
                        audiences.push((chat_id, Arc::clone(&user_ids)));
                        audiences.len() - 1
                    });
                    let frame = self.encode(&ServerFrame::Message(Arc::unwrap_or_clone(message)));
                    let committed_at = committed_at.map(|at| self.fanout.wall_of(at));
                    let delivery =
                        Delivery { chat_id, sequence, user_ids, frame, origin, committed_at };
                    deliveries.push((delivery, place));
                }
                // It does not count as announced, so that the relay announces it again, also after
                // a crash, which the dirty list does not outlive.
                Err(_) => {
                    self.fanout.metrics.skipped("members_unreadable");
                    self.mark_dirty(chat_id);
                }
            }
        }
        let asked = audiences.iter().map(|(_, user_ids)| self.fanout.whereabouts(user_ids));
        let whereabouts = futures_util::future::join_all(asked).await;
        for (delivery, place) in deliveries {
            let (chat_id, sequence) = (delivery.chat_id, delivery.sequence);
            match &whereabouts[place] {
                Ok(whereabouts) => {
                    self.fanout.deliver(delivery, whereabouts).await;
                    let (first, last) = (sequence, sequence);
                    self.publications.published(Published { chat_id, first, last });
                }
                // This node hears it now; for the others it does not count as announced either.
                Err(Nowhere) => {
                    self.fanout.deliver(delivery, &Whereabouts::default()).await;
                    self.mark_dirty(chat_id);
                }
            }
        }
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
        let told = Some(chat.clone());
        let frame = self.encode(&ServerFrame::ChatChanged { chat_id, change, chat: told });
        self.fanout.tell(user_ids, &frame).await;
        let frame = self.encode(&ServerFrame::ChatChanged { chat_id, change, chat: None });
        self.fanout.tell(removed.into(), &frame).await;
    }

    /// Passes on that somebody types, if they belong to the chat.
    async fn typing(&mut self, chat_id: ChatId, user_id: UserId, is_typing: bool) {
        let audience = self.audiences.lately(chat_id).await.unwrap_or_default();
        if !audience.contains(&user_id) {
            self.fanout.metrics.typing_dropped.inc();
            return;
        }
        let others = audience.iter().filter(|member| **member != user_id).cloned().collect();
        let envelope = |user_ids| {
            let user_id = user_id.clone();
            Envelope::Typing { user_ids, chat_id, user_id, is_typing }
        };
        self.fanout.tell_each(others, envelope).await;
    }

    fn mark_dirty(&mut self, chat_id: ChatId) {
        self.dirty.insert(chat_id);
        self.fanout.metrics.dirty_chats.set(self.dirty.len() as i64);
    }

    /// Tells the members of dirty chats to sync, as far as they can be read again. While nobody can
    /// say where they are, they wait: those here have heard it or hear it from the relay, and would
    /// be told again with each of its attempts.
    async fn heal(&mut self) {
        while let Some(chat_id) = self.dirty.next() {
            // A version that no chat has reached: the audience must be read.
            let Ok(user_ids) = self.audiences.at(chat_id, u64::MAX, None).await else { return };
            let Ok(whereabouts) = self.fanout.whereabouts(&user_ids).await else { return };
            if self.dirty.take_everything() {
                self.fanout.resync_everything().await;
            } else {
                self.fanout.resync(user_ids, whereabouts, chat_id).await;
                self.dirty.remove(chat_id);
            }
            self.fanout.metrics.dirty_chats.set(self.dirty.len() as i64);
        }
    }

    fn encode(&self, frame: &ServerFrame) -> Bytes {
        Bytes::from(encode_server(frame, self.fanout.clock.wall()))
    }
}
