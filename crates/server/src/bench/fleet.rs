//! Light sockets: connections that count what arrives, send heartbeats, and cost next to nothing.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use hdrhistogram::Histogram;
use heartline_protocol::limits::HEARTBEAT_INTERVAL;
use heartline_routing::Clock;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval};

use super::dial::Opened;
use super::report::new_histogram;
use super::walker::{Frame, Walker, intended_nanos, is_event};

/// Into how many groups the heartbeats of an interval are spread.
const HEARTBEAT_SLOTS: usize = 100;
/// The mask of the frames that the bench sends.
const MASK: [u8; 4] = [0x5a, 0xc3, 0x17, 0x8e];
/// The longest payload of a control frame.
const CONTROL_BYTES_MAX: usize = 125;

thread_local! {
    /// One buffer per worker thread: a socket that has nothing to say holds no memory.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; 64 * 1024]);
}

/// The moment that a run's times count from, the same for senders and readers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Epoch {
    start: Instant,
}

impl Epoch {
    /// Begins now.
    pub(super) fn begin() -> Self {
        Self { start: Clock.now() }
    }

    /// Nanoseconds since the beginning.
    pub(super) fn nanos(&self) -> u64 {
        Clock.now().duration_since(self.start).as_nanos() as u64
    }
}

/// What the readers of a fleet have seen.
#[derive(Debug)]
pub(super) struct Counters {
    epoch: Epoch,
    deliveries: AtomicU64,
    other_frames: AtomicU64,
    heartbeats: AtomicU64,
    closed: AtomicU64,
    latency: Mutex<Histogram<u64>>,
}

impl Counters {
    fn new(epoch: Epoch) -> Self {
        Self {
            epoch,
            deliveries: AtomicU64::new(0),
            other_frames: AtomicU64::new(0),
            heartbeats: AtomicU64::new(0),
            closed: AtomicU64::new(0),
            latency: Mutex::new(new_histogram()),
        }
    }

    /// The counters of connections that nobody reads.
    pub(super) fn unread(epoch: Epoch) -> Arc<Self> {
        Arc::new(Self::new(epoch))
    }

    /// Pushes that arrived.
    pub(super) fn deliveries(&self) -> u64 {
        self.deliveries.load(Ordering::Relaxed)
    }

    /// Other text frames that arrived: the answers to heartbeats.
    pub(super) fn other_frames(&self) -> u64 {
        self.other_frames.load(Ordering::Relaxed)
    }

    /// Heartbeats that were sent.
    pub(super) fn heartbeats(&self) -> u64 {
        self.heartbeats.load(Ordering::Relaxed)
    }

    /// Connections that the server ended.
    pub(super) fn closed(&self) -> u64 {
        self.closed.load(Ordering::Relaxed)
    }

    /// The latencies recorded since this was last asked.
    pub(super) fn take_latency(&self) -> Histogram<u64> {
        let mut latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut latency, new_histogram())
    }

    fn record(&self, latencies: &[u64]) {
        let mut latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        for nanos in latencies {
            latency.saturating_record(*nanos);
        }
    }
}

/// Connections with a reader each and one task that sends all their heartbeats.
#[derive(Debug)]
pub(super) struct Fleet {
    counters: Arc<Counters>,
    writers: Writers,
    sample_every: usize,
    /// Dropping it ends the tasks, and with them the sockets.
    tasks: JoinSet<()>,
}

type Writers = Arc<Mutex<Vec<Arc<OwnedWriteHalf>>>>;

impl Fleet {
    /// A fleet without sockets as yet; every `sample_every`th will also record latencies.
    pub(super) fn new(epoch: Epoch, sample_every: usize) -> Self {
        let counters = Arc::new(Counters::new(epoch));
        let writers = Writers::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(send_heartbeats(writers.clone(), counters.clone()));
        Self { counters, writers, sample_every, tasks }
    }

