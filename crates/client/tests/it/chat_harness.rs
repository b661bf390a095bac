//! Helpers for chats: the application's side and the server's.

use heartline_client::{ChatClient, ChatConfig, ChatEvent, ClientConfig};
use heartline_protocol::client_frame::{SendMessage, SyncRequest};
use heartline_protocol::server_frame::{ManifestChat, Message, MessageAck};
use heartline_protocol::{ChatId, ClientFrame, MessageId, RequestId, ServerFrame, Timestamp};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use ulid::Ulid;

use crate::harness::{FakeServer, FakeSocket, within_timeout};

pub(crate) const CHAT: ChatId = ChatId(Ulid(1));

pub(crate) struct ChatEvents {
    pub(crate) receiver: mpsc::Receiver<ChatEvent>,
}

impl ChatEvents {
    /// The next event other than those of the connection.
    pub(crate) async fn next(&mut self) -> ChatEvent {
        loop {
            match within_timeout(self.receiver.recv()).await.expect("the client ended") {
                ChatEvent::Connection(_) => {}
                event => return event,
            }
        }
    }

    pub(crate) async fn message(&mut self) -> (u64, String, bool) {
        match self.next().await {
            ChatEvent::Message { message, own } => (message.sequence, message.content, own),
            event => panic!("{event:?}"),
        }
    }
}

pub(crate) fn start(config: ClientConfig) -> (ChatClient, ChatEvents) {
    let (client, receiver) = ChatClient::start(config, ChatConfig::default()).unwrap();
    (client, ChatEvents { receiver })
}

pub(crate) fn message(sequence: u64) -> Message {
    Message {
        chat_id: CHAT,
        sequence,
        message_id: MessageId(Ulid(sequence.into())),
        sender_id: "bo".parse().unwrap(),
        client_message_id: format!("bo-{sequence}").parse().unwrap(),
        content: format!("number {sequence}"),
        content_type: "text/plain".to_owned(),
        created_at: Timestamp { unix_ms: 0 },
        deleted: false,
    }
}

/// The server's side of a chat.
pub(crate) trait ChatSocket {
    async fn receive_manifest_request(&mut self) -> RequestId;
    async fn receive_send(&mut self) -> SendMessage;
    async fn receive_sync_request(&mut self) -> SyncRequest;
    async fn send_manifest(&mut self, request_id: RequestId, head_sequence: u64);
    async fn send_ack(&mut self, send: &SendMessage, sequence: u64);
}

impl ChatSocket for FakeSocket<TcpStream> {
    async fn receive_manifest_request(&mut self) -> RequestId {
        match self.receive().await {
            ClientFrame::SyncManifest(request) => request.request_id,
            other => panic!("{other:?}"),
        }
    }

    async fn receive_send(&mut self) -> SendMessage {
        match self.receive().await {
            ClientFrame::SendMessage(send) => send,
            other => panic!("{other:?}"),
        }
    }

    async fn receive_sync_request(&mut self) -> SyncRequest {
        match self.receive().await {
            ClientFrame::SyncRequest(request) => request,
            other => panic!("{other:?}"),
        }
    }

    async fn send_manifest(&mut self, request_id: RequestId, head_sequence: u64) {
        let last_acked_sequence = head_sequence;
        let chats = vec![ManifestChat { chat_id: CHAT, head_sequence, last_acked_sequence }];
        self.send(&ServerFrame::SyncManifest { request_id, chats, next_page: None }).await;
    }

    async fn send_ack(&mut self, send: &SendMessage, sequence: u64) {
        self.send(&ServerFrame::MessageAck(MessageAck {
            request_id: send.request_id.clone(),
            chat_id: send.chat_id,
            client_message_id: send.client_message_id.clone(),
            message_id: MessageId(Ulid(sequence.into())),
            sequence,
            created_at: Timestamp { unix_ms: 0 },
            duplicate: false,
        }))
        .await;
    }
}

/// A socket whose chat has reached this head.
pub(crate) async fn synced(
    server: &FakeServer,
    events: &mut ChatEvents,
    head: u64,
) -> FakeSocket<TcpStream> {
    let mut socket = server.establish().await;
    let request_id = socket.receive_manifest_request().await;
    socket.send_manifest(request_id, head).await;
    if head > 0 {
        let SyncRequest { request_id, chat_id, after_sequence, .. } =
            socket.receive_sync_request().await;
        assert_eq!((chat_id, after_sequence), (CHAT, 0));
        let messages = (1..=head).map(message).collect();
        let (has_more, head_sequence) = (false, head);
        socket
            .send(&ServerFrame::SyncResponse {
                request_id,
                chat_id,
                messages,
                has_more,
                head_sequence,
            })
            .await;
        for sequence in 1..=head {
            assert_eq!(events.message().await.0, sequence);
        }
    }
    assert_eq!(events.next().await, ChatEvent::Synced);
    socket
}
