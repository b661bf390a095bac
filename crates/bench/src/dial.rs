//! Opens many connections: TCP, then the WebSocket upgrade, then `connection_established`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use heartline_runtime::{Clock, TaskSet};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::bare::{GREETING, WELCOME};
use super::frame_scanner::{Frame, FrameScanner};
use super::progress::Progress;
use super::server_under_test::{ServerUnderTest, status_of};

/// Deadline for opening one connection.
const DIAL_WITHIN: Duration = Duration::from_secs(10);
/// Sockets from one loopback address: below a server's default limit per address.
const SOCKETS_PER_ADDRESS: usize = 900;
/// The longest response head with its first frame.
const RESPONSE_BYTES_MAX: usize = 16 * 1024;
/// The beginning of the first frame of an accepted connection.
const ESTABLISHED_PREFIX: &[u8] = br#"{"type":"connection_established""#;

/// The connections to open.
#[derive(Debug)]
pub(super) struct DialPlan {
    address: SocketAddr,
    requests: Requests,
    count: usize,
    /// Number of concurrent handshakes.
    concurrency: usize,
    /// The size of each socket's receive buffer; none for the system's default.
    receive_buffer: Option<u32>,
}

#[derive(Debug)]
enum Requests {
    /// The upgrade request of each user.
    Upgrade(Vec<String>),
    /// The bare loop's greeting.
    Greeting,
}

/// An open connection.
#[derive(Debug)]
pub(super) struct Opened {
    /// The index in the plan.
    pub(super) index: usize,
    /// The socket.
    pub(super) stream: TcpStream,
    /// The position in the stream, after the frames that were read already.
    pub(super) scanner: FrameScanner,
    /// The time from the first packet to the first frame.
    pub(super) took: Duration,
}

impl DialPlan {
    /// One connection for each user, or as many to the bare loop.
    pub(super) fn new(
        server: &ServerUnderTest,
        users: &[String],
        concurrency: usize,
    ) -> Result<Self> {
        let requests = match &server.signer {
            Some(signer) => {
                let request = |user: &String| Ok(upgrade_request(server, &signer.user(user)?));
                Requests::Upgrade(users.iter().map(request).collect::<Result<_>>()?)
            }
            None => Requests::Greeting,
        };
        Self::of(server, requests, users.len(), concurrency)
    }

    /// One connection for each token, opened one after the other.
    pub(super) fn in_order(server: &ServerUnderTest, tokens: &[String]) -> Result<Self> {
        let requests = tokens.iter().map(|token| upgrade_request(server, token)).collect();
        Self::of(server, Requests::Upgrade(requests), tokens.len(), 1)
    }

    fn of(
        server: &ServerUnderTest,
        requests: Requests,
        count: usize,
        concurrency: usize,
    ) -> Result<Self> {
        ensure!(count > 0 && concurrency > 0, "there is nothing to open: raise -n");
        Ok(Self { address: server.address, requests, count, concurrency, receive_buffer: None })
    }

    /// Sets the size of the receive buffers, so that a socket that is not read fills soon.
    pub(super) fn with_receive_buffer(mut self, bytes: u32) -> Self {
        self.receive_buffer = Some(bytes);
        self
    }

    /// Opens and returns all connections; stops at the first failure.
    pub(super) async fn open(self, label: &str) -> Result<Vec<Opened>> {
        let mut all = Vec::with_capacity(self.count);
        self.open_each(label, |opened| all.push(opened)).await?;
        Ok(all)
    }

    /// Opens all connections and passes each to `on_opened` at once, so that the first ones can
    /// send heartbeats while the last ones are still being opened.
    pub(super) async fn open_each(
        self,
        label: &str,
        mut on_opened: impl FnMut(Opened),
    ) -> Result<()> {
        let progress = Progress::begin(label, self.count as u64);
        let workers = self.concurrency.min(self.count);
        let plan = Arc::new(self);
        let next = Arc::new(AtomicUsize::new(0));
        let (sender, mut receiver) = mpsc::channel(workers);
        let mut tasks = TaskSet::new();
        for _ in 0..workers {
            let (plan, next, sender) = (plan.clone(), next.clone(), sender.clone());
            tasks.spawn(async move { plan.work(&next, &sender).await });
        }
        drop(sender);
        let opened = AtomicU64::new(0);
        let collect = async {
            while let Some(connection) = receiver.recv().await {
                on_opened(connection);
                opened.fetch_add(1, Ordering::Relaxed);
            }
            while let Some(finished) = tasks.join_next().await {
                finished??;
            }
            Ok(())
        };
        progress.watch(|| opened.load(Ordering::Relaxed), collect).await
    }

    async fn work(&self, next: &AtomicUsize, opened: &mpsc::Sender<Opened>) -> Result<()> {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= self.count {
                return Ok(());
            }
            let connection = match timeout(DIAL_WITHIN, self.dial(index)).await {
                Ok(dialled) => dialled.with_context(|| format!("connection {index} failed")),
                Err(_) => {
                    Err(anyhow!("connection {index} was not established within {DIAL_WITHIN:?}"))
                }
            };
            if connection.is_err() {
                // Nothing is left to do for the other workers.
                next.store(self.count, Ordering::Relaxed);
            }
            opened.send(connection?).await.context("the receiver of opened connections is gone")?;
        }
    }

    async fn dial(&self, index: usize) -> Result<Opened> {
        let started = Clock::system().now();
        let mut stream = self.connect(index).await?;
        let mut scanner = FrameScanner::new();
        match &self.requests {
            Requests::Upgrade(requests) => {
                stream.write_all(requests[index].as_bytes()).await?;
                read_established(&mut stream, &mut scanner).await?;
            }
            Requests::Greeting => {
                stream.write_all(GREETING).await?;
                let mut welcome = [0; WELCOME.len()];
                stream.read_exact(&mut welcome).await?;
            }
        }
        Ok(Opened { index, stream, scanner, took: Clock::system().now().duration_since(started) })
    }

    async fn connect(&self, index: usize) -> Result<TcpStream> {
        let socket = match self.address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        };
        let socket =
            socket.context("opening a socket failed: too few open files? raise `ulimit -n`")?;
        if let Some(source) = source_address(self.address.ip(), index) {
            socket.bind((source, 0).into())?;
        }
        if let Some(bytes) = self.receive_buffer {
            socket.set_recv_buffer_size(bytes)?;
        }
        let stream = socket.connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// A loopback address for the socket. Several are used to keep each below the server's limit.
