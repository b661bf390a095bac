//! The other ends of the wire: back ends that push, and devices that read well, badly or never.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use heartline_client::raw::{
    OPCODE_CLOSE, OPCODE_PING, OPCODE_PONG, OPCODE_TEXT, RawFrame, masked_frame, read_server_frame,
};
use heartline_client::{Client, ClientConfig, ClientEvent};
use heartline_protocol::Token;
use heartline_protocol::server_frame::ConnectionEstablished;
use heartline_runtime::{Clock, TaskSet};
use heartline_testing::{PATIENCE, Server, Socket, bearer, close_of, service_token, token};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

/// The time.
pub(crate) fn now() -> Instant {
    Clock::system().now()
}

/// A back end that pushes numbered events over one connection that it keeps.
pub(crate) struct Pusher {
    stream: BufReader<TcpStream>,
    token: String,
}

impl Pusher {
    pub(crate) async fn new(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream), token: service_token() }
    }

    /// Pushes event `number`, padded to about this size; returns the number of connections that it
    /// was queued for.
    pub(crate) async fn push(&mut self, users: &[String], number: u64, bytes: usize) -> u64 {
        let data = json!({ "number": number, "fill": "x".repeat(bytes.saturating_sub(130)) });
        let body = json!({ "user_ids": users, "name": "numbered", "data": data }).to_string();
        let head = format!(
            "POST /v1/push HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.token,
            body.len()
        );
        self.stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await.unwrap();
        let answer = timeout(PATIENCE, self.answer()).await.expect("an answer in time");
        answer["connections"].as_u64().unwrap_or_else(|| panic!("the push failed: {answer}"))
    }

    async fn answer(&mut self) -> Value {
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).await.unwrap();
            let line = line.trim_end().to_lowercase();
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await.unwrap();
        serde_json::from_slice(&body).unwrap()
    }
}

/// An authenticated socket whose receive buffer in this kernel is limited to about this size.
/// Nothing is read from the socket until the caller does so, not even `connection_established`.
pub(crate) async fn connect_narrow(server: &Server, user: &str, receive_bytes: u32) -> Socket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(receive_bytes).unwrap();
    upgrade_on(socket, server.address, user).await
}

/// An authenticated socket from a local address of choice.
pub(crate) async fn connect_from(source: IpAddr, server: SocketAddr, token: &str) -> Socket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(source, 0)).unwrap();
    let stream = socket.connect(server).await.unwrap();
    upgrade(stream, &format!("Authorization: Bearer {token}\r\n")).await.expect("an upgrade")
}

async fn upgrade_on(socket: TcpSocket, server: SocketAddr, user: &str) -> Socket {
    let stream = socket.connect(server).await.unwrap();
    upgrade(stream, &format!("Authorization: {}\r\n", bearer(user))).await.expect("an upgrade")
}

/// Asks for a WebSocket on an open connection; `None` if the server refuses or hangs up.
pub(crate) async fn upgrade(mut stream: TcpStream, headers: &str) -> Option<Socket> {
    let request = format!(
        "GET /v1/ws HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: heartline.v1\r\n{headers}\r\n"
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    // Byte by byte, so that nothing of the first frame is taken away.
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(PATIENCE, stream.read_u8()).await.expect("a head in time").ok()?);
    }
    head.starts_with(b"HTTP/1.1 101").then_some(Socket { stream })
}

/// One frame as a test about order sees it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Received {
    Event(u64),
    Other(Value),
    Close(u16, String),
}

impl Received {
    /// `None` for control frames without meaning here.
    pub(crate) fn of(frame: &RawFrame) -> Option<Self> {
        if let Some((code, reason)) = close_of(frame) {
            return Some(Self::Close(code, reason));
        }
        if frame.opcode != OPCODE_TEXT {
            return None;
        }
        let json: Value = serde_json::from_slice(&frame.payload).unwrap();
        Some(match json["data"]["number"].as_u64() {
            Some(number) => Self::Event(number),
            None => Self::Other(json),
        })
    }

    pub(crate) fn is_of_type(&self, kind: &str) -> bool {
        matches!(self, Self::Other(json) if json["type"] == kind)
    }

    pub(crate) fn is_warning(&self) -> bool {
        matches!(self, Self::Other(json) if json["code"] == "SLOW_CONSUMER")
    }
}

/// The numbers of the events among what was received.
pub(crate) fn events(received: &[Received]) -> Vec<u64> {
    let number = |received: &Received| match received {
        Received::Event(number) => Some(*number),
        Received::Other(_) | Received::Close(..) => None,
    };
    received.iter().filter_map(number).collect()
}

