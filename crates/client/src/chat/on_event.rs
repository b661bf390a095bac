//! What follows from the events of the connection.

use std::time::Duration;

use heartline_protocol::server_frame::{
    Chat, ChatChange, ConnectionEstablished, ManifestChat, Message, MessageAck, Presence,
};
use heartline_protocol::{ChatId, ErrorFrame, ServerFrame, UserId};
use tokio::time::Instant;

use crate::chat::catch_up::CatchUp;
use crate::chat::draft::Draft;
use crate::chat::event::ChatEvent;
use crate::chat::manifest::PageTaken;
use crate::chat::outbox;
use crate::chat::state::{ChatState, Established, other_pace};
use crate::chat::sync;
use crate::chat::watching;
use crate::event::ClientEvent;

/// How long a hole may be open before it is a gap: an ack may overtake the pushes before it, and
/// the server itself waits 100 ms for what comes in the wrong order.
const GAP_PATIENCE: Duration = Duration::from_millis(250);

impl ChatState {
    /// Something happened to the connection. The application sees it first, then what follows.
    pub(crate) fn on_event(&mut self, event: ClientEvent, now: Instant) {
        let place = self.events.len();
        match &event {
            ClientEvent::Connected(established) => self.on_connected(established, now),
            ClientEvent::Frame { frame, .. } => {
                // What comes before a connection is established is not about chats.
                if let Some(Established { user_id, .. }) = &self.established {
                    self.on_frame(frame, &user_id.clone(), now);
                }
            }
            ClientEvent::Disconnected { .. } | ClientEvent::Stopped(_) => self.on_disconnected(),
            ClientEvent::Connecting { .. } => {}
        }
        self.events.insert(place, ChatEvent::Connection(event));
    }

    fn on_connected(&mut self, established: &ConnectionEstablished, now: Instant) {
        self.on_disconnected();
        self.established = Some(Established {
            connection_id: established.connection_id,
            user_id: established.user_id.clone(),
        });
        self.is_open = true;
        self.pace = other_pace(&established.limits);
        self.outbox.connected(&established.limits);
        self.watching.connected(&established.limits);
        self.manifest.connected(now);
        self.catch_up = CatchUp::default();
    }

    fn on_disconnected(&mut self) {
        (self.established, self.is_open) = (None, false);
        self.outbox.disconnected();
        self.manifest.disconnected();
        self.sync.disconnected();
        self.watching.disconnected();
        self.presence.disconnected();
        self.typing.clear();
    }

    fn on_frame(&mut self, frame: &ServerFrame, user_id: &UserId, now: Instant) {
        match frame {
            ServerFrame::Message(message) => self.on_message(message, user_id, now),
            ServerFrame::MessageAck(ack) => self.on_message_ack(ack, user_id, now),
            ServerFrame::SyncResponse { .. } => self.on_page(frame, user_id, now),
            ServerFrame::SyncManifest { request_id, chats, next_page } => {
                let taken = self.manifest.answered(request_id, chats, next_page.as_deref());
                self.on_manifest(chats, taken, user_id, now);
            }
            ServerFrame::ChatChanged { chat_id, change, chat } => {
                self.on_chat_changed(*chat_id, *change, chat.as_ref(), user_id, now);
            }
            ServerFrame::TypingIndicator { chat_id, user_id, is_typing } => {
                let (chat_id, user_id, is_typing) = (*chat_id, user_id.clone(), *is_typing);
                self.events.push_back(ChatEvent::Typing { chat_id, user_id, is_typing });
            }
            ServerFrame::PresenceSnapshot { request_id, users } => {
                self.watching.answered(request_id);
                users.iter().for_each(|presence| self.on_presence(presence));
            }
            ServerFrame::PresenceChanged(presence) => self.on_presence(presence),
            ServerFrame::ResyncRequired { chat_ids, delay_ms, .. } => {
                let delay = Duration::from_millis(*delay_ms);
                self.manifest.resync(chat_ids.as_deref(), delay, now);
            }
            ServerFrame::TokenRefreshed { .. } => {
                self.outbox.token_refreshed();
                self.manifest.token_refreshed();
                self.sync.token_refreshed();
                self.watching.token_refreshed();
            }
            ServerFrame::Error(error) => self.on_error(error, now),
            ServerFrame::ConnectionClosing(_) => self.is_open = false,
            ServerFrame::AuthChallenge { .. }
            | ServerFrame::ConnectionEstablished(_)
            | ServerFrame::HeartbeatAck { .. }
            | ServerFrame::Event { .. }
            | ServerFrame::TokenExpired { .. }
            | ServerFrame::Unknown => {}
        }
        self.meet(now);
        if self.catch_up.announce() {
            self.events.push_back(ChatEvent::Synced);
        }
    }

