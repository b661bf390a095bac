//! The outbox under a model checker, which tries the orders in which threads can take its lock.
//!
//! The connection's task, the producers and the slow peer are modelled as they are in
//! [`crate::connection`], [`crate::hub`] and [`crate::handle`]. A lost wake-up leaves them all
//! waiting for each other, which the checker reports as a deadlock.

use std::future::poll_fn;

use heartline_runtime::Clock;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Condvar;
use shuttle::thread::{self, JoinHandle};

use super::*;

const LAST_WORDS: &[u8] = &[LAST, 0, 0, 0];
const DATA: u8 = 0;
const URGENT: u8 = 1;
const WARNING: u8 = 2;
const LAST: u8 = 3;

const PRODUCERS: u8 = 2;
const DATA_FRAMES: u8 = 3;
const URGENT_FRAMES: u8 = 2;

/// Bounds that a scenario reaches only on purpose.
const WIDE: Bounds = Bounds { messages: 1000, bytes: 100_000, grace: std::time::Duration::MAX };

/// Four frames of [`SLOW_FRAME_BYTES`] are slow, the fifth is at the cap.
const TIGHT: Bounds = Bounds { messages: 1000, bytes: 100, grace: std::time::Duration::ZERO };
const SLOW_FRAME_BYTES: usize = 24;

// === The tests ===

/// The number of schedules, for each strategy; `MODEL_SCHEDULES` sets another number.
fn schedules() -> usize {
    let asked = std::env::var("MODEL_SCHEDULES").ok().and_then(|number| number.parse().ok());
    asked.unwrap_or(2000)
}

fn explore(scenario: fn()) {
    shuttle::check_random(scenario, schedules());
    shuttle::check_pct(scenario, schedules(), 4);
}

