//! The frames to write to one socket, in two lanes.
//!
//! Any task may queue a frame or write; writes happen under the lock of the outbox and never block,
//! so the bytes of two frames cannot mix. The urgent lane (replies, warnings, the closing) is written
//! before the data lane (pushes), but never inside a frame that is partly written.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use heartline_protocol::CloseReason;
use heartline_protocol::limits::WRITE_BATCH_FRAMES_MAX;
use prometheus_client::metrics::counter::Counter;
use smallvec::SmallVec;
use tokio::time::Instant;

use crate::budget::Budget;
use crate::pressure::{Bounds, Load, Pressure, Verdict};
use crate::sync::Mutex;

/// The queue to one socket.
#[derive(Debug)]
pub struct Outbox {
    bounds: Bounds,
    budget: Arc<Budget>,
    /// Counts the frames of all outboxes that were written.
    frames_sent: Counter,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The rest of a partly written frame, and its lane.
    half_written: Option<(Bytes, Lane)>,
    urgent: VecDeque<Bytes>,
    data: VecDeque<Bytes>,
    /// The load of the data lane, including its partly written frame.
    load: Load,
    pressure: Pressure,
    /// Set once; from then on the data lane accepts nothing.
    stop: Option<CloseReason>,
    sealed: bool,
    /// The hard cap was reached before the client was warned: the close sends the warning.
    owes_warning: bool,
    /// The bytes charged to the budget.
    charged_bytes: usize,
    /// Frames were queued since the last flush, by a caller that will flush.
    touched: bool,
    /// The socket blocked at the last flush; only the connection's task writes on, once it can.
    blocked: bool,
    /// The connection's task, to be woken when there is something for it to do.
    waker: Option<Waker>,
    tally: Tally,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    Urgent,
    Data,
}

/// The counts of an outbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames written completely.
    pub frames_written: u64,
    /// Data frames dropped by the close.
    pub frames_dropped: u64,
    /// The largest number of data frames that were pending at once.
    pub peak_messages: usize,
}

/// The result of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pushed {
    /// The verdict of the slow-consumer rule.
    pub verdict: Verdict,
    /// True for the first frame since the last flush: the caller must flush once.
    pub first: bool,
}

/// The result of a write that was attempted at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivered {
    /// The frame is written.
    Written,
    /// The frame, or the rest of it, is queued: the connection's task must be woken.
    Queued(Pushed),
}

/// The result of a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushed {
    /// Everything is written.
    All,
    /// The socket blocks: wait until it is writable.
    Blocked,
}

impl Outbox {
    /// An empty outbox that charges its bytes to the node's budget.
    pub fn new(bounds: Bounds, budget: Arc<Budget>, frames_sent: Counter) -> Self {
        Self { bounds, budget, frames_sent, inner: Mutex::new(Inner::default()) }
    }

    /// Queues a frame. `None` if the connection is closing and accepts no more data. Nothing is
    /// written until [`flush_with`](Self::flush_with).
    pub fn push(&self, frame: &Bytes, now: Instant) -> Option<Pushed> {
        let mut inner = self.inner.lock();
        if !inner.accepts_data() {
            return None;
        }
        inner.data.push_back(frame.clone());
        Some(self.grown(&mut inner, frame.len(), now))
    }

    /// Writes a frame at once if the outbox is empty, with a write that must not block. If the outbox
    /// is not empty or the socket blocks, queues the rest as [`push`](Self::push) does.
    pub fn write_or_push(
        &self,
        frame: &Bytes,
        now: Instant,
        write: impl FnOnce(&[u8]) -> io::Result<usize>,
    ) -> Option<Delivered> {
        let mut inner = self.inner.lock();
        if !inner.accepts_data() {
            return None;
        }
        if !inner.is_empty() || inner.blocked {
            inner.data.push_back(frame.clone());
            return Some(Delivered::Queued(self.grown(&mut inner, frame.len(), now)));
        }
        let written = match write(frame) {
            Ok(written) if written == frame.len() => {
                inner.tally.frames_written += 1;
                self.frames_sent.inc();
                return Some(Delivered::Written);
            }
            Ok(written) => written,
            // The connection's task meets any other error at its next write.
            Err(_) => 0,
        };
        let rest = frame.slice(written..);
        let length = rest.len();
        if written == 0 {
            inner.data.push_back(rest);
        } else {
            inner.half_written = Some((rest, Lane::Data));
        }
        inner.blocked = true;
        Some(Delivered::Queued(self.grown(&mut inner, length, now)))
    }