/// Reads to the end of the stream, `bytes` at a time with a pause after each, and returns every
/// frame. Pings are not answered.
pub(crate) async fn trickle(socket: &mut Socket, bytes: usize, pause: Duration) -> Vec<Received> {
    let mut all = Vec::new();
    let mut buffer = vec![0; bytes];
    let reading = async {
        loop {
            match socket.stream.read(&mut buffer).await {
                Ok(0) => break,
                Ok(read) => all.extend_from_slice(&buffer[..read]),
                Err(error) => panic!("broken after {} bytes: {error}", all.len()),
            }
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        }
    };
    timeout(PATIENCE, reading).await.expect("the end in time");
    let mut rest = &all[..];
    let mut received = Vec::new();
    while !rest.is_empty() {
        received.extend(Received::of(&read_server_frame(&mut rest).await.unwrap()));
    }
    received
}

/// A device that reads all the time, answers Pings and sends nothing else, like a browser with a
/// hidden tab. Its task runs until the connection ends.
pub(crate) struct Attentive {
    /// The number of the last event; events must come in order and without holes.
    pub(crate) last_event: watch::Receiver<u64>,
    task: TaskSet<Vec<Received>>,
}

impl Attentive {
    pub(crate) fn new(socket: Socket) -> Self {
        let (sender, last_event) = watch::channel(0);
        let mut task = TaskSet::new();
        task.spawn(attend(socket, sender));
        Self { last_event, task }
    }

    /// Waits until the event of this number has come.
    pub(crate) async fn has(&mut self, number: u64) {
        let arrived = self.last_event.wait_for(|last| *last >= number);
        let arrived = timeout(PATIENCE, arrived).await;
        assert!(matches!(arrived, Ok(Ok(_))), "event {number} did not come");
    }

    /// Whether the connection still stands.
    pub(crate) fn is_open(&mut self) -> bool {
        self.ended_already().is_none_or(|received| panic!("ended with {received:?}"))
    }

    /// If the connection has ended: all that was received but events.
    pub(crate) fn ended_already(&mut self) -> Option<Vec<Received>> {
        self.task.try_join_next().map(Result::unwrap)
    }

    /// Waits for the end and returns all frames except events.
    pub(crate) async fn ended(mut self) -> Vec<Received> {
        let ended = timeout(PATIENCE, self.task.join_next()).await;
        ended.expect("the end in time").expect("it runs").unwrap()
    }
}

async fn attend(mut socket: Socket, last_event: watch::Sender<u64>) -> Vec<Received> {
    let mut received = Vec::new();
    while let Ok(frame) = read_server_frame(&mut socket.stream).await {
        match frame.opcode {
            OPCODE_PING => {
                let pong = masked_frame(OPCODE_PONG, true, &frame.payload);
                // A server that is gone shows at the next read.
                let _ = socket.stream.write_all(&pong).await;
            }
            OPCODE_CLOSE | OPCODE_TEXT => match Received::of(&frame) {
                Some(Received::Event(number)) => {
                    last_event.send_modify(|last| {
                        assert_eq!(number, *last + 1, "events must come in order");
                        *last = number;
                    });
                }
                other => received.extend(other),
            },
            _ => {}
        }
    }
    received
}

/// A real client and its events.
pub(crate) struct Device {
    /// Runs as long as this is held.
    _client: Client,
    events: mpsc::Receiver<ClientEvent>,
}

impl Device {
    /// Starts a client that may use any of these addresses.
    pub(crate) fn start(user: &str, addresses: &[SocketAddr]) -> Self {
        let mut config = ClientConfig::new("", Token(token(user)));
        config.urls = addresses.iter().map(|address| format!("ws://{address}")).collect();
        let (client, events) = Client::start(config).unwrap();
        Self { _client: client, events }
    }

    /// The next event of the client.
    pub(crate) async fn event(&mut self) -> ClientEvent {
        let event = timeout(PATIENCE, self.events.recv()).await;
        event.expect("an event in time").expect("the client runs")
    }

    /// Passes over everything up to the next established connection.
    pub(crate) async fn connected(&mut self) -> ConnectionEstablished {
        loop {
            if let ClientEvent::Connected(established) = self.event().await {
                return *established;
            }
        }
    }

    /// The events since the last call.
    pub(crate) fn events_so_far(&mut self) -> Vec<ClientEvent> {
        std::iter::from_fn(|| self.events.try_recv().ok()).collect()
    }
}
