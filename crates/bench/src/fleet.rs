//! Light sockets: connections that count what arrives, send heartbeats, and cost next to nothing.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use heartline_protocol::limits::HEARTBEAT_INTERVAL;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::interval;

use super::counters::{Counters, Epoch, Tally};
use super::dial::Opened;
use super::letter::Letter;
use super::record::Record;
use super::sender::Sender;
use super::voice::{PONG, TEXT, Voice, masked_frame};
use super::walker::{Frame, Walker, Word, intended_nanos, word};

/// Into how many groups the heartbeats of an interval are spread.
const HEARTBEAT_SLOTS: usize = 100;

thread_local! {
    /// One buffer per worker thread: a socket that has nothing to say holds no memory.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; 64 * 1024]);
}

/// Connections with a reader each and one task that sends all their heartbeats.
#[derive(Debug)]
pub(super) struct Fleet {
    counters: Arc<Counters>,
    voices: Voices,
    sample_every: usize,
    /// Dropping it ends the tasks, and with them the sockets.
    tasks: JoinSet<()>,
}

type Voices = Arc<Mutex<Vec<Arc<Voice>>>>;

impl Fleet {
    /// A fleet without sockets as yet; every `sample_every`th will also record the latencies of
    /// deliveries.
    pub(super) fn new(epoch: Epoch, sample_every: usize) -> Self {
        let counters = Counters::new(epoch);
        let voices = Voices::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(send_heartbeats(voices.clone(), counters.clone()));
        Self { counters, voices, sample_every, tasks }
    }

    /// Takes in a socket: from now on it is read and sends heartbeats.
    pub(super) fn add(&mut self, opened: Opened) {
        self.take_in(opened, None, |_| None);
    }

    /// Takes in a socket and has what it hears of its chat recorded.
    pub(super) fn add_listener(&mut self, opened: Opened, record: Arc<Record>) {
        self.take_in(opened, Some(record), |_| None);
    }

    /// Takes in a socket that sends these letters in turn, when it is told to.
    pub(super) fn add_sender(&mut self, opened: Opened, letters: Vec<Letter>) -> Arc<Sender> {
        let counters = self.counters.clone();
        let make = |voice| Some(Arc::new(Sender::new(voice, letters, counters)));
        self.take_in(opened, None, make).expect("one was just made")
    }

    fn take_in(
        &mut self,
        opened: Opened,
        record: Option<Arc<Record>>,
        make_sender: impl FnOnce(Arc<Voice>) -> Option<Arc<Sender>>,
    ) -> Option<Arc<Sender>> {
        let (read_half, write_half) = opened.stream.into_split();
        let voice = Arc::new(Voice::new(write_half));
        let sender = make_sender(voice.clone());
        let mut voices = self.voices.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = Reader {
            walker: opened.walker,
            voice: voice.clone(),
            record,
            sender: sender.clone(),
            counters: self.counters.clone(),
            sampled: voices.len().is_multiple_of(self.sample_every),
        };
        voices.push(voice);
        drop(voices);
        self.tasks.spawn(reader.run(read_half));
        sender
    }

    /// What its readers have seen.
    pub(super) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }
}

struct Reader {
    walker: Walker,
    voice: Arc<Voice>,
    record: Option<Arc<Record>>,
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
        let (mut deliveries, mut acks, mut others, mut now) = (0, 0, 0, None);
        let (mut latencies, mut ack_latencies) = (Vec::new(), Vec::new());
        let (sampled, voice, counters) = (self.sampled, &self.voice, &self.counters);
        let record = self.record.as_deref();
        let mut age = |head: &[u8]| {
            let now = *now.get_or_insert_with(|| counters.epoch().nanos());
            intended_nanos(head).map(|intended| now.saturating_sub(intended))
        };
        self.walker.feed(bytes, |frame| match frame {
            Frame::Text(head) => match word(head) {
                Word::Delivery => {
                    deliveries += 1;
                    if let Some(record) = record {
                        record.hear(head);
                    }
                    latencies.extend(sampled.then(|| age(head)).flatten());
                }
                Word::Ack => {
                    acks += 1;
                    ack_latencies.extend(age(head));
                }
                Word::Error => counters.refused(head),
                Word::Other => others += 1,
            },
            Frame::Ping(payload) => {
                voice.say(|frames| frames.extend(masked_frame(PONG, payload)));
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
            sender.answered(acks);
        }
    }
}

async fn send_heartbeats(voices: Voices, counters: Arc<Counters>) {
    let frame = masked_frame(TEXT, br#"{"type":"heartbeat"}"#);
    let mut ticks = interval(HEARTBEAT_INTERVAL / HEARTBEAT_SLOTS as u32);
    for slot in (0..HEARTBEAT_SLOTS).cycle() {
        ticks.tick().await;
        let voices = voices.lock().unwrap_or_else(PoisonError::into_inner);
        for voice in voices.iter().skip(slot).step_by(HEARTBEAT_SLOTS) {
            let is_sent = voice.say(|frames| frames.extend(&frame));
            counters.add(Tally::Heartbeats, is_sent.into());
        }
    }
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