fn source_address(target: IpAddr, index: usize) -> Option<IpAddr> {
    match target {
        IpAddr::V4(address) if address.is_loopback() => {
            let host = (index / SOCKETS_PER_ADDRESS) % 250 + 1;
            Some(Ipv4Addr::new(127, 0, 0, host as u8).into())
        }
        _ => None,
    }
}

fn upgrade_request(server: &ServerUnderTest, token: &str) -> String {
    format!(
        "GET /v1/ws HTTP/1.1\r\n\
         Host: {}\r\n\
         Connection: Upgrade\r\n\
         Upgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: aGVhcnRsaW5lIGJlbmNoIQ==\r\n\
         Sec-WebSocket-Protocol: heartline.v1\r\n\
         Authorization: Bearer {token}\r\n\r\n",
        server.host
    )
}

/// Reads the response head and the frame `connection_established`.
async fn read_established(stream: &mut TcpStream, scanner: &mut FrameScanner) -> Result<()> {
    let mut response = Vec::with_capacity(2048);
    let mut head_end = None;
    loop {
        ensure!(response.len() < RESPONSE_BYTES_MAX, "no frame within {RESPONSE_BYTES_MAX} bytes");
        let scanned = response.len();
        if stream.read_buf(&mut response).await? == 0 {
            bail!("the server closed the connection: {}", readable(&response));
        }
        let frames = match head_end {
            Some(_) => scanned,
            None => {
                let Some(end) = find_head_end(&response) else { continue };
                ensure!(status_of(&response) == Some(101), "rejected: {}", readable(&response));
                *head_end.insert(end)
            }
        };
        let mut first = None;
        scanner.feed(&response[frames..], |frame| {
            if first.is_none() {
                first = Some(matches!(frame, Frame::Text(head)
                    if head.starts_with(ESTABLISHED_PREFIX)));
            }
        });
        match first {
            Some(true) => return Ok(()),
            Some(false) => bail!("no connection_established: {}", readable(&response)),
            None => {}
        }
    }
}

/// The length of a response's head, after which its body or first frame begins.
pub(super) fn find_head_end(response: &[u8]) -> Option<usize> {
    response.windows(4).position(|window| window == b"\r\n\r\n").map(|position| position + 4)
}

/// The beginning of a response, for error messages. A response contains no token.
pub(super) fn readable(response: &[u8]) -> String {
    let beginning = &response[..response.len().min(600)];
    String::from_utf8_lossy(beginning).replace("\r\n", " | ")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tokio::net::TcpListener;

    use super::super::signer::Signer;
    use super::*;

    #[test]
    fn no_loopback_address_has_more_sockets_than_a_server_allows() {
        let target = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let mut sockets = HashMap::new();
        for index in 0..10_000 {
            *sockets.entry(source_address(target, index).unwrap()).or_insert(0) += 1;
        }
        assert_eq!(sockets.values().max(), Some(&SOCKETS_PER_ADDRESS));
        assert_eq!(source_address(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 1), None);
    }

    /// Dials a server that responds to every upgrade with these pieces, then closes.
    async fn dial_with_response(pieces: &'static [&'static [u8]]) -> Result<Vec<Opened>> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let signer = Signer::unchecked();
        let server = ServerUnderTest::at_address(listener.local_addr().unwrap(), Some(signer));
        let mut tasks = TaskSet::new();
        tasks.spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while find_head_end(&request).is_none() {
                stream.read_buf(&mut request).await.unwrap();
            }
            for piece in pieces {
                stream.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        DialPlan::new(&server, &["ana".to_owned()], 8)?.open("test").await
    }

    const UPGRADED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n";

    #[tokio::test]
    async fn a_connection_is_open_once_it_is_established() {
        let pieces: &[&[u8]] = &[UPGRADED, b"\x81\x21{\"ty", b"pe\":\"connection_established\"}"];
        let opened = dial_with_response(pieces).await.unwrap();
        assert_eq!(opened.len(), 1);
    }

    #[tokio::test]
    async fn the_error_of_a_rejected_connection_contains_the_response() {
        let cases: [(&'static [&'static [u8]], &str); 3] = [
            (&[b"HTTP/1.1 429 Too Many\r\n\r\n"], "429 Too Many"),
            (&[UPGRADED, b"\x81\x1d{\"type\":\"connection_closing\"}"], "connection_closing"),
            (&[UPGRADED], "closed the connection"),
        ];
        for (pieces, expected) in cases {
            let error = format!("{:#}", dial_with_response(pieces).await.unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn the_end_of_a_response_head_is_found() {
        assert_eq!(find_head_end(b"HTTP/1.1 101 X\r\nA: b\r\n\r\nrest"), Some(24));
        assert_eq!(find_head_end(b"HTTP/1.1 101 X\r\n"), None);
    }
}
