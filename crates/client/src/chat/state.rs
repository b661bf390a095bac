//! The state of a chat client, without IO: events of the connection go in, frames for the server
//! and events for the application come out. [`on_event`](super::on_event) has the changes that
//! follow from an event.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use heartline_protocol::client_frame::{Ack, Typing};
use heartline_protocol::limits::ClientLimits;
use heartline_protocol::{ChatId, ClientFrame, ConnectionId, UserId};
use tokio::time::Instant;

use crate::back_off::{BackOff, BackOffConfig};
use crate::chat::acks::Acks;
use crate::chat::catch_up::CatchUp;
use crate::chat::config::{Backlog, ChatConfig};
use crate::chat::cursor::Cursors;
use crate::chat::draft::{Draft, SendError};
use crate::chat::event::ChatEvent;
use crate::chat::manifest::Manifest;
use crate::chat::outbox::Outbox;
use crate::chat::presence_subscriptions::{PresenceSubscriptions, SubscribeError};
use crate::chat::rate_limit::RateLimit;
use crate::chat::sync::Sync;
use crate::presence_view::PresenceView;

/// Typing frames that may be queued; further ones are dropped.
const TYPING_MAX: usize = 64;
/// The length of the event queue up to which outgoing frames are reported.
const OUTGOING_MAX: usize = 256;

/// The state of a chat client.
#[derive(Debug)]
pub(crate) struct ChatState {
    /// The connection, while it is established.
    pub(super) established: Option<Established>,
    /// Whether the connection accepts frames; false after `connection_closing`.
    pub(super) is_open: bool,
    pub(super) outbox: Outbox,
    pub(super) cursors: Cursors,
    /// Chats with known messages whose start is not known.
    pub(super) unknown_chats: BTreeSet<ChatId>,
    pub(super) manifest: Manifest,
    pub(super) sync: Sync,
    pub(super) acks: Acks,
    pub(super) catch_up: CatchUp,
    pub(super) presence_subscriptions: PresenceSubscriptions,
    pub(super) presence: PresenceView,
    /// The typing frames that are not sent yet.
    pub(super) typing: BTreeMap<ChatId, bool>,
    /// The rate limit of all frames except messages.
    pub(super) rate_limit: RateLimit,
    /// The first messages to deliver of a chat without a cursor.
    pub(super) backlog: Backlog,
    /// Whether outgoing frames are reported.
    reports_outgoing: bool,
    /// The events that the application has not received yet.
    pub(super) events: VecDeque<ChatEvent>,
}

/// The established connection.
#[derive(Debug)]
pub(super) struct Established {
    pub(super) connection_id: ConnectionId,
    pub(super) user_id: UserId,
}

impl ChatState {
    /// The state before the first connection.
    pub(crate) fn new(config: ChatConfig, back_off: BackOffConfig, jitter_seed: u64) -> Self {
        let back_off = |offset| BackOff::new(back_off, jitter_seed.wrapping_add(offset));
        Self {
            established: None,
            is_open: false,
            outbox: Outbox::new(&config, back_off(1)),
            manifest: Manifest::new(back_off(2)),
            sync: Sync::new(back_off(3)),
            presence_subscriptions: PresenceSubscriptions::new(back_off(4)),
            presence: PresenceView::default(),
            cursors: Cursors::new(config.cursors, config.backlog),
            unknown_chats: BTreeSet::new(),
            backlog: config.backlog,
            reports_outgoing: config.reports_outgoing,
            acks: Acks::default(),
            catch_up: CatchUp::default(),
            typing: BTreeMap::new(),
            rate_limit: frame_rate_limit(&ClientLimits::default()),
            events: VecDeque::new(),
        }
    }

    // === calls of the application ===

    /// Queues a message for sending.
    pub(crate) fn send(&mut self, draft: Draft) -> Result<(), SendError> {
        self.outbox.push(draft)
    }

    /// The user started or stopped typing; ignored without a connection.
    pub(crate) fn typing(&mut self, chat_id: ChatId, is_typing: bool) {
        let has_room = self.typing.len() < TYPING_MAX || self.typing.contains_key(&chat_id);
        if self.is_open && has_room {
            self.typing.insert(chat_id, is_typing);
        }
    }

