//! One task per socket.
//!
//! Every turn polls, in this order: responses, signals of the outbox, a pending verification or
//! admission, the client, room to write, and the timer; then it performs the effects of the
//! session. Everything is polled by hand rather than awaited, so a blocked peer never stops a timer,
//! an expiry, a grace or a drain, and the task of an idle connection holds only the connection.

mod requests;

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use heartline_protocol::limits::CLOSE_WRITE_DEADLINE;
use heartline_protocol::server_frame::ConnectionClosing;
use heartline_protocol::{CloseReason, ServerFrame, encode_server};
use heartline_routing::LeaseKind;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::accept::Ticket;
use crate::closing;
use crate::gateway::Gateway;
use crate::handle::{Handle, Identity};
use crate::hub::Listing;
use crate::outbox::Signal;
use crate::requests::Requests;
use crate::session::replies::slow_consumer;
use crate::session::{
    Admitted, Closing, Counted, Effect, Effects, Input, Moment, PAUSE, Response, Session,
};
use crate::transport::Transport;
use crate::websocket::{FrameReader, Incoming, close_frame, ping_frame, pong_frame, text_frame};
use heartline_auth::{AuthError, Claims};

/// Bytes read from a socket at a time, into a buffer on the stack: an idle connection owns none.
const READ_BYTES: usize = 4096;

/// A running connection.
pub(crate) struct Connection {
    gateway: Arc<Gateway>,
    transport: Transport,
    reader: FrameReader,
    session: Session,
    handle: Arc<Handle>,
    listing: Option<Listing>,
    /// The pending verification of a token, or admission.
    pending: Option<Pin<Box<dyn Future<Output = Pending> + Send>>>,
    /// The pending requests; `None` if there are none.
    requests: Option<Box<Requests>>,
    /// The end of the slow-consumer grace for which the timer is set.
    grace_ends: Option<Instant>,
    timer: Pin<Box<Sleep>>,
    /// The client, for the log line of the end.
    ticket: Ticket,
    frames_received: u64,
}

/// The result of a verification or an admission.
pub(crate) enum Pending {
    Verified(Result<Claims, AuthError>),
    Admitted(Result<(Admitted, Identity), CloseReason>),
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The server closed it.
    Closed(CloseReason),
    /// The client closed it.
    ClientClosed,
    /// The socket broke.
    Lost,
}

/// The facts of an ended connection, for its log line.
pub(crate) struct Leaving {
    pub(crate) handle: Arc<Handle>,
    pub(crate) ticket: Ticket,
    pub(crate) frames_received: u64,
}

impl Ended {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Closed(reason) => reason.as_str(),
            Self::ClientClosed => "client_closed",
            Self::Lost => "connection_lost",
        }
    }
}

enum Event {
    Signal(Signal),
    Pending(Pending),
    Response(Response),
    Read(usize),
    Writable,
    Deadline,
    Broken,
}