#[test]
fn everything_that_is_queued_arrives() {
    explore(|| everything_arrives(Care::Wakes));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_missing_wake_up_is_found() {
    shuttle::check_random(|| everything_arrives(Care::ForgetsToWake), 20_000);
}

#[test]
fn a_stop_at_any_moment_keeps_the_order_and_is_written_last() {
    explore(|| {
        let (outbox, socket) = start(WIDE);
        let mut threads = produce(&outbox, &socket, Care::Wakes);
        let stopped = Arc::clone(&outbox);
        threads.push(thread::spawn(move || stopped.stop(CloseReason::ServerShutdown)));
        let task = connect(&outbox, &socket);
        let peer = read_all(&socket);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(task.join().unwrap(), CloseReason::ServerShutdown);
        peer.join().unwrap();
        check(&outbox, &socket, PRODUCERS * DATA_FRAMES);
    });
}

#[test]
fn a_stalled_peer_is_detected_by_its_grace() {
    explore(|| a_peer_stalls(2));
}

#[test]
fn a_stalled_peer_is_detected_at_the_cap() {
    explore(|| a_peer_stalls(3));
}

fn a_peer_stalls(frames: u8) {
    let (outbox, socket) = start(TIGHT);
    socket.state.lock().room = 0;
    let task = connect(&outbox, &socket);
    let producer = |producer| {
        let (outbox, socket) = (Arc::clone(&outbox), Arc::clone(&socket));
        thread::spawn(move || {
            for number in 0..frames {
                let frame = frame(DATA, producer, number, SLOW_FRAME_BYTES - 4);
                deliver(&outbox, &socket, &frame, Care::Wakes);
            }
        })
    };
    let producers: Vec<_> = (0..PRODUCERS).map(producer).collect();
    // Nothing is read until the connection is closing: only the outbox can cause that.
    socket.wait_until(|state| state.is_sealed);
    let peer = read_all(&socket);
    producers.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(task.join().unwrap(), CloseReason::SlowConsumer);
    peer.join().unwrap();
    let heard = check(&outbox, &socket, PRODUCERS * frames);
    // A grace of no length may end before its warning is queued.
    assert!(heard.iter().filter(|frame| frame.lane == WARNING).count() <= 1);
}

fn everything_arrives(care: Care) {
    let (outbox, socket) = start(WIDE);
    let producers = produce(&outbox, &socket, care);
    let task = connect(&outbox, &socket);
    let peer = read_all(&socket);
    producers.into_iter().for_each(|thread| thread.join().unwrap());
    let all = usize::from(PRODUCERS * DATA_FRAMES + URGENT_FRAMES);
    socket.wait_until(|state| parse(&state.received).0.len() == all);
    assert_eq!(outbox.load(), Load::default());
    assert_eq!(outbox.budget.used(), 0);
    outbox.stop(CloseReason::SessionEnded);
    assert_eq!(task.join().unwrap(), CloseReason::SessionEnded);
    peer.join().unwrap();
    assert_eq!(check(&outbox, &socket, PRODUCERS * DATA_FRAMES).len(), all + 1);
    assert_eq!(outbox.tally().frames_dropped, 0);
}

// === The connection's task, as in `connection.rs` ===

/// Runs the connection until it has closed; returns the reason.
fn connect(outbox: &Arc<Outbox>, socket: &Arc<Socket>) -> JoinHandle<CloseReason> {
    let (outbox, socket) = (Arc::clone(outbox), Arc::clone(socket));
    thread::spawn(move || {
        shuttle::future::block_on(async {
            let mut known_grace = None;
            let reason = loop {
                let event = poll_fn(|context| poll_event(&outbox, &socket, context, known_grace));
                match event.await {
                    Signal::Stop(reason) => break reason,
                    Signal::Grace(grace_ends) => known_grace = grace_ends,
                    Signal::Writable => {}
                }
                // The timer: the only grace that ends in a model is one of no length.
                if known_grace.is_some() {
                    break CloseReason::SlowConsumer;
                }
            };
            outbox.seal([Bytes::from_static(LAST_WORDS)]);
            socket.change(|state| state.is_sealed = true);
            poll_fn(|context| poll_last_frames(&outbox, &socket, context)).await;
            socket.change(|state| state.is_ended = true);
            reason
        })
    })
}

fn poll_event(
    outbox: &Outbox,
    socket: &Socket,
    context: &mut Context<'_>,
    known_grace: Option<Instant>,
) -> Poll<Signal> {
    if let Poll::Ready(signal) = outbox.poll_signal(context, known_grace) {
        if signal == Signal::Writable {
            outbox.flush_with(|slices| socket.write(slices)).unwrap();
        }
        return Poll::Ready(signal);
    }
    if outbox.is_blocked() && socket.poll_writable(context).is_ready() {
        outbox.flush_with(|slices| socket.write(slices)).unwrap();
        return Poll::Ready(Signal::Writable);
    }
    Poll::Pending
}

fn poll_last_frames(outbox: &Outbox, socket: &Socket, context: &mut Context<'_>) -> Poll<()> {
    while outbox.flush_with(|slices| socket.write(slices)).unwrap() == Flushed::Blocked {
        std::task::ready!(socket.poll_writable(context));
    }
    Poll::Ready(())
}

// === The producers, as in `hub.rs` and `handle.rs` ===

/// Whether a producer whose flush was blocked wakes the task, as it must.
#[derive(Clone, Copy, PartialEq)]
enum Care {
    Wakes,
    ForgetsToWake,
}

fn produce(outbox: &Arc<Outbox>, socket: &Arc<Socket>, care: Care) -> Vec<JoinHandle<()>> {
    let of_data = (0..PRODUCERS).map(|producer| {
        let (outbox, socket) = (Arc::clone(outbox), Arc::clone(socket));
        thread::spawn(move || {
            for number in 0..DATA_FRAMES {
                deliver(&outbox, &socket, &random_frame(DATA, producer, number), care);
            }
        })
    });
    let mut threads: Vec<_> = of_data.collect();
    let (outbox, socket) = (Arc::clone(outbox), Arc::clone(socket));
    threads.push(thread::spawn(move || {
        for number in 0..URGENT_FRAMES {
            outbox.push_urgent(random_frame(URGENT, 0, number));
            // Without a plain socket only the task can write.
            if thread_rng().gen_bool(0.5) {
                flush(&outbox, &socket, care);
            } else {
                outbox.wake();
            }
        }
    }));
    threads
}

/// A lone frame is written at once if it can be; one of several waits for its batch's flush.
fn deliver(outbox: &Outbox, socket: &Socket, frame: &Bytes, care: Care) {
    let now = Clock::system().now();
    if thread_rng().gen_bool(0.5) {
        let write = |bytes: &[u8]| socket.write(&[IoSlice::new(bytes)]);
        if let Some(Delivered::Queued(pushed)) = outbox.write_or_push(frame, now, write) {
            press(outbox, pushed.verdict);
            if pushed.first && care == Care::Wakes {
                outbox.wake();
            }
        }
    } else if let Some(pushed) = outbox.push(frame, now) {
        press(outbox, pushed.verdict);
        if pushed.first {
            flush(outbox, socket, care);
        }
    }
}

fn press(outbox: &Outbox, verdict: Verdict) {
    if verdict == Verdict::Slow {
        outbox.push_urgent(Bytes::from_static(&[WARNING, 0, 0, 0]));
    }
    if let Verdict::Slow | Verdict::Close { .. } = verdict {
        outbox.wake();
    }
}

fn flush(outbox: &Outbox, socket: &Socket, care: Care) {
    if outbox.is_blocked() {
        return;
    }
    let flushed = outbox.flush_with(|slices| socket.write(slices)).unwrap();
    if flushed == Flushed::Blocked && care == Care::Wakes {
        outbox.wake();
    }
}

// === The socket and its peer ===

/// A socket that accepts a few bytes at a time, and a peer that reads at any time.
struct Socket {
    state: Mutex<SocketState>,
    changed: Condvar,
}

#[derive(Default)]
struct SocketState {
    received: Vec<u8>,
    /// Bytes that the socket accepts before it blocks.
    room: usize,
    waker: Option<Waker>,
    is_sealed: bool,
    is_ended: bool,
}

impl Socket {
    fn write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.state.lock();
        if state.room == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = thread_rng().gen_range(1..=state.room);
        let before = state.received.len();
        let bytes = slices.iter().flat_map(|slice| slice.iter().copied());
        state.received.extend(bytes.take(taken));
        let written = state.received.len() - before;
        state.room -= written;
        self.changed.notify_all();
        Ok(written)
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.room > 0 {
            return Poll::Ready(());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }

    fn change(&self, change: impl FnOnce(&mut SocketState)) {
        change(&mut self.state.lock());
        self.changed.notify_all();
    }

    fn wait_until(&self, holds: impl Fn(&SocketState) -> bool) {
        let mut state = self.state.lock();
        while !holds(&state) {
            state = self.changed.wait(state).unwrap();
        }
    }
}

fn start(bounds: Bounds) -> (Arc<Outbox>, Arc<Socket>) {
    let budget = Arc::new(Budget::new(1_000_000));
    let outbox = Arc::new(Outbox::new(bounds, budget, Counter::default()));
    let room = thread_rng().gen_range(0..4);
    let state = Mutex::new(SocketState { room, ..SocketState::default() });
    (outbox, Arc::new(Socket { state, changed: Condvar::new() }))
}

/// A peer that makes room whenever there is none, until the connection has ended.
fn read_all(socket: &Arc<Socket>) -> JoinHandle<()> {
    let socket = Arc::clone(socket);
    thread::spawn(move || {
        loop {
            socket.wait_until(|state| state.is_ended || state.room == 0);
            let mut state = socket.state.lock();
            if state.is_ended {
                return;
            }
            state.room = thread_rng().gen_range(1..24);
            let waker = state.waker.take();
            drop(state);
            wake(waker);
        }
    })
}

// === The received frames ===

#[derive(Debug)]
struct Heard {
    lane: u8,
    producer: u8,
    number: u8,
}

/// A frame is its lane, its producer, its number, and padding of the given size.
fn frame(lane: u8, producer: u8, number: u8, size: usize) -> Bytes {
    let mut bytes = vec![lane, producer, number, size as u8];
    bytes.resize(4 + size, b'.');
    bytes.into()
}

fn random_frame(lane: u8, producer: u8, number: u8) -> Bytes {
    frame(lane, producer, number, thread_rng().gen_range(0..5))
}

/// The whole frames at the front, and the rest.
fn parse(mut bytes: &[u8]) -> (Vec<Heard>, &[u8]) {
    let mut heard = Vec::new();
    while let &[lane, producer, number, size, ref after @ ..] = bytes {
        let Some((filling, rest)) = after.split_at_checked(usize::from(size)) else { break };
        assert!(filling.iter().all(|byte| *byte == b'.'), "a frame was cut by another");
        heard.push(Heard { lane, producer, number });
        bytes = rest;
    }
    (heard, bytes)
}

/// Checks the invariants at the end of every scenario.
fn check(outbox: &Outbox, socket: &Socket, data_frames: u8) -> Vec<Heard> {
    let state = socket.state.lock();
    let (heard, rest) = parse(&state.received);
    assert!(rest.is_empty(), "the last frame is whole");
    let last_words = heard.iter().position(|frame| frame.lane == LAST);
    assert_eq!(last_words, Some(heard.len() - 1), "nothing follows the last frames");
    for (lane, producers) in [(DATA, PRODUCERS), (URGENT, 1)] {
        for producer in 0..producers {
            let of_producer = |frame: &&Heard| frame.lane == lane && frame.producer == producer;
            let numbers = heard.iter().filter(of_producer).map(|frame| frame.number);
            assert!(numbers.eq(0..heard.iter().filter(of_producer).count() as u8), "in order");
        }
    }
    let data = heard.iter().filter(|frame| frame.lane == DATA).count() as u64;
    let all = data + outbox.tally().frames_dropped;
    assert_eq!(all, u64::from(data_frames), "each is written, or counted as dropped");
    assert!(outbox.is_empty());
    assert_eq!((outbox.load(), outbox.budget.used()), (Load::default(), 0));
    heard
}
