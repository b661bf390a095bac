//! A server that the test controls, and helpers for the client's side.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::{SinkExt, StreamExt};
use heartline_client::{
    BackOffConfig, Client, ClientConfig, ClientEvent, Ending, StopReason, TokenError, TokenNeed,
    TokenProvider,
};
use heartline_protocol::server_frame::{ConnectionClosing, ConnectionEstablished};
use heartline_protocol::{
    ClientFrame, CloseReason, ConnectionId, Decoded, ServerFrame, Timestamp, Token, decode_client,
    encode_server,
};
use heartline_runtime::Random;
use http::HeaderName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_websockets::{CloseCode, Message, ServerBuilder, WebSocketStream};
use ulid::Ulid;

/// A limit for every wait, so that a failing test shows where it failed.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) async fn within_timeout<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, future).await.expect("the expected event did not happen in time")
}

/// A server that accepts a connection only when the test calls it.
pub(crate) struct FakeServer {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
}

impl FakeServer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Self { listener, address }
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    pub(crate) async fn accept_tcp(&self) -> TcpStream {
        within_timeout(self.listener.accept()).await.unwrap().0
    }

    /// Accepts a connection and its upgrade.
    pub(crate) async fn accept(&self) -> FakeSocket<TcpStream> {
        FakeSocket::upgrade(self.accept_tcp().await).await
    }

    /// Accepts a connection and sends `connection_established`.
    pub(crate) async fn establish(&self) -> FakeSocket<TcpStream> {
        let mut socket = self.accept().await;
        socket.send_established(5_000, 10_000).await;
        socket
    }

    /// Accepts a connection and answers its upgrade with these bytes. Returns the request.
    pub(crate) async fn reject(&self, response: &str) -> String {
        let mut stream = self.accept_tcp().await;
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(within_timeout(stream.read_u8()).await.unwrap());
        }
        stream.write_all(response.as_bytes()).await.unwrap();
        String::from_utf8(request).unwrap()
    }
}

/// The server's side of one socket.
pub(crate) struct FakeSocket<S> {
    pub(crate) request: http::Request<()>,
    pub(crate) socket: WebSocketStream<S>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> FakeSocket<S> {
    pub(crate) async fn upgrade(stream: S) -> Self {
        let name = HeaderName::from_static("sec-websocket-protocol");
        let builder = ServerBuilder::new()
            .add_header(name, heartline_protocol::SUBPROTOCOL.parse().unwrap())
            .unwrap();
        let (request, socket) = within_timeout(builder.accept(stream)).await.unwrap();
        Self { request, socket }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.request.headers().get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) async fn send(&mut self, frame: &ServerFrame) {
        let text = encode_server(frame, Timestamp { unix_ms: 0 });
        within_timeout(self.socket.send(Message::text(text))).await.unwrap();
    }

    pub(crate) async fn send_established(&mut self, interval_ms: u64, timeout_ms: u64) {
        let established = ConnectionEstablished {
            connection_id: ConnectionId { ulid: Ulid(Random::system().draw()), shard: 1 },
            user_id: "ana".parse().unwrap(),
            device_id: "phone".parse().unwrap(),
            server_id: "node-1".parse().unwrap(),
            heartbeat_interval_ms: interval_ms,
            heartbeat_timeout_ms: timeout_ms,
            protocol_version: heartline_protocol::PROTOCOL_VERSION,
            limits: Default::default(),
            degraded: None,
        };
        self.send(&ServerFrame::ConnectionEstablished(Box::new(established))).await;
    }

    /// Sends `connection_closing` and the Close frame, and waits for the client's Close frame.
    pub(crate) async fn send_closing(&mut self, reason: CloseReason, reconnect_delay_ms: u64) {
        self.send(&ServerFrame::ConnectionClosing(ConnectionClosing {
            reason,
            reconnect_allowed: reason.reconnect_allowed(),
            reconnect_delay_ms,
            sync_hints: None,
        }))
        .await;
        let code = CloseCode::try_from(reason.code()).unwrap();
        let close = Message::close(Some(code), reason.as_str());
        within_timeout(self.socket.send(close)).await.unwrap();
        while within_timeout(self.socket.next()).await.is_some() {}
    }

    /// The next message of any kind; none or an error if the client has disconnected.
    pub(crate) async fn next(&mut self) -> Option<Result<Message, tokio_websockets::Error>> {
        within_timeout(self.socket.next()).await
    }

    /// The next frame of the protocol.
    pub(crate) async fn receive(&mut self) -> ClientFrame {
        loop {
            let message = self.next().await.expect("the client has disconnected").unwrap();
            if let Some(text) = message.as_text() {
                let Ok(Decoded::Frame(frame)) = decode_client(text) else {
                    panic!("{text} is not a frame");
                };
                return frame;
            }
        }
    }

    /// Waits until the client has disconnected.
    pub(crate) async fn receive_until_closed(&mut self) {
        while let Some(Ok(_)) = self.next().await {}
    }
}

/// A configuration with short delays.
pub(crate) fn config_for(servers: &[&FakeServer]) -> ClientConfig {
    let mut config = ClientConfig::new("", token_for(3600, "first"));
    config.urls = servers.iter().map(|server| server.url()).collect();
    config.device_id = Some("phone".parse().unwrap());
    config.random = Random::seeded(1);
    config.back_off = BackOffConfig {
        delay_min: Duration::from_millis(10),
        delay_max: Duration::from_millis(40),
        jitter_percent: 20,
    };
    config
}

pub(crate) fn start(config: ClientConfig) -> (Client, Events) {
    let (client, receiver) = Client::start(config).unwrap();
    (client, Events { receiver })
}

/// The events of a client.
pub(crate) struct Events {
    pub(crate) receiver: mpsc::Receiver<ClientEvent>,
}

impl Events {
    pub(crate) async fn next(&mut self) -> Option<ClientEvent> {
        within_timeout(self.receiver.recv()).await
    }