    /// Updates the load for one more data frame of so many bytes.
    fn grown(&self, inner: &mut Inner, bytes: usize, now: Instant) -> Pushed {
        inner.load.messages += 1;
        inner.load.bytes += bytes;
        inner.tally.peak_messages = inner.tally.peak_messages.max(inner.load.messages);
        let verdict = inner.pressure.grew(inner.load, &self.bounds, now);
        if let Verdict::Close { warned } = verdict {
            inner.stop = Some(CloseReason::SlowConsumer);
            inner.owes_warning = !warned;
        }
        if inner.blocked {
            // No flush follows that could charge the budget.
            self.charge(inner);
        }
        Pushed { verdict, first: !std::mem::replace(&mut inner.touched, true) }
    }

    /// Queues a reply or a signal ahead of all data. The session bounds how many there are: it
    /// stops reading while [`urgent_frames`](Self::urgent_frames) is at the limit.
    pub fn push_urgent(&self, frame: Bytes) {
        let mut inner = self.inner.lock();
        if !inner.sealed {
            inner.urgent.push_back(frame);
        }
    }

    /// Frames waiting in the urgent lane.
    pub fn urgent_frames(&self) -> usize {
        self.inner.lock().urgent.len()
    }

    /// Whether the connection accepts no more data.
    pub(crate) fn is_closing(&self) -> bool {
        !self.inner.lock().accepts_data()
    }

    /// Asks the connection's task to close. The first reason stands.
    pub fn stop(&self, reason: CloseReason) {
        let waker = {
            let mut inner = self.inner.lock();
            inner.stop.get_or_insert(reason);
            inner.waker.take()
        };
        wake(waker);
    }

    /// Drops the data lane and queues the last frames; nothing can be queued after them.
    pub fn seal(&self, last: impl IntoIterator<Item = Bytes>) {
        let mut inner = self.inner.lock();
        inner.urgent.extend(last);
        inner.sealed = true;
        inner.tally.frames_dropped += inner.data.len() as u64;
        inner.data = VecDeque::new();
        inner.load = match &inner.half_written {
            Some((rest, Lane::Data)) => Load { messages: 1, bytes: rest.len() },
            Some((_, Lane::Urgent)) | None => Load::default(),
        };
        self.charge(&mut inner);
    }