    /// Subscribes to the presence of users.
    pub(crate) fn presence_subscribe(&mut self, user_ids: &[UserId]) -> Result<(), SubscribeError> {
        self.presence_subscriptions.subscribe(user_ids)?;
        user_ids.iter().for_each(|user_id| self.presence.subscribe(user_id));
        Ok(())
    }

    /// Unsubscribes from the presence of users.
    pub(crate) fn presence_unsubscribe(&mut self, user_ids: &[UserId]) {
        self.presence_subscriptions.unsubscribe(user_ids);
        user_ids.iter().for_each(|user_id| self.presence.remove(user_id));
    }

    /// Whether there is an event for the application.
    pub(crate) fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    /// The next event, which counts as delivered from now on.
    pub(crate) fn next_event(&mut self, now: Instant) -> Option<ChatEvent> {
        let event = self.events.pop_front()?;
        if let ChatEvent::Message { message, .. } = &event {
            self.acks.delivered(message.chat_id, message.sequence, now);
        }
        Some(event)
    }

    /// Reports a frame that is sent. While the event queue is long, frames are not reported, so
    /// that they do not accumulate.
    pub(crate) fn report_outgoing(&mut self, text: &str) {
        if self.reports_outgoing && self.events.len() < OUTGOING_MAX {
            self.events.push_back(ChatEvent::Outgoing { text: text.to_owned() });
        }
    }

    /// All messages that are neither stored nor rejected, in the order of sending.
    pub(crate) fn into_drafts(self) -> Vec<Draft> {
        self.outbox.into_drafts()
    }

    // === frames for the server ===

    /// The connection for which [`ChatState::next_frame`] returns frames.
    pub(crate) fn connection_id(&self) -> Option<ConnectionId> {
        self.established.as_ref().map(|established| established.connection_id)
    }

    /// When the next frame is due.
    pub(crate) fn next_frame_at(&self, now: Instant) -> Option<Instant> {
        if !self.is_open {
            return None;
        }
        let typing = (!self.typing.is_empty()).then_some(now);
        let [manifest, sync] = [self.manifest.due_at(), self.sync.due_at()];
        let [presence_subscriptions, acks] =
            [self.presence_subscriptions.due_at(now), self.acks.due_at()];
        let others = [typing, manifest, sync, presence_subscriptions, acks];
        let others_at = others.into_iter().flatten().min();
        let others_at = others_at.map(|at| at.max(self.rate_limit.ready_at(now)));
        [others_at, self.outbox.due_at(now)].into_iter().flatten().min()
    }

    /// The frame to send now.
    pub(crate) fn next_frame(&mut self, now: Instant) -> Option<ClientFrame> {
        if !self.is_open {
            return None;
        }
        if let Some(frame) = self.outbox.next(now, &self.cursors) {
            return Some(ClientFrame::SendMessage(frame));
        }
        if self.rate_limit.ready_at(now) > now {
            return None;
        }
        let frame = self.next_other_frame(now)?;
        self.rate_limit.spend(now);
        Some(frame)
    }

    fn next_other_frame(&mut self, now: Instant) -> Option<ClientFrame> {
        if let Some((chat_id, is_typing)) = self.typing.pop_first() {
            return Some(ClientFrame::Typing(Typing { chat_id, is_typing }));
        }
        if let Some(frame) = self.manifest.next(now) {
            return Some(ClientFrame::SyncManifest(frame));
        }
        if let Some(frame) = self.sync.next(now, &self.cursors, &self.outbox) {
            return Some(ClientFrame::SyncRequest(frame));
        }
        if let Some(frame) = self.presence_subscriptions.next(now) {
            return Some(frame);
        }
        self.acks.next(now).map(ClientFrame::Ack)
    }

    /// All outstanding acks, to send before the connection is closed.
    pub(crate) fn remaining_acks(&mut self) -> Vec<Ack> {
        if self.is_open { self.acks.take_all() } else { Vec::new() }
    }
}

/// The rate limit of all frames except messages, from the server's limits.
pub(super) fn frame_rate_limit(limits: &ClientLimits) -> RateLimit {
    RateLimit::new(limits.frame_rate, limits.frame_burst)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod model;
