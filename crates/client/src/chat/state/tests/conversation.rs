//! The client's side of a conversation; the test passes in the server's frames.

use std::time::Duration;

use heartline_protocol::client_frame::{SendMessage, SyncManifestRequest, SyncRequest};
use heartline_protocol::server_frame::{Chat, ChatKind, ManifestChat};
use heartline_protocol::{ChatId, ClientFrame, RequestId, ServerFrame, Timestamp};
use tokio::time::Instant;

use crate::back_off::BackOffConfig;
use crate::chat::config::ChatConfig;
use crate::chat::event::ChatEvent;
use crate::chat::fixtures::{CHAT, connected, frame, manifest_chat, message};
use crate::chat::state::ChatState;
use crate::clock;
use crate::event::ClientEvent;

pub(super) struct Conversation {
    pub(super) state: ChatState,
    pub(super) now: Instant,
}

impl Conversation {
    pub(super) fn new(cursors: &[(ChatId, u64)]) -> Self {
        let cursors = cursors.iter().copied().collect();
        let config = ChatConfig { cursors, ..ChatConfig::default() };
        let state = ChatState::new(config, BackOffConfig::default(), 1);
        Self { state, now: clock::now() }
    }

    /// A connection with these heads in the manifest, and no request left.
    pub(super) fn connected(cursors: &[(ChatId, u64)]) -> Self {
        let mut conversation = Self::new(cursors);
        conversation.on_event(connected(1));
        let heads = cursors.iter().map(|(chat_id, head)| manifest_chat(*chat_id, *head));
        let request_id = conversation.requests_manifest();
        let events = conversation.receives(manifest(request_id, heads.collect()));
        assert_eq!(events, [ChatEvent::Synced]);
        conversation
    }

    /// Passes an event to the client. Returns the events for the application, without the event
    /// itself, which comes first.
    pub(super) fn on_event(&mut self, event: ClientEvent) -> Vec<ChatEvent> {
        self.state.on_event(event.clone(), self.now);
        assert_eq!(self.state.next_event(self.now), Some(ChatEvent::Connection(event)));
        std::iter::from_fn(|| self.state.next_event(self.now)).collect()
    }

    pub(super) fn receives(&mut self, received: ServerFrame) -> Vec<ChatEvent> {
        self.on_event(frame(received))
    }

    pub(super) fn receives_message(&mut self, sequence: u64) -> Vec<u64> {
        sequences(&self.receives(ServerFrame::Message(message(CHAT, sequence))))
    }

    pub(super) fn next_frame(&mut self) -> Option<ClientFrame> {
        self.state.next_frame(self.now)
    }

    pub(super) fn sends(&mut self) -> SendMessage {
        match self.next_frame() {
            Some(ClientFrame::SendMessage(frame)) => frame,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn requests_manifest(&mut self) -> RequestId {
        match self.next_frame() {
            Some(ClientFrame::SyncManifest(SyncManifestRequest { request_id, .. })) => request_id,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn requests_page(&mut self) -> SyncRequest {
        match self.next_frame() {
            Some(ClientFrame::SyncRequest(request)) => request,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn advance(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
    }
}

pub(super) fn sequences(events: &[ChatEvent]) -> Vec<u64> {
    let sequence = |event: &ChatEvent| match event {
        ChatEvent::Message { message, .. } => Some(message.sequence),
        _ => None,
    };
    events.iter().filter_map(sequence).collect()
}

pub(super) fn manifest(request_id: RequestId, chats: Vec<ManifestChat>) -> ServerFrame {
    ServerFrame::SyncManifest { request_id, chats, next_page: None }
}

pub(super) fn page(
    request: &SyncRequest,
    sequences: impl IntoIterator<Item = u64>,
    has_more: bool,
    head_sequence: u64,
) -> ServerFrame {
    let SyncRequest { request_id, chat_id, .. } = request.clone();
    let messages = sequences.into_iter().map(|sequence| message(chat_id, sequence)).collect();
    ServerFrame::SyncResponse { request_id, chat_id, messages, has_more, head_sequence }
}

pub(super) fn chat(chat_id: ChatId, head_sequence: u64) -> Chat {
    let created_at = Timestamp { unix_ms: 0 };
    let kind = ChatKind::Group;
    Chat { chat_id, kind, name: None, members: Vec::new(), head_sequence, created_at }
}
