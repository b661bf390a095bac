//! A network between a node and Redis that loses single envelopes: it makes those that hold a
//! certain text unreadable, so that the node passes over them, and lets everything else through.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Where the sender's name stands in an envelope: after version, kind and two numbers, with its
/// length before it.
const SENDER_PLACE: usize = 19;

/// The network.
pub(crate) struct LossyNetwork {
    pub(crate) address: SocketAddr,
    rule: Arc<Mutex<Rule>>,
    /// Ends with the network.
    _task: JoinSet<()>,
}

#[derive(Default)]
struct Rule {
    /// The name of the sending node, and a text in what it sends.
    lost: Option<(String, String)>,
    losses: usize,
}

impl LossyNetwork {
    /// A network to the Redis on this port of loopback.
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let rule = Arc::new(Mutex::new(Rule::default()));
        let mut task = JoinSet::new();
        task.spawn(accept(listener, (Ipv4Addr::LOCALHOST, port).into(), Arc::clone(&rule)));
        Self { address, rule, _task: task }
    }

    /// From now on loses what this node sends with this text in it.
    pub(crate) fn lose(&self, sender: &str, text: &str) {
        self.rule.lock().unwrap().lost = Some((sender.to_owned(), text.to_owned()));
    }

    /// How many envelopes were lost.
    pub(crate) fn losses(&self) -> usize {
        self.rule.lock().unwrap().losses
    }
}

async fn accept(listener: TcpListener, redis: SocketAddr, rule: Arc<Mutex<Rule>>) {
    let mut connections = JoinSet::new();
    while let Ok((node, _)) = listener.accept().await {
        let Ok(redis) = TcpStream::connect(redis).await else { continue };
        let _ = (node.set_nodelay(true), redis.set_nodelay(true));
        let (mut from_node, to_node) = node.into_split();
        let (from_redis, mut to_redis) = redis.into_split();
        connections.spawn(async move {
            let _ = copy(&mut from_node, &mut to_redis).await;
        });
        connections.spawn(pass_on(from_redis, to_node, Arc::clone(&rule)));
    }
}

async fn pass_on(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, rule: Arc<Mutex<Rule>>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        rule.lock().unwrap().apply(&mut buffer[..read]);
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

impl Rule {
    /// Gives every envelope of the sender that is followed by the text, in the same read, a
    /// version that nobody knows.
    fn apply(&mut self, bytes: &mut [u8]) {
        let Some((sender, text)) = &self.lost else { return };
        let Some(text_at) = find(bytes, text.as_bytes()) else { return };
        let Some(sender_at) = rfind(&bytes[..text_at], sender.as_bytes()) else { return };
        if let Some(start) = sender_at.checked_sub(SENDER_PLACE) {
            bytes[start] = u8::MAX;
            self.losses += 1;
        }
    }
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text)
}

fn rfind(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).rposition(|window| window == text)
}
