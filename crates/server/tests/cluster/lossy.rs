//! A network between a node and Redis that loses single things: it makes envelopes that hold a
//! certain text unreadable, so that the node passes over them, drops publications, or ends a
//! connection in place of an answer, and lets everything else through.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use heartline_runtime::TaskSet;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// Where the sender's name stands in an envelope: after version, kind and two numbers, with its
/// length before it.
const SENDER_PLACE: usize = 19;

/// The network.
pub(crate) struct LossyNetwork {
    pub(crate) address: SocketAddr,
    rule: Arc<Mutex<Rule>>,
    /// Accepts and forwards; ends with the network.
    _task: TaskSet<()>,
}

#[derive(Default)]
struct Rule {
    /// The name of the sending node, and a text in what it sends.
    lost: Option<(String, String)>,
    losses: usize,
    /// A text in publications that do not arrive.
    unheard: Option<String>,
    /// A text in a request whose answer does not arrive.
    unanswered: Option<String>,
}

impl LossyNetwork {
    /// A network to the Redis on this port of loopback.
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let rule = Arc::new(Mutex::new(Rule::default()));
        let mut task = TaskSet::new();
        task.spawn(accept(listener, (Ipv4Addr::LOCALHOST, port).into(), Arc::clone(&rule)));
        Self { address, rule, _task: task }
    }

    /// From now on loses what this node sends with this text in it.
    pub(crate) fn lose(&self, sender: &str, text: &str) {
        self.rule.lock().unwrap().lost = Some((sender.to_owned(), text.to_owned()));
    }

    /// From now on loses publications with this text in them.
    pub(crate) fn lose_publication(&self, text: &str) {
        self.rule.lock().unwrap().unheard = Some(text.to_owned());
    }

    /// Closes the connection of the next request that contains this text, after Redis has run the
    /// request and before the node receives the reply.
    pub(crate) fn lose_answer(&self, text: &str) {
        self.rule.lock().unwrap().unanswered = Some(text.to_owned());
    }

    /// The number of dropped envelopes, publications and replies.
    pub(crate) fn losses(&self) -> usize {
        self.rule.lock().unwrap().losses
    }
}

async fn accept(listener: TcpListener, redis: SocketAddr, rule: Arc<Mutex<Rule>>) {
    let mut connections = TaskSet::new();
    while let Ok((node, _)) = listener.accept().await {
        let Ok(redis) = TcpStream::connect(redis).await else { continue };
        let _ = (node.set_nodelay(true), redis.set_nodelay(true));
        let (from_node, to_node) = node.into_split();
        let (from_redis, to_redis) = redis.into_split();
        let rule = Arc::clone(&rule);
        connections.spawn(async move {
            let is_unanswered = AtomicBool::new(false);
            // Either end is the end of both.
            tokio::select! {
                () = ask(from_node, to_redis, &rule, &is_unanswered) => {}
                () = pass_on(from_redis, to_node, &rule, &is_unanswered) => {}
            }
        });
    }
}

async fn ask(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    rule: &Mutex<Rule>,
    is_unanswered: &AtomicBool,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let is_it = |text: &mut String| find(&buffer[..read], text.as_bytes()).is_some();
        let found = rule.lock().unwrap().unanswered.take_if(is_it);
        if found.is_some() {
            is_unanswered.store(true, Ordering::SeqCst);
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

async fn pass_on(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    rule: &Mutex<Rule>,
    is_unanswered: &AtomicBool,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if is_unanswered.load(Ordering::SeqCst) {
            rule.lock().unwrap().losses += 1;
            return;
        }
        rule.lock().unwrap().apply(&mut buffer[..read]);
        let publication = rule.lock().unwrap().publication(&buffer[..read]);
        let (start, end) = publication.map_or((read, read), |lost| (lost.start, lost.end));
        for part in [&buffer[..start], &buffer[end..read]] {
            if to.write_all(part).await.is_err() {
                return;
            }
        }
    }
}

impl Rule {
    /// Gives every envelope of the sender that is followed by the text, in the same read, an
    /// unknown version.
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

impl Rule {
    /// Where a publication is that must not arrive, if it came in one read.
    fn publication(&mut self, bytes: &[u8]) -> Option<Range<usize>> {
        let text = self.unheard.as_ref()?;
        let text_at = find(bytes, text.as_bytes())?;
        // `*3` and `message`, the channel, and what was published, each with its length before it.
        let start = rfind(&bytes[..text_at], b"\r\n$7\r\nmessage\r\n")? - 2;
        let mut end = start + 4;
        for _ in 0..3 {
            let head = end + find(&bytes[end..], b"\r\n")?;
            let length: usize = str::from_utf8(&bytes[end + 1..head]).ok()?.parse().ok()?;
            end = head + 2 + length + 2;
        }
        (end <= bytes.len()).then(|| {
            self.losses += 1;
            start..end
        })
    }
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text)
}

fn rfind(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).rposition(|window| window == text)
}
