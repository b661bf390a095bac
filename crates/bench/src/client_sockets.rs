//! Client connections with little overhead: they count the frames that arrive and send heartbeats.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use heartline_protocol::limits::HEARTBEAT_INTERVAL;
use heartline_runtime::TaskSet;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::interval;

use super::counters::{Counters, Epoch, Tally};
use super::dial::Opened;
use super::frame_scanner::{Frame, FrameKind, FrameScanner, frame_kind, intended_nanos};
use super::frame_writer::{FrameWriter, PONG, TEXT, masked_frame};
use super::message_template::MessageTemplate;
use super::order_check::OrderCheck;
use super::sender::Sender;

/// Number of groups into which the heartbeats of an interval are spread.
const HEARTBEAT_SLOTS: usize = 100;

thread_local! {
    /// One read buffer per worker thread, so that an idle socket needs no buffer.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; 64 * 1024]);
}

/// Connections with a reader each and one task that sends all their heartbeats.
#[derive(Debug)]
pub(super) struct ClientSockets {
    counters: Arc<Counters>,
    writers: Writers,
    sample_every: usize,
    /// Dropping the tasks closes the sockets.
    tasks: TaskSet<()>,
}

type Writers = Arc<Mutex<Vec<Arc<FrameWriter>>>>;

impl ClientSockets {
    /// An empty set. Every `sample_every`th socket also records the latencies of deliveries.
    pub(super) fn new(epoch: Epoch, sample_every: usize) -> Self {
        let counters = Counters::new(epoch);
        let writers = Writers::default();
        let mut tasks = TaskSet::new();
        tasks.spawn(send_heartbeats(writers.clone(), counters.clone()));
        Self { counters, writers, sample_every, tasks }
    }

    /// Adds a socket, and starts its reader and its heartbeats.
    pub(super) fn add(&mut self, opened: Opened) {
        self.add_socket(opened, None, |_| None);
    }

    /// Adds a socket whose deliveries are checked for order.
    pub(super) fn add_checked(&mut self, opened: Opened, check: Arc<OrderCheck>) {
        self.add_socket(opened, Some(check), |_| None);
    }

    /// Adds a socket that can send messages from these templates, in turn.
    pub(super) fn add_sender(
        &mut self,
        opened: Opened,
        templates: Vec<MessageTemplate>,
    ) -> Arc<Sender> {
        let counters = self.counters.clone();
        let make = |writer| Some(Arc::new(Sender::new(writer, templates, counters)));
        self.add_socket(opened, None, make).expect("`make` returns a sender")
    }

    fn add_socket(
        &mut self,
        opened: Opened,
        check: Option<Arc<OrderCheck>>,
        make_sender: impl FnOnce(Arc<FrameWriter>) -> Option<Arc<Sender>>,
    ) -> Option<Arc<Sender>> {
        let (read_half, write_half) = opened.stream.into_split();
        let writer = Arc::new(FrameWriter::new(write_half));
        let sender = make_sender(writer.clone());
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = Reader {
            scanner: opened.scanner,
            writer: writer.clone(),
            check,
            sender: sender.clone(),
            counters: self.counters.clone(),
            sampled: writers.len().is_multiple_of(self.sample_every),
        };
        writers.push(writer);
        drop(writers);
        self.tasks.spawn(reader.run(read_half));
        sender
    }

    /// The counters of all readers.
    pub(super) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }
}

struct Reader {
    scanner: FrameScanner,
    writer: Arc<FrameWriter>,
    check: Option<Arc<OrderCheck>>,
    sender: Option<Arc<Sender>>,
    counters: Arc<Counters>,
    sampled: bool,
}

impl Reader {
    async fn run(mut self, mut source: impl AsyncRead + Unpin) {
        let read = |context: &mut Context<'_>| self.poll_read(context, &mut source);
        poll_fn(read).await;
        self.counters.add(Tally::Closed, 1);
    }

    /// Reads until the stream ends. Uses the thread's buffer, and holds none while the socket is
    /// idle.
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
                self.process(bytes.filled());
            }
        })
    }

    fn process(&mut self, bytes: &[u8]) {
        let (mut deliveries, mut acks, mut others, mut now) = (0, 0, 0, None);
        let (mut latencies, mut ack_latencies) = (Vec::new(), Vec::new());
        let (sampled, writer, counters) = (self.sampled, &self.writer, &self.counters);
        let check = self.check.as_deref();
        let mut age = |head: &[u8]| {
            let now = *now.get_or_insert_with(|| counters.epoch().nanos());
            intended_nanos(head).map(|intended| now.saturating_sub(intended))
        };
        self.scanner.feed(bytes, |frame| match frame {
            Frame::Text(head) => match frame_kind(head) {
                FrameKind::Delivery => {
                    deliveries += 1;
                    if let Some(check) = check {
                        check.receive(head);
                    }
                    latencies.extend(sampled.then(|| age(head)).flatten());
                }
                FrameKind::Ack => {
                    acks += 1;
                    ack_latencies.extend(age(head));
                }
                FrameKind::Error => counters.rejected(head),
                FrameKind::Other => others += 1,
            },
            Frame::Ping(payload) => {
                writer.write(|frames| frames.extend(masked_frame(PONG, payload)));
            }
            Frame::Close | Frame::Other => {}
        });
        counters.add(Tally::Deliveries, deliveries);
        counters.add(Tally::Acks, acks);
        counters.add(Tally::OtherFrames, others);
        counters.record(&latencies);
        counters.record_acks(&ack_latencies);
        if acks > 0
            && let Some(sender) = &self.sender
        {
            sender.acknowledged(acks);
        }
    }
}

async fn send_heartbeats(writers: Writers, counters: Arc<Counters>) {
    let frame = masked_frame(TEXT, br#"{"type":"heartbeat"}"#);
    let mut ticks = interval(HEARTBEAT_INTERVAL / HEARTBEAT_SLOTS as u32);
    for slot in (0..HEARTBEAT_SLOTS).cycle() {
        ticks.tick().await;
        let writers = writers.lock().unwrap_or_else(PoisonError::into_inner);
        for writer in writers.iter().skip(slot).step_by(HEARTBEAT_SLOTS) {
            let is_sent = writer.write(|frames| frames.extend(&frame));
            counters.add(Tally::Heartbeats, is_sent.into());
        }
    }
}

/// Reads and discards until the stream ends, with the thread's buffer.
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

/// Open connections that are never read.
#[derive(Debug)]
pub(super) struct StalledSockets {
    _streams: Vec<TcpStream>,
}

impl StalledSockets {
    /// Holds connections open until the value is dropped.
    pub(super) fn hold(opened: Vec<Opened>) -> Self {
        Self { _streams: opened.into_iter().map(|connection| connection.stream).collect() }
    }
}
