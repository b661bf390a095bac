//! A server with chats in memory that handles each request as the test decides.

use std::collections::BTreeMap;

use heartline_protocol::client_frame::{SendMessage, SyncManifestRequest, SyncRequest};
use heartline_protocol::server_frame::{ManifestChat, Message};
use heartline_protocol::{ChatId, ClientFrame, ErrorCode, ServerFrame};

use crate::chat::fixtures::{ack, error, message, outcome_unknown};

const SYNC_PAGE: usize = 3;
const MANIFEST_PAGE: usize = 2;

/// How the server handles a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Behaviour {
    Succeed,
    Fail(ErrorCode),
    /// The server reports an unknown outcome, whether or not the message was stored.
    Unknown {
        stored: bool,
    },
}

/// A chat on the server.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) messages: Vec<Message>,
    /// The number of oldest messages that are deleted.
    pub(super) expired: u64,
    pub(super) acked: u64,
}

pub(super) struct Server {
    pub(super) logs: BTreeMap<ChatId, Log>,
}

impl Log {
    pub(super) fn head(&self) -> u64 {
        self.messages.len() as u64
    }

    /// Deletes all messages except the newest.
    pub(super) fn expire(&mut self) {
        self.expired = self.head().saturating_sub(1);
    }
}

impl Server {
    pub(super) fn new(chats: impl Iterator<Item = ChatId>) -> Self {
        Self { logs: chats.map(|chat_id| (chat_id, Log::default())).collect() }
    }

    pub(super) fn log(&mut self, chat_id: ChatId) -> &mut Log {
        self.logs.get_mut(&chat_id).unwrap()
    }

    /// Handles a frame; returns the answer.
    pub(super) fn serve(
        &mut self,
        request: ClientFrame,
        behaviour: Behaviour,
    ) -> Option<ServerFrame> {
        let reply = match (request, behaviour) {
            (ClientFrame::SendMessage(send), _) => self.serve_send(send, behaviour),
            (ClientFrame::Ack(ack), _) => {
                let log = self.log(ack.chat_id);
                assert!(ack.last_acked_sequence <= log.head());
                log.acked = log.acked.max(ack.last_acked_sequence);
                return None;
            }
            (request, Behaviour::Fail(code)) if code.retryable() => {
                ServerFrame::Error(error(request.request_id().unwrap(), code))
            }
            (ClientFrame::SyncRequest(request), _) => self.serve_page(request),
            (ClientFrame::SyncManifest(request), _) => self.serve_manifest(request),
            (other, _) => panic!("{other:?} is not expected"),
        };
        Some(reply)
    }

    fn serve_send(&mut self, send: SendMessage, behaviour: Behaviour) -> ServerFrame {
        let SendMessage { request_id, chat_id, client_message_id, content, .. } = send;
        let log = self.log(chat_id);
        let is_mine = |stored: &Message| stored.client_message_id == client_message_id;
        let stored = log.messages.iter().position(is_mine);
        match behaviour {
            Behaviour::Fail(code) if code.retryable() || stored.is_none() => {
                return ServerFrame::Error(error(&request_id, code));
            }
            Behaviour::Unknown { stored: false } => {
                return ServerFrame::Error(outcome_unknown(&request_id));
            }
            Behaviour::Succeed | Behaviour::Fail(_) | Behaviour::Unknown { stored: true } => {}
        }
        let index = stored.unwrap_or_else(|| {
            let sequence = log.head() + 1;
            log.messages.push(Message {
                sender_id: "ana".parse().unwrap(),
                client_message_id: client_message_id.clone(),
                content,
                ..message(chat_id, sequence)
            });
            log.messages.len() - 1
        });
        match behaviour {
            Behaviour::Unknown { .. } => ServerFrame::Error(outcome_unknown(&request_id)),
            Behaviour::Succeed | Behaviour::Fail(_) => ServerFrame::MessageAck(ack(
                &request_id,
                chat_id,
                &client_message_id,
                index as u64 + 1,
            )),
        }
    }

    fn serve_page(&self, request: SyncRequest) -> ServerFrame {
        let SyncRequest { request_id, chat_id, after_sequence, .. } = request;
        let log = &self.logs[&chat_id];
        let first = after_sequence.max(log.expired) as usize;
        let rest = log.messages.get(first..).unwrap_or_default();
        ServerFrame::SyncResponse {
            request_id,
            chat_id,
            messages: rest.iter().take(SYNC_PAGE).cloned().collect(),
            has_more: rest.len() > SYNC_PAGE,
            head_sequence: log.head(),
        }
    }

    fn serve_manifest(&self, request: SyncManifestRequest) -> ServerFrame {
        let start: usize = request.page.map_or(0, |page| page.parse().unwrap());
        let chats = self.logs.iter().skip(start).take(MANIFEST_PAGE);
        let chat = |(chat_id, log): (&ChatId, &Log)| ManifestChat {
            chat_id: *chat_id,
            head_sequence: log.head(),
            last_acked_sequence: log.acked,
        };
        let end = start + MANIFEST_PAGE;
        ServerFrame::SyncManifest {
            request_id: request.request_id,
            chats: chats.map(chat).collect(),
            next_page: (end < self.logs.len()).then(|| end.to_string()),
        }
    }
}
