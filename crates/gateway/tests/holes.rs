//! The inbox with messages that arrive late, twice, or not at all.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod scripted_store;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use heartline_gateway::{Config, Transport, inbox};
use heartline_protocol::server_frame::Message;
use heartline_protocol::{
    ChatId, MessageId, NodeId, ServerFrame, Timestamp, decode_server, encode_server,
};
use heartline_routing::{Delivery, Envelope, LocalLink, NodeLink};
use heartline_runtime::{Clock, TaskSet};
use http::Request;
use jsonwebtoken::{EncodingKey, Header};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use ulid::Ulid;

const PATIENCE: Duration = Duration::from_secs(10);
const CHAT: ChatId = ChatId(Ulid(7));

fn message(sequence: u64) -> Message {
    Message {
        chat_id: CHAT,
        sequence,
        message_id: MessageId(Ulid(sequence.into())),
        sender_id: "bo".parse().unwrap(),
        client_message_id: format!("m{sequence}").parse().unwrap(),
        content: format!("message {sequence}"),
        content_type: "text/plain".to_owned(),
        created_at: Timestamp { unix_ms: 0 },
        deleted: false,
    }
}

/// A node with one connection of ana's.
struct Node {
    link: Arc<LocalLink>,
    node_id: NodeId,
    client: TcpStream,
    _tasks: TaskSet<()>,
}

impl Node {
    /// The log holds messages 1 to `log`; with 0 it cannot be read.
    async fn with_log(log: u64) -> Self {
        let messages = (1..=log).map(message).collect();
        let (gateway, link, envelopes) = scripted_store::gateway(Config::default(), messages);
        let node_id = gateway.node_id().clone();
        let mut tasks = TaskSet::new();
        tasks.spawn(inbox::run(Arc::clone(&gateway), envelopes));
        let request = upgrade_request();
        let peer = "127.0.0.1:9".parse().unwrap();
        let (_, accepted) = gateway.upgrade(&request, peer).await.unwrap();
        let (server, client) = connected().await;
        tasks.spawn(gateway.serve(accepted, Transport::Plain(Arc::new(server)), &[]));
        let mut node = Self { link, node_id, client, _tasks: tasks };
        assert!(matches!(node.hears().await, ServerFrame::ConnectionEstablished(_)));
        node
    }

    async fn arrive(&self, sequence: u64) {
        let frame = encode_server(&ServerFrame::Message(message(sequence)), Clock::system().wall());
        let delivery = Delivery {
            chat_id: CHAT,
            sequence,
            user_ids: Arc::from(["ana".parse().unwrap()]),
            frame: Bytes::from(frame),
            origin: None,
            committed_at: None,
        };
        self.link.send(&self.node_id, Envelope::Message(delivery)).await.unwrap();
    }

    /// The next text frame, which a server does not mask.
    async fn hears(&mut self) -> ServerFrame {
        timeout(PATIENCE, async {
            loop {
                let mut head = [0; 2];
                self.client.read_exact(&mut head).await.unwrap();
                let length = match head[1] {
                    126 => u64::from(self.client.read_u16().await.unwrap()),
                    127 => self.client.read_u64().await.unwrap(),
                    short => short.into(),
                };
                let mut payload = vec![0; length as usize];
                self.client.read_exact(&mut payload).await.unwrap();
                if head[0] & 0x0f == 1 {
                    return decode_server(&String::from_utf8(payload).unwrap()).unwrap();
                }
            }
        })
        .await
        .expect("a frame in time")
    }

    async fn hears_message(&mut self) -> u64 {
        match self.hears().await {
            ServerFrame::Message(message) => message.sequence,
            other => panic!("{other:?} is no message"),
        }
    }
}

#[tokio::test]
async fn a_hole_is_filled_from_the_log_and_repeats_are_dropped() {
    let mut node = Node::with_log(9).await;
    for sequence in [1, 2, 2, 5, 6, 1] {
        node.arrive(sequence).await;
    }
    for sequence in 1..=6 {
        assert_eq!(node.hears_message().await, sequence);
    }
    node.arrive(8).await;
    node.arrive(7).await;
    assert_eq!((node.hears_message().await, node.hears_message().await), (7, 8));
}

#[tokio::test]
async fn a_hole_that_cannot_be_filled_ends_in_a_sync_and_the_chat_goes_on() {
    let mut node = Node::with_log(0).await;
    for sequence in [1, 3] {
        node.arrive(sequence).await;
    }
    assert_eq!(node.hears_message().await, 1);
    let frames = [node.hears().await, node.hears().await];
    let told = frames.iter().any(|frame| {
        matches!(frame, ServerFrame::ResyncRequired { chat_ids: Some(chats), .. } if *chats == [CHAT])
    });
    let pushed =
        frames.iter().any(|frame| matches!(frame, ServerFrame::Message(m) if m.sequence == 3));
    assert!(told && pushed, "{frames:?}");
    node.arrive(4).await;
    assert_eq!(node.hears_message().await, 4);
}

fn upgrade_request() -> http::request::Parts {
    let expires_at = Clock::system().wall().unix_ms / 1000 + 3600;
    let claims = serde_json::json!({ "sub": "ana", "exp": expires_at });
    let key = EncodingKey::from_secret(scripted_store::SECRET.as_bytes());
    let token = jsonwebtoken::encode(&Header::default(), &claims, &key).unwrap();
    let request = Request::get("/v1/ws")
        .header("host", "localhost")
        .header("upgrade", "websocket")
        .header("connection", "upgrade")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
        .header("sec-websocket-protocol", "heartline.v1")
        .header("authorization", format!("Bearer {token}"));
    request.body(()).unwrap().into_parts().0
}

/// Both ends of a connection.
async fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    (accepted.unwrap().0, client.unwrap())
}