    /// Skips events until a connection is established.
    pub(crate) async fn connected(&mut self) {
        while !matches!(self.some().await, ClientEvent::Connected(_)) {}
    }

    /// Skips events until a connection ends.
    pub(crate) async fn disconnected(&mut self) -> (Ending, Option<Duration>) {
        loop {
            if let ClientEvent::Disconnected { ending, retry_in } = self.some().await {
                return (ending, retry_in);
            }
        }
    }

    /// Skips events until the client stops, which is the last event.
    pub(crate) async fn stopped(&mut self) -> StopReason {
        loop {
            if let ClientEvent::Stopped(reason) = self.some().await {
                assert_eq!(self.next().await, None);
                return reason;
            }
        }
    }

    async fn some(&mut self) -> ClientEvent {
        self.next().await.expect("the client ended without a Stopped event")
    }
}

/// A token that expires after `seconds`, with an invalid signature.
pub(crate) fn token_for(seconds: u64, name: &str) -> Token {
    #[expect(clippy::disallowed_methods, reason = "a token is measured by the wall clock")]
    let now = Timestamp::from(SystemTime::now());
    let expiry = now.plus(Duration::from_secs(seconds)).unix_ms / 1000;
    let claims = format!(r#"{{"sub":"ana","exp":{expiry},"name":"{name}"}}"#);
    Token(format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims)))
}

/// Returns its tokens in turn, then the last one again and again, and records the reason of each
/// call.
pub(crate) struct Tokens {
    tokens: Mutex<Vec<Token>>,
    needs: mpsc::Sender<TokenNeed>,
}

impl Tokens {
    pub(crate) fn new(tokens: &[&Token]) -> (Self, mpsc::Receiver<TokenNeed>) {
        let (needs, receiver) = mpsc::channel(64);
        let tokens = tokens.iter().rev().map(|token| (*token).clone()).collect();
        (Self { tokens: Mutex::new(tokens), needs }, receiver)
    }
}

#[async_trait]
impl TokenProvider for Tokens {
    async fn token(&self, need: TokenNeed) -> Result<Token, TokenError> {
        self.needs.try_send(need).unwrap();
        let mut tokens = self.tokens.lock().unwrap();
        let token = tokens.last().cloned().unwrap();
        if tokens.len() > 1 {
            tokens.pop();
        }
        Ok(token)
    }
}