    fn on_message(&mut self, message: &Message, user_id: &UserId, now: Instant) {
        let ready = self.cursors.take(message);
        self.hand_over(message.chat_id, ready, user_id);
        self.review(message.chat_id, now + GAP_PATIENCE);
    }

    /// The ack fills its own number. One for a message that this client does not know, such as a
    /// frame that the application wrote itself, only tells that the number exists.
    fn on_message_ack(&mut self, ack: &MessageAck, user_id: &UserId, now: Instant) {
        match self.outbox.acked(ack) {
            Some(draft) => {
                self.events.push_back(ChatEvent::Sent { ack: ack.clone() });
                let ready = self.cursors.take(&draft.into_message(ack, user_id.clone()));
                self.hand_over(ack.chat_id, ready, user_id);
            }
            None => self.cursors.saw(ack.chat_id, ack.sequence),
        }
        self.review(ack.chat_id, now + GAP_PATIENCE);
    }

    /// After a page the next one is wanted at once, if there is one; after a page that brought
    /// nothing, with a pause. A page that the application asked for itself is welcome too, but says
    /// nothing about what it leaves out.
    fn on_page(&mut self, frame: &ServerFrame, user_id: &UserId, now: Instant) {
        let ServerFrame::SyncResponse { request_id, chat_id, messages, has_more, head_sequence } =
            frame
        else {
            return;
        };
        let chat_id = *chat_id;
        let reached_before = self.cursors.reached(chat_id);
        let asked = self.sync.answered(request_id).filter(|asked| asked.chat_id == chat_id);
        let ready = match asked {
            Some(asked) => self.cursors.take_page(chat_id, asked.range, messages, *has_more),
            None => messages.iter().flat_map(|message| self.cursors.take(message)).collect(),
        };
        self.cursors.saw(chat_id, *head_sequence);
        self.hand_over(chat_id, ready, user_id);
        if asked.is_none() {
            self.review(chat_id, now + GAP_PATIENCE);
        } else if self.cursors.reached(chat_id) > reached_before {
            self.sync.progressed();
            self.review(chat_id, now);
        } else if self.has_gap(chat_id) {
            self.sync.want_after_pause(chat_id, now);
        }
    }

    fn on_manifest(
        &mut self,
        chats: &[ManifestChat],
        taken: PageTaken,
        user_id: &UserId,
        now: Instant,
    ) {
        for &ManifestChat { chat_id, head_sequence, last_acked_sequence } in chats {
            self.cursors.saw(chat_id, head_sequence);
            let begins_after = self.backlog.passes_over(head_sequence, last_acked_sequence);
            let ready = self.cursors.begin(chat_id, begins_after);
            self.hand_over(chat_id, ready, user_id);
            let reached = self.cursors.reached(chat_id);
            self.receipts.server_knows(chat_id, last_acked_sequence, reached, now);
            if taken != PageTaken::NotMine {
                self.catch_up.expect(chat_id, head_sequence, reached);
            }
            self.review(chat_id, now);
        }
        if taken == PageTaken::Complete {
            self.catch_up.manifest_complete();
        }
    }