    /// Takes in a socket: from now on it is read and sends heartbeats.
    pub(super) fn add(&mut self, opened: Opened) {
        let (read_half, write_half) = opened.stream.into_split();
        let writer = Arc::new(write_half);
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = Reader {
            walker: opened.walker,
            writer: writer.clone(),
            counters: self.counters.clone(),
            sampled: writers.len().is_multiple_of(self.sample_every),
        };
        writers.push(writer);
        drop(writers);
        self.tasks.spawn(reader.run(read_half));
    }

    /// What its readers have seen.
    pub(super) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }
}

struct Reader {
    walker: Walker,
    writer: Arc<OwnedWriteHalf>,
    counters: Arc<Counters>,
    sampled: bool,
}

impl Reader {
    async fn run(mut self, mut source: impl AsyncRead + Unpin) {
        let read = |context: &mut Context<'_>| self.poll_read(context, &mut source);
        poll_fn(read).await;
        self.counters.closed.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads until the stream ends; nothing is held while it waits.
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        source: &mut (impl AsyncRead + Unpin),
    ) -> Poll<()> {
        BUFFER.with_borrow_mut(|buffer| {
            loop {
                let mut bytes = ReadBuf::new(buffer);
                let read = ready!(Pin::new(&mut *source).poll_read(context, &mut bytes));
                if read.is_err() || bytes.filled().is_empty() {
                    return Poll::Ready(());
                }
                self.take(bytes.filled());
            }
        })
    }

    fn take(&mut self, bytes: &[u8]) {
        let (mut deliveries, mut others, mut now) = (0, 0, None);
        let mut latencies = Vec::new();
        let (sampled, writer, counters) = (self.sampled, &self.writer, &self.counters);
        self.walker.feed(bytes, |frame| match frame {
            Frame::Text(head) if is_event(head) => {
                deliveries += 1;
                if sampled && let Some(intended) = intended_nanos(head) {
                    let now = *now.get_or_insert_with(|| counters.epoch.nanos());
                    latencies.push(now.saturating_sub(intended));
                }
            }
            Frame::Text(_) => others += 1,
            // A full socket buffer loses the frame; the server then closes and it is reported.
            Frame::Ping(payload) => drop(writer.try_write(&masked_frame(0x0a, payload))),
            Frame::Close | Frame::Other => {}
        });
        counters.deliveries.fetch_add(deliveries, Ordering::Relaxed);
        counters.other_frames.fetch_add(others, Ordering::Relaxed);
        if !latencies.is_empty() {
            counters.record(&latencies);
        }
    }
}

async fn send_heartbeats(writers: Writers, counters: Arc<Counters>) {
    let frame = masked_frame(0x01, br#"{"type":"heartbeat"}"#);
    let mut ticks = interval(HEARTBEAT_INTERVAL / HEARTBEAT_SLOTS as u32);
    for slot in (0..HEARTBEAT_SLOTS).cycle() {
        ticks.tick().await;
        let writers = writers.lock().unwrap_or_else(PoisonError::into_inner);
        for writer in writers.iter().skip(slot).step_by(HEARTBEAT_SLOTS) {
            if writer.try_write(&frame).is_ok() {
                counters.heartbeats.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// A whole masked frame with a short payload.
fn masked_frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let payload = &payload[..payload.len().min(CONTROL_BYTES_MAX)];
    let mut frame = vec![0x80 | opcode, 0x80 | payload.len() as u8];
    frame.extend(MASK);
    frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// Reads and forgets until the stream ends, without a buffer of its own.
pub(super) async fn discard(mut source: impl AsyncRead + Unpin) {
    poll_fn(|context| {
        BUFFER.with_borrow_mut(|buffer| {
            loop {
                let mut bytes = ReadBuf::new(buffer);
                let read = ready!(Pin::new(&mut source).poll_read(context, &mut bytes));
                if read.is_err() || bytes.filled().is_empty() {
                    return Poll::Ready(());
                }
            }
        })
    })
    .await;
}

/// Connections that are open and never read.
#[derive(Debug)]
pub(super) struct Stalled {
    _streams: Vec<TcpStream>,
}

impl Stalled {
    /// Holds connections until it is dropped.
    pub(super) fn hold(opened: Vec<Opened>) -> Self {
        Self { _streams: opened.into_iter().map(|connection| connection.stream).collect() }
    }
}