    /// Writes the queued frames, urgent first, with a vectored write that must not block. Shared
    /// bytes are written in place; nothing is copied.
    pub fn flush_with(
        &self,
        mut write: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<Flushed> {
        let mut inner = self.inner.lock();
        inner.touched = false;
        let written_before = inner.tally.frames_written;
        let flushed = loop {
            let slices = inner.slices();
            if slices.is_empty() {
                break Ok(Flushed::All);
            }
            match write(&slices) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    drop(slices);
                    inner.written(written);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    break Ok(Flushed::Blocked);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.frames_sent.inc_by(inner.tally.frames_written - written_before);
        inner.blocked = matches!(flushed, Ok(Flushed::Blocked));
        let load = inner.load;
        inner.pressure.shrank(load, &self.bounds);
        inner.shrink_when_idle();
        self.charge(&mut inner);
        flushed
    }

    /// Wakes the connection's task, so that it flushes or notices a signal.
    pub fn wake(&self) {
        let waker = self.inner.lock().waker.take();
        wake(waker);
    }

    /// Ready when the connection's task must stop, must write to a writable socket, or does not know
    /// of the present grace.
    pub(crate) fn poll_signal(
        &self,
        context: &mut Context<'_>,
        known_grace: Option<Instant>,
    ) -> Poll<Signal> {
        let mut inner = self.inner.lock();
        let grace_ends = inner.pressure.grace_ends();
        if let Some(reason) = inner.stop {
            return Poll::Ready(Signal::Stop(reason));
        }
        if grace_ends != known_grace {
            return Poll::Ready(Signal::Grace(grace_ends));
        }
        if !inner.blocked && !inner.is_empty() {
            return Poll::Ready(Signal::Writable);
        }
        inner.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Restarts a running grace, because the process itself was paused meanwhile.
    pub(crate) fn restart_grace(&self, now: Instant) {
        self.inner.lock().pressure.restart_grace(&self.bounds, now);
    }

    /// Whether the connection was stopped as a slow consumer before it was warned.
    pub(crate) fn owes_warning(&self) -> bool {
        self.inner.lock().owes_warning
    }

    /// Whether the socket blocked at the last flush.
    pub fn is_blocked(&self) -> bool {
        self.inner.lock().blocked
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.inner.lock().is_empty()
    }

    /// How full the data lane is.
    pub fn load(&self) -> Load {
        self.inner.lock().load
    }

    /// The counts so far.
    pub fn tally(&self) -> Tally {
        self.inner.lock().tally
    }

    /// Charges the present load to the budget.
    fn charge(&self, inner: &mut Inner) {
        self.budget.change(inner.charged_bytes, inner.load.bytes);
        inner.charged_bytes = inner.load.bytes;
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.budget.change(self.inner.lock().charged_bytes, 0);
    }
}

/// A signal to the connection's task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Close for this reason.
    Stop(CloseReason),
    /// The end of the slow consumer's grace changed.
    Grace(Option<Instant>),
    /// Flush.
    Writable,
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

// === impl Inner ===

impl Inner {
    /// Whether data is accepted; counts a frame that is not.
    fn accepts_data(&mut self) -> bool {
        let takes = self.stop.is_none() && !self.sealed;
        self.tally.frames_dropped += u64::from(!takes);
        takes
    }

    fn is_empty(&self) -> bool {
        self.half_written.is_none() && self.urgent.is_empty() && self.data.is_empty()
    }

    /// The next frames in the order in which they are written.
    fn slices(&self) -> SmallVec<[IoSlice<'_>; WRITE_BATCH_FRAMES_MAX]> {
        let half_written = self.half_written.iter().map(|(rest, _)| rest);
        let frames = half_written.chain(&self.urgent).chain(&self.data);
        frames.take(WRITE_BATCH_FRAMES_MAX).map(|frame| IoSlice::new(frame)).collect()
    }

    /// Removes `count` bytes from the front, in the same order as [`slices`](Self::slices).
    fn written(&mut self, mut count: usize) {
        while count > 0 {
            let (mut frame, lane) = self.take_next().expect("no more was written than pending");
            if lane == Lane::Data {
                self.load.bytes -= count.min(frame.len());
            }
            if count < frame.len() {
                frame.advance(count);
                self.half_written = Some((frame, lane));
                return;
            }
            count -= frame.len();
            self.tally.frames_written += 1;
            self.load.messages -= usize::from(lane == Lane::Data);
        }
    }

    fn take_next(&mut self) -> Option<(Bytes, Lane)> {
        let urgent = &mut self.urgent;
        let data = &mut self.data;
        self.half_written
            .take()
            .or_else(|| urgent.pop_front().map(|frame| (frame, Lane::Urgent)))
            .or_else(|| data.pop_front().map(|frame| (frame, Lane::Data)))
    }

    /// Frees the capacity that a burst needed.
    fn shrink_when_idle(&mut self) {
        const KEPT: usize = 8;
        for lane in [&mut self.urgent, &mut self.data] {
            if lane.is_empty() && lane.capacity() > KEPT {
                *lane = VecDeque::new();
            }
        }
    }
}

#[cfg(test)]
#[cfg(feature = "model")]
mod model;
#[cfg(test)]
mod tests;