    fn on_chat_changed(
        &mut self,
        chat_id: ChatId,
        change: ChatChange,
        chat: Option<&Chat>,
        user_id: &UserId,
        now: Instant,
    ) {
        match chat {
            Some(chat) => {
                self.cursors.saw(chat_id, chat.head_sequence);
                let begins_after = self.backlog.passes_over(chat.head_sequence, 0);
                let ready = self.cursors.begin(chat_id, begins_after);
                self.hand_over(chat_id, ready, user_id);
                self.review(chat_id, now + GAP_PATIENCE);
            }
            None => self.forget(chat_id),
        }
        let chat = chat.cloned();
        self.events.push_back(ChatEvent::ChatChanged { chat_id, change, chat });
    }

    fn on_error(&mut self, error: &ErrorFrame, now: Instant) {
        match self.outbox.refused(error, now) {
            outbox::Refused::Definitely(Draft { chat_id, client_message_id, .. }) => {
                let error = error.clone();
                self.events.push_back(ChatEvent::Refused { chat_id, client_message_id, error });
                return self.review(chat_id, now);
            }
            outbox::Refused::ForNow(chat_id) => return self.review(chat_id, now),
            outbox::Refused::NotMine => {}
        }
        match self.sync.refused(error, now) {
            sync::Refused::NotAMember(chat_id) => self.forget(chat_id),
            sync::Refused::ForNow | sync::Refused::Definitely => {}
            sync::Refused::NotMine => {
                let is_manifests = self.manifest.refused(error, now);
                if !is_manifests {
                    self.on_watch_error(error, now);
                }
            }
        }
    }

    fn on_watch_error(&mut self, error: &ErrorFrame, now: Instant) {
        if let watching::Refused::Definitely(user_ids) = self.watching.refused(error, now) {
            user_ids.iter().for_each(|user_id| self.presence.forget(user_id));
            self.events.push_back(ChatEvent::WatchRefused { user_ids, error: error.clone() });
        }
    }

    /// What is said of somebody who is being left alone was on its way already.
    fn on_presence(&mut self, presence: &Presence) {
        let is_ending = self.watching.is_ending(&presence.user_id);
        if !is_ending && self.presence.take(presence) {
            self.events.push_back(ChatEvent::Presence(presence.clone()));
        }
    }

    fn hand_over(&mut self, chat_id: ChatId, ready: Vec<Message>, user_id: &UserId) {
        for message in ready {
            let own = message.sender_id == *user_id;
            self.events.push_back(ChatEvent::Message { message, own });
        }
        self.catch_up.reached(chat_id, self.cursors.reached(chat_id));
    }

    fn has_gap(&self, chat_id: ChatId) -> bool {
        self.cursors.has_gap(chat_id, self.outbox.unanswered_above(chat_id))
    }

    /// Asks for a page at that time if something is missing.
    fn review(&mut self, chat_id: ChatId, at: Instant) {
        if self.has_gap(chat_id) {
            self.sync.want(chat_id, at);
        } else if self.cursors.awaits_beginning(chat_id) {
            self.unmet.insert(chat_id);
        }
    }

    /// Only the manifest knows how far the user has come in a chat that is new here: whatever comes
    /// of one that it has not named is worth another reading.
    fn meet(&mut self, now: Instant) {
        if !self.manifest.is_idle() {
            return;
        }
        let came = std::mem::take(&mut self.unmet).into_iter();
        let unmet: Vec<_> = came.filter(|id| self.cursors.awaits_beginning(*id)).collect();
        if !unmet.is_empty() {
            self.manifest.resync(Some(&unmet), Duration::ZERO, now);
        }
    }

    /// The user is no longer a member: nothing of the chat is kept. Messages that still wait to be
    /// sent are refused by the server.
    fn forget(&mut self, chat_id: ChatId) {
        self.cursors.forget(chat_id);
        self.sync.forget(chat_id);
        self.receipts.forget(chat_id);
        self.catch_up.forget(chat_id);
        self.typing.remove(&chat_id);
    }
}
