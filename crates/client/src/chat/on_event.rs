//! Handles the events of the connection.

use std::time::Duration;

use heartline_protocol::server_frame::{
    Chat, ChatChange, ConnectionEstablished, ManifestChat, Message, MessageAck, Presence,
};
use heartline_protocol::{ChatId, ErrorFrame, ServerFrame, UserId};
use tokio::time::Instant;

use crate::chat::catch_up::CatchUp;
use crate::chat::draft::Draft;
use crate::chat::event::ChatEvent;
use crate::chat::manifest::PageResult;
use crate::chat::outbox;
use crate::chat::presence_subscriptions;
use crate::chat::state::{ChatState, Established, frame_rate_limit};
use crate::chat::sync;
use crate::event::ClientEvent;

/// The delay before a missing sequence counts as a gap: an ack may overtake the pushes before it,
/// and the server itself waits 100 ms for events in the wrong order.
const GAP_DELAY: Duration = Duration::from_millis(250);

impl ChatState {
    /// Handles an event of the connection. The application receives the event first, then the
    /// events that follow from it.
    pub(crate) fn on_event(&mut self, event: ClientEvent, now: Instant) {
        let place = self.events.len();
        match &event {
            ClientEvent::Connected(established) => self.on_connected(established, now),
            ClientEvent::Frame { frame, .. } => {
                // Frames before `connection_established` are not about chats.
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
        self.rate_limit = frame_rate_limit(&established.limits);
        self.outbox.connected(&established.limits);
        self.presence_subscriptions.connected(&established.limits);
        self.manifest.connected(now);
        self.catch_up = CatchUp::default();
    }

    fn on_disconnected(&mut self) {
        (self.established, self.is_open) = (None, false);
        self.outbox.disconnected();
        self.manifest.disconnected();
        self.sync.disconnected();
        self.presence_subscriptions.disconnected();
        self.presence.disconnected();
        self.typing.clear();
    }

    fn on_frame(&mut self, frame: &ServerFrame, user_id: &UserId, now: Instant) {
        match frame {
            ServerFrame::Message(message) => self.on_message(message, user_id, now),
            ServerFrame::MessageAck(ack) => self.on_message_ack(ack, user_id, now),
            ServerFrame::SyncResponse { .. } => self.on_page(frame, user_id, now),
            ServerFrame::SyncManifest { request_id, chats, next_page } => {
                let result = self.manifest.answered(request_id, chats, next_page.as_deref());
                self.on_manifest(chats, result, user_id, now);
            }
            ServerFrame::ChatChanged { chat_id, change, chat } => {
                self.on_chat_changed(*chat_id, *change, chat.as_ref(), user_id, now);
            }
            ServerFrame::TypingIndicator { chat_id, user_id, is_typing } => {
                let (chat_id, user_id, is_typing) = (*chat_id, user_id.clone(), *is_typing);
                self.events.push_back(ChatEvent::Typing { chat_id, user_id, is_typing });
            }
            ServerFrame::PresenceSnapshot { request_id, users } => {
                self.presence_subscriptions.answered(request_id);
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
                self.presence_subscriptions.token_refreshed();
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
        self.request_unknown_chats(now);
        if self.catch_up.announce() {
            self.events.push_back(ChatEvent::Synced);
        }
    }

    fn on_message(&mut self, message: &Message, user_id: &UserId, now: Instant) {
        let ready = self.cursors.receive(message);
        self.deliver(message.chat_id, ready, user_id);
        self.check_gap(message.chat_id, now + GAP_DELAY);
    }

    /// An ack is the message with its own sequence. An ack of a message that this client does not
    /// know, such as a frame that the application wrote itself, only shows that the sequence
    /// exists.
    fn on_message_ack(&mut self, ack: &MessageAck, user_id: &UserId, now: Instant) {
        match self.outbox.acked(ack) {
            Some(draft) => {
                self.events.push_back(ChatEvent::Sent { ack: ack.clone() });
                let ready = self.cursors.receive(&draft.into_message(ack, user_id.clone()));
                self.deliver(ack.chat_id, ready, user_id);
            }
            None => self.cursors.note_sequence(ack.chat_id, ack.sequence),
        }
        self.check_gap(ack.chat_id, now + GAP_DELAY);
    }

    /// After a page the next one is requested at once, or after a delay if the page brought
    /// nothing. A page that the application requested itself is used too, but does not prove which
    /// messages are deleted.
    fn on_page(&mut self, frame: &ServerFrame, user_id: &UserId, now: Instant) {
        let ServerFrame::SyncResponse { request_id, chat_id, messages, has_more, head_sequence } =
            frame
        else {
            return;
        };
        let chat_id = *chat_id;
        let reached_before = self.cursors.reached(chat_id);
        let request = self.sync.answered(request_id).filter(|request| request.chat_id == chat_id);
        let ready = match request {
            Some(request) => self.cursors.receive_page(chat_id, request.range, messages, *has_more),
            None => messages.iter().flat_map(|message| self.cursors.receive(message)).collect(),
        };
        self.cursors.note_sequence(chat_id, *head_sequence);
        self.deliver(chat_id, ready, user_id);
        if request.is_none() {
            self.check_gap(chat_id, now + GAP_DELAY);
        } else if self.cursors.reached(chat_id) > reached_before {
            self.sync.progressed();
            self.check_gap(chat_id, now);
        } else if self.has_gap(chat_id) {
            self.sync.schedule_after_delay(chat_id, now);
        }
    }

    fn on_manifest(
        &mut self,
        chats: &[ManifestChat],
        result: PageResult,
        user_id: &UserId,
        now: Instant,
    ) {
        for &ManifestChat { chat_id, head_sequence, last_acked_sequence } in chats {
            self.cursors.note_sequence(chat_id, head_sequence);
            let begins_after = self.backlog.skips_up_to(head_sequence, last_acked_sequence);
            let ready = self.cursors.set_start(chat_id, begins_after);
            self.deliver(chat_id, ready, user_id);
            let reached = self.cursors.reached(chat_id);
            self.acks.reconcile(chat_id, last_acked_sequence, reached, now);
            if result != PageResult::Unrelated {
                self.catch_up.expect(chat_id, head_sequence, reached);
            }
            self.check_gap(chat_id, now);
        }
        if result == PageResult::Complete {
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
                self.cursors.note_sequence(chat_id, chat.head_sequence);
                let begins_after = self.backlog.skips_up_to(chat.head_sequence, 0);
                let ready = self.cursors.set_start(chat_id, begins_after);
                self.deliver(chat_id, ready, user_id);
                self.check_gap(chat_id, now + GAP_DELAY);
            }
            None => self.remove_chat(chat_id),
        }
        let chat = chat.cloned();
        self.events.push_back(ChatEvent::ChatChanged { chat_id, change, chat });
    }

    fn on_error(&mut self, error: &ErrorFrame, now: Instant) {
        match self.outbox.on_error(error, now) {
            outbox::ErrorEffect::Rejected(Draft { chat_id, client_message_id, .. }) => {
                let error = error.clone();
                self.events.push_back(ChatEvent::Rejected { chat_id, client_message_id, error });
                return self.check_gap(chat_id, now);
            }
            outbox::ErrorEffect::Retry(chat_id) => return self.check_gap(chat_id, now),
            outbox::ErrorEffect::Unrelated => {}
        }
        match self.sync.on_error(error, now) {
            sync::ErrorEffect::NotAMember(chat_id) => self.remove_chat(chat_id),
            sync::ErrorEffect::Retry | sync::ErrorEffect::Rejected => {}
            sync::ErrorEffect::Unrelated => {
                let is_for_manifest = self.manifest.on_error(error, now);
                if !is_for_manifest {
                    self.on_subscription_error(error, now);
                }
            }
        }
    }

    fn on_subscription_error(&mut self, error: &ErrorFrame, now: Instant) {
        if let presence_subscriptions::ErrorEffect::Rejected(user_ids) =
            self.presence_subscriptions.on_error(error, now)
        {
            user_ids.iter().for_each(|user_id| self.presence.remove(user_id));
            self.events
                .push_back(ChatEvent::SubscriptionRejected { user_ids, error: error.clone() });
        }
    }

    /// A status that arrives during an unsubscribe was sent before it and is dropped.
    fn on_presence(&mut self, presence: &Presence) {
        let is_unsubscribing = self.presence_subscriptions.is_unsubscribing(&presence.user_id);
        if !is_unsubscribing && self.presence.apply(presence) {
            self.events.push_back(ChatEvent::Presence(presence.clone()));
        }
    }

    fn deliver(&mut self, chat_id: ChatId, ready: Vec<Message>, user_id: &UserId) {
        for message in ready {
            let own = message.sender_id == *user_id;
            self.events.push_back(ChatEvent::Message { message, own });
        }
        self.catch_up.reached(chat_id, self.cursors.reached(chat_id));
    }

    fn has_gap(&self, chat_id: ChatId) -> bool {
        self.cursors.has_gap(chat_id, self.outbox.unanswered_above(chat_id))
    }

    /// Requests a page at that time if messages are missing.
    fn check_gap(&mut self, chat_id: ChatId, at: Instant) {
        if self.has_gap(chat_id) {
            self.sync.schedule(chat_id, at);
        } else if self.cursors.has_unknown_start(chat_id) {
            self.unknown_chats.insert(chat_id);
        }
    }

    /// Reads the manifest again for chats that are new here, because only the manifest has the
    /// user's watermark.
    fn request_unknown_chats(&mut self, now: Instant) {
        if !self.manifest.is_idle() {
            return;
        }
        let chats = std::mem::take(&mut self.unknown_chats).into_iter();
        let unknown: Vec<_> = chats.filter(|id| self.cursors.has_unknown_start(*id)).collect();
        if !unknown.is_empty() {
            self.manifest.resync(Some(&unknown), Duration::ZERO, now);
        }
    }

    /// Removes everything about a chat of which the user is no longer a member. The server rejects
    /// messages that are still queued for it.
    fn remove_chat(&mut self, chat_id: ChatId) {
        self.cursors.remove(chat_id);
        self.sync.remove(chat_id);
        self.acks.remove(chat_id);
        self.catch_up.remove(chat_id);
        self.typing.remove(&chat_id);
    }
}
