//! Everything that a chat client knows, without a socket: events of the connection go in, frames
//! for the server and events for the application come out. How events change it is told in
//! [`incoming`](super::incoming).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use heartline_protocol::client_frame::{Ack, Typing};
use heartline_protocol::limits::ClientLimits;
use heartline_protocol::{ChatId, ClientFrame, ConnectionId, UserId};
use tokio::time::Instant;

use crate::back_off::{BackOff, BackOffConfig};
use crate::chat::catch_up::CatchUp;
use crate::chat::config::{Backlog, ChatConfig};
use crate::chat::cursor::Cursors;
use crate::chat::draft::{Draft, SendError};
use crate::chat::event::ChatEvent;
use crate::chat::manifest::Manifest;
use crate::chat::outbox::Outbox;
use crate::chat::pace::Pace;
use crate::chat::receipts::Receipts;
use crate::chat::sync::Sync;
use crate::chat::watching::{WatchError, Watching};
use crate::presence::PresenceView;

/// Typing that may wait to be told; what is more is dropped, because nobody misses it.
const TYPING_MAX: usize = 64;
/// Events that may wait when one more is only about a frame that goes out.
const OUTGOING_MAX: usize = 256;

/// The state of a chat client.
#[derive(Debug)]
pub(crate) struct ChatState {
    /// The connection, from its beginning to its end.
    pub(super) established: Option<Established>,
    /// Whether that connection still takes frames: one that is about to close does not.
    pub(super) is_open: bool,
    pub(super) outbox: Outbox,
    pub(super) cursors: Cursors,
    /// Chats of which something came before it was said where they begin.
    pub(super) unmet: BTreeSet<ChatId>,
    pub(super) manifest: Manifest,
    pub(super) sync: Sync,
    pub(super) receipts: Receipts,
    pub(super) catch_up: CatchUp,
    pub(super) watching: Watching,
    pub(super) presence: PresenceView,
    /// Whether the user is typing, for chats that were not told yet.
    pub(super) typing: BTreeMap<ChatId, bool>,
    /// The pace of everything but messages.
    pub(super) pace: Pace,
    /// Where a chat begins that the application knows nothing of.
    pub(super) backlog: Backlog,
    /// Whether the application wants to know what is sent.
    tells_outgoing: bool,
    /// What the application does not know yet.
    pub(super) events: VecDeque<ChatEvent>,
}

/// Who and where the client is.
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
            watching: Watching::new(back_off(4)),
            presence: PresenceView::default(),
            cursors: Cursors::new(config.cursors, config.backlog),
            unmet: BTreeSet::new(),
            backlog: config.backlog,
            tells_outgoing: config.tells_outgoing,
            receipts: Receipts::default(),
            catch_up: CatchUp::default(),
            typing: BTreeMap::new(),
            pace: other_pace(&ClientLimits::default()),
            events: VecDeque::new(),
        }
    }

    // === what the application wants ===

    /// Takes a message for sending.
    pub(crate) fn send(&mut self, draft: Draft) -> Result<(), SendError> {
        self.outbox.push(draft)
    }

    /// The user is typing, or no longer. Without a connection there is nobody to tell.
    pub(crate) fn typing(&mut self, chat_id: ChatId, is_typing: bool) {
        let has_room = self.typing.len() < TYPING_MAX || self.typing.contains_key(&chat_id);
        if self.is_open && has_room {
            self.typing.insert(chat_id, is_typing);
        }
    }

    /// The application wants to know when these users come and go.
    pub(crate) fn watch(&mut self, user_ids: &[UserId]) -> Result<(), WatchError> {
        self.watching.subscribe(user_ids)?;
        user_ids.iter().for_each(|user_id| self.presence.watch(user_id));
        Ok(())
    }

    /// It does no longer.
    pub(crate) fn unwatch(&mut self, user_ids: &[UserId]) {
        self.watching.unsubscribe(user_ids);
        user_ids.iter().for_each(|user_id| self.presence.forget(user_id));
    }

    /// Whether the application has something to learn.
    pub(crate) fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    /// The next event; the application has it from now on.
    pub(crate) fn next_event(&mut self, now: Instant) -> Option<ChatEvent> {
        let event = self.events.pop_front()?;
        if let ChatEvent::Message { message, .. } = &event {
            self.receipts.handed_over(message.chat_id, message.sequence, now);
        }
        Some(event)
    }

    /// A frame goes out. An application that does not receive misses some of these rather than
    /// have them pile up.
    pub(crate) fn sending(&mut self, text: &str) {
        if self.tells_outgoing && self.events.len() < OUTGOING_MAX {
            self.events.push_back(ChatEvent::Outgoing { text: text.to_owned() });
        }
    }

    /// What has no definite answer, in the order in which it was given.
    pub(crate) fn into_drafts(self) -> Vec<Draft> {
        self.outbox.into_drafts()
    }

    // === what the server is told ===

    /// The connection that frames are meant for.
    pub(crate) fn connection_id(&self) -> Option<ConnectionId> {
        self.established.as_ref().map(|established| established.connection_id)
    }

    /// When there is a frame to send, if there will be one.
    pub(crate) fn next_frame_at(&self, now: Instant) -> Option<Instant> {
        if !self.is_open {
            return None;
        }
        let typing = (!self.typing.is_empty()).then_some(now);
        let [manifest, sync] = [self.manifest.due_at(), self.sync.due_at()];
        let [watching, receipts] = [self.watching.due_at(now), self.receipts.due_at()];
        let others = [typing, manifest, sync, watching, receipts];
        let others_at = others.into_iter().flatten().min();
        let others_at = others_at.map(|at| at.max(self.pace.ready_at(now)));
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
        if self.pace.ready_at(now) > now {
            return None;
        }
        let frame = self.next_other_frame(now)?;
        self.pace.spend(now);
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
        if let Some(frame) = self.watching.next(now) {
            return Some(frame);
        }
        self.receipts.next(now).map(ClientFrame::Ack)
    }

    /// The acks that are owed before an orderly end.
    pub(crate) fn last_acks(&mut self) -> Vec<Ack> {
        if self.is_open { self.receipts.take_all() } else { Vec::new() }
    }
}

/// The pace of everything but messages, within the server's limits.
pub(super) fn other_pace(limits: &ClientLimits) -> Pace {
    Pace::within(limits.frame_rate, limits.frame_burst)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod model;