impl Connection {
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        transport: Transport,
        reader: FrameReader,
        session: Session,
        handle: Arc<Handle>,
        listing: Listing,
        ticket: Ticket,
    ) -> Self {
        let timer = Box::pin(sleep_until(session.deadline()));
        Self {
            gateway,
            transport,
            reader,
            session,
            handle,
            listing: Some(listing),
            pending: None,
            requests: None,
            grace_ends: None,
            timer,
            ticket,
            frames_received: 0,
        }
    }

    /// Serves the socket until it ends, queues the closing frames and leaves the hub.
    pub(crate) async fn run(&mut self) -> Ended {
        let ended = poll_fn(|context| self.poll_serve(context)).await;
        self.listing = None;
        ended
    }

    /// Writes the last frames and closes TCP, within the deadline.
    pub(crate) async fn finish(&mut self, ended: Ended) {
        if ended == Ended::Lost {
            return self.handle.outbox.seal([]);
        }
        self.timer.as_mut().reset(self.gateway.clock().now() + CLOSE_WRITE_DEADLINE);
        let (outbox, timer) = (&self.handle.outbox, self.timer.as_mut());
        let is_delivered = closing::finish(outbox, &mut self.transport, timer).await;
        if matches!(ended, Ended::Closed(_)) && !is_delivered {
            self.gateway.metrics().signals_undelivered.inc();
        }
    }

    /// Serves the connection until there is a reason to end, and queues the last frames.
    fn poll_serve(&mut self, context: &mut Context<'_>) -> Poll<Ended> {
        loop {
            if self.requests.as_ref().is_some_and(|requests| requests.closing.is_some()) {
                return self.poll_last_responses(context);
            }
            // Bytes that arrived with the upgrade request are already in the reader.
            if let Some(ended) = self.read_messages() {
                return Poll::Ready(ended);
            }
            let effects = match ready!(self.poll_event(context)) {
                Event::Signal(Signal::Stop(reason)) => self.input(Input::Stop(reason)),
                Event::Signal(Signal::Grace(ends)) => {
                    self.grace_ends = ends;
                    Effects::new()
                }
                Event::Signal(Signal::Writable) | Event::Writable => Effects::new(),
                Event::Pending(pending) => self.resolve(pending),
                Event::Response(answer) => self.input(Input::Answered(answer)),
                Event::Read(0) | Event::Broken => return Poll::Ready(Ended::Lost),
                Event::Read(_) => continue,
                Event::Deadline => self.deadline(),
            };
            if let Some(ended) = self.perform(effects) {
                return Poll::Ready(ended);
            }
        }
    }

    /// Performs the first effects of the session, which never end the connection.
    pub(crate) fn begin(&mut self, first: Effects) {
        let ended = self.perform(first);
        debug_assert_eq!(ended, None, "a session does not begin with its end");
    }

    /// The identity, once the connection is admitted.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.handle.identity()
    }

    /// The facts for the log line of the end.
    pub(crate) fn leave(self) -> Leaving {
        let Self { handle, ticket, frames_received, .. } = self;
        Leaving { handle, ticket, frames_received }
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        // Responses come before any write, so that those that are ready together are written
        // together. Their number is bounded by the limit of pending requests.
        if let Poll::Ready(Some(answer)) = self.poll_response(context) {
            return Poll::Ready(Event::Response(answer));
        }
        let outbox = &self.handle.outbox;
        if let Poll::Ready(signal) = outbox.poll_signal(context, self.grace_ends) {
            match signal {
                Signal::Writable if self.poll_write(context).is_err() => {
                    return Poll::Ready(Event::Broken);
                }
                // The flush may have blocked the socket: poll again.
                Signal::Writable => return Poll::Ready(Event::Signal(signal)),
                Signal::Stop(_) | Signal::Grace(_) => {
                    return Poll::Ready(Event::Signal(signal));
                }
            }
        }
        if let Some(pending) = &mut self.pending
            && let Poll::Ready(pending) = pending.as_mut().poll(context)
        {
            self.pending = None;
            return Poll::Ready(Event::Pending(pending));
        }
        if !self.is_paused()
            && let Poll::Ready(read) = self.poll_read(context)
        {
            return Poll::Ready(read.map_or(Event::Broken, Event::Read));
        }
        if self.handle.outbox.is_blocked()
            && let Poll::Ready(writable) = self.transport.poll_writable(context)
        {
            let written = writable.and_then(|()| self.poll_write(context));
            return Poll::Ready(if written.is_ok() { Event::Writable } else { Event::Broken });
        }
        // TLS flushes its encrypted bytes as soon as the socket is writable.
        if let Poll::Ready(Err(_)) = self.transport.poll_flush(context) {
            return Poll::Ready(Event::Broken);
        }
        self.poll_timer(context).map(|()| Event::Deadline)
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut buffer = [0; READ_BYTES];
        let read = ready!(self.transport.poll_read(context, &mut buffer))?;
        self.reader.feed(&buffer[..read]);
        Poll::Ready(Ok(read))
    }

    fn poll_write(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let transport = &mut self.transport;
        self.handle.outbox.flush_with(|slices| transport.write(context, slices))?;
        match transport.poll_flush(context) {
            Poll::Ready(flushed) => flushed,
            // The socket does not accept the encrypted bytes yet; TLS has set its waker.
            Poll::Pending => Ok(()),
        }
    }

    /// Ready at the session's deadline or the end of the grace. The timer is moved only when it
    /// fires or must fire earlier, so a busy connection does not touch it.
    fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let due = self.due();
        if due < self.timer.deadline() || self.timer.is_elapsed() {
            self.timer.as_mut().reset(due);
        }
        self.timer.as_mut().poll(context)
    }

    fn due(&self) -> Instant {
        let session = self.session.deadline();
        self.grace_ends.map_or(session, |grace_ends| grace_ends.min(session))
    }

    fn deadline(&mut self) -> Effects {
        let now = self.gateway.clock().now();
        if let Some(grace_ends) = self.grace_ends.filter(|grace_ends| now >= *grace_ends) {
            if now - grace_ends < PAUSE {
                return self.input(Input::Stop(CloseReason::SlowConsumer));
            }
            self.handle.outbox.restart_grace(now);
            return Effects::new();
        }
        let late = now.saturating_duration_since(self.due());
        self.input(Input::Tick { late, is_paused: self.is_paused() })
    }

    /// Whether reading is paused, because the client does not read its responses.
    fn is_paused(&self) -> bool {
        self.handle.outbox.urgent_frames() >= self.gateway.config().limits.urgent_frames
    }

    /// Stop 2 of the life of a message: read. Passes every complete message to the session.
    fn read_messages(&mut self) -> Option<Ended> {
        while !self.is_paused() {
            let input = match self.reader.next() {
                Ok(None) => return None,
                Ok(Some(Incoming::Close(code))) => return Some(self.reply_to_close(code)),
                Ok(Some(Incoming::Text(text))) => Input::Text(text),
                Ok(Some(Incoming::Binary(_))) => Input::Binary,
                Ok(Some(Incoming::Ping(payload))) => Input::Ping(payload),
                Ok(Some(Incoming::Pong)) => Input::Pong,
                Err(error) => Input::Violation(error),
            };
            self.frames_received += 1;
            self.gateway.metrics().frames_received.inc();
            tracing::trace!(target: "heartline::life", message_stop = 2, "read");
            let effects = self.input(input);
            if let Some(ended) = self.perform(effects) {
                return Some(ended);
            }
        }
        None
    }

    fn input(&mut self, input: Input) -> Effects {
        self.session.on(input, self.moment())
    }

    fn moment(&self) -> Moment {
        let clock = self.gateway.clock();
        Moment { now: clock.now(), wall: clock.wall() }
    }

    fn resolve(&mut self, pending: Pending) -> Effects {
        match pending {
            Pending::Verified(answer) => self.input(Input::Verified(answer)),
            Pending::Admitted(Ok((admitted, identity))) => {
                let listing = self.gateway.establish(&self.handle, identity, &self.ticket);
                self.listing = Some(listing);
                self.input(Input::Admitted(Ok(admitted)))
            }
            Pending::Admitted(Err(reason)) => self.input(Input::Admitted(Err(reason))),
        }
    }

    /// Performs the effects of the session; returns how the connection ended, if it did.
    fn perform(&mut self, effects: Effects) -> Option<Ended> {
        for effect in effects {
            match effect {
                Effect::Send(frame) => self.send(&frame),
                Effect::Ping => self.handle.outbox.push_urgent(ping_frame()),
                Effect::Pong(payload) => self.handle.outbox.push_urgent(pong_frame(&payload)),
                Effect::Verify(token) => self.verify(token),
                Effect::Admit { claims, device_id } => {
                    let gateway = Arc::clone(&self.gateway);
                    let age = self.handle.age(gateway.clock().now());
                    self.pending = Some(Box::pin(async move {
                        let admission =
                            gateway.admit(claims, device_id, age, LeaseKind::Chat).await;
                        Pending::Admitted(admission.map_err(|refused| refused.reason()))
                    }));
                }
                Effect::SendPage(frame) => self.send_page(&frame),
                Effect::Request(request) => self.request(request),
                Effect::Acknowledge(frame) => self.acknowledge(&frame),
                Effect::Type(frame) => self.send_typing(&frame),
                Effect::Count(counted) => self.count(counted),
                Effect::Close(closing) => return self.close_when_answered(closing),
            }
        }
        None
    }

    fn send(&self, frame: &ServerFrame) {
        if matches!(frame, ServerFrame::HeartbeatAck { .. }) {
            self.gateway.metrics().heartbeats.inc();
        }
        let text = encode_server(frame, self.gateway.clock().wall());
        self.handle.outbox.push_urgent(text_frame(&text));
    }

    /// Verifies a token. Most are verified at once; only an unknown key of a JWKS URL is fetched.
    fn verify(&mut self, token: heartline_protocol::Token) {
        let gateway = Arc::clone(&self.gateway);
        self.pending =
            Some(Box::pin(async move { Pending::Verified(gateway.verify(&token).await) }));
    }

    fn count(&self, counted: Counted) {
        let metrics = self.gateway.metrics();
        match counted {
            Counted::UnknownType => &metrics.unknown_types,
            Counted::BadFrame => &metrics.bad_frames,
            Counted::RateLimited => &metrics.rate_limited,
            Counted::Unauthorized => &metrics.auth_failures,
            Counted::Busy => &metrics.requests_busy,
        }
        .inc();
    }

    /// Replies to a Close of the client with its own code.
    fn reply_to_close(&mut self, code: Option<u16>) -> Ended {
        self.handle.outbox.seal([close_frame(code, "")]);
        Ended::ClientClosed
    }

    /// Queues `connection_closing` and the Close frame.
    fn close(&mut self, closing: Closing) -> Ended {
        let Closing { reason, code, reconnect_delay } = closing;
        self.gateway.metrics().closing(reason);
        let frame = ServerFrame::ConnectionClosing(ConnectionClosing {
            reason,
            reconnect_allowed: reason.reconnect_allowed(),
            reconnect_delay_ms: reconnect_delay.as_millis() as u64,
            sync_hints: None,
        });
        let wall = self.gateway.clock().wall();
        let closing = text_frame(&encode_server(&frame, wall));
        let close = close_frame(Some(code), reason.as_str());
        if self.handle.outbox.owes_warning() {
            self.gateway.metrics().slow_consumer_warnings.inc();
            let warning = slow_consumer(self.gateway.config().limits.slow_grace);
            let warning = text_frame(&encode_server(&warning, wall));
            self.handle.outbox.seal([warning, closing, close]);
        } else {
            self.handle.outbox.seal([closing, close]);
        }
        Ended::Closed(reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node has one of these per idle connection: growth must be deliberate.
    #[test]
    fn an_idle_connection_is_small() {
        let sizes = [size_of::<Connection>(), size_of::<Handle>(), size_of::<Session>()];
        assert!(sizes[0] <= 512 && sizes[1] <= 448, "connection, handle, session: {sizes:?}");
    }
}
