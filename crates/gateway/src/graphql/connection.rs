//! The task of one GraphQL socket.
//!
//! Operations are polled for results only while the socket accepts writes. A client that reads slowly
//! therefore delays its own subscriptions, which replace pending events by one snapshot. Only a
//! socket that accepts nothing at all is closed.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::StreamExt;
use futures_util::future::{AbortHandle, BoxFuture};
use futures_util::stream::{BoxStream, SelectAll, abortable, once};
use heartline_protocol::CloseReason;
use heartline_protocol::limits::CLOSE_WRITE_DEADLINE;
use heartline_runtime::Map;
use tokio::time::{Instant, Sleep, sleep_until};

use super::conversation::{Conversation, Effect, GraphQlClose};
use super::{GraphQl, GraphQlCaller, GraphQlRequest, Reply};
use crate::closing;
use crate::connection::Ended;
use crate::gateway::Gateway;
use crate::handle::{Handle, Identity};
use crate::hub::Listing;
use crate::outbox::{Flushed, Signal};
use crate::transport::Transport;
use crate::websocket::{FrameReader, Incoming, close_frame, ping_frame, pong_frame, text_frame};

/// Bytes read from a socket at a time.
const READ_BYTES: usize = 16 * 1024;

/// Pending bytes from which on operations are not polled.
const WAITING_BYTES: usize = 64 * 1024;

/// A reply of an operation, or its end. A client may reuse an id after it has completed the
/// operation, so a serial number distinguishes operations.
struct OperationEvent {
    id: String,
    serial: u64,
    reply: Option<Reply>,
}

/// A pending operation.
struct Running {
    serial: u64,
    handle: AbortHandle,
    /// The bytes of its request until the first reply.
    request_bytes: usize,
}

/// The result of a `connection_init`.
pub(super) struct Admitted {
    pub(super) identity: Option<Identity>,
    pub(super) expires_at: Option<Instant>,
    pub(super) caller: Arc<dyn GraphQlCaller>,
}

/// A running GraphQL socket.
pub(super) struct GraphQlConnection {
    pub(super) gateway: Arc<Gateway>,
    pub(super) service: Arc<dyn GraphQl>,
    pub(super) transport: Transport,
    pub(super) reader: FrameReader,
    pub(super) conversation: Conversation,
    pub(super) handle: Arc<Handle>,
    pub(super) listing: Option<Listing>,
    pub(super) caller: Option<Arc<dyn GraphQlCaller>>,
    pub(super) frames_received: u64,
    initialising: Option<BoxFuture<'static, Result<Admitted, CloseReason>>>,
    answers: SelectAll<BoxStream<'static, OperationEvent>>,
    operations: Map<String, Running>,
    operations_started: u64,
    /// Bytes of requests that have not been answered.
    unanswered_bytes: usize,
    /// Bytes of the reader and of these requests that are charged to the budget.
    charged_bytes: usize,
    timer: Pin<Box<Sleep>>,
}

enum Event {
    Stop(CloseReason),
    Initialised(Result<Admitted, CloseReason>),
    OperationEvent(OperationEvent),
    Read(usize),
    Written,
    Deadline,
    Broken,
}

impl GraphQlConnection {
    pub(super) fn new(
        gateway: Arc<Gateway>,
        service: Arc<dyn GraphQl>,
        transport: Transport,
        reader: FrameReader,
        handle: Arc<Handle>,
        listing: Listing,
    ) -> Self {
        let now = gateway.clock().now();
        let lifetime = gateway.config().lifetime(gateway.random().draw());
        let conversation = Conversation::new(gateway.config().graphql, lifetime, now);
        Self {
            service,
            transport,
            reader,
            timer: Box::pin(sleep_until(conversation.deadline())),
            conversation,
            handle,
            listing: Some(listing),
            caller: None,
            frames_received: 0,
            initialising: None,
            answers: SelectAll::new(),
            operations: Map::default(),
            operations_started: 0,
            unanswered_bytes: 0,
            charged_bytes: 0,
            gateway,
        }
    }

    /// Serves the socket until it ends, and queues the Close frame.
    pub(super) async fn run(&mut self) -> Ended {
        let ended = poll_fn(|context| self.poll_conversation(context)).await;
        self.answers.clear();
        self.listing = None;
        ended
    }

    /// Closes the socket before it was used.
    pub(super) fn refuse(&mut self, close: &GraphQlClose) -> Ended {
        self.listing = None;
        self.close(close)
    }

    /// Writes the last frames and closes TCP, within the deadline.
    pub(super) async fn finish(&mut self, ended: Ended) {
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

    fn poll_conversation(&mut self, context: &mut Context<'_>) -> Poll<Ended> {
        loop {
            if let Some(ended) = self.read_messages() {
                return Poll::Ready(ended);
            }
            let ended = match ready!(self.poll_event(context)) {
                Event::Stop(reason) => Some(self.close(&GraphQlClose::of(reason))),
                Event::Initialised(admission) => self.initialised(admission),
                Event::OperationEvent(answer) => self.answered(answer),
                Event::Read(0) | Event::Broken => Some(Ended::Lost),
                Event::Read(_) | Event::Written => None,
                Event::Deadline => {
                    let effect = self.conversation.tick(self.gateway.clock().now());
                    effect.and_then(|effect| self.perform(effect, 0))
                }
            };
            if let Some(ended) = ended {
                return Poll::Ready(ended);
            }
        }
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        // Replies come first, so that those that are ready together are written together.
        if let Poll::Ready(answer) = self.poll_response(context) {
            return Poll::Ready(Event::OperationEvent(answer));
        }
        match self.handle.outbox.poll_signal(context, None) {
            Poll::Ready(Signal::Stop(reason)) => return Poll::Ready(Event::Stop(reason)),
            Poll::Ready(Signal::Writable | Signal::Grace(_)) => {
                return Poll::Ready(self.write(context));
            }
            Poll::Pending => {}
        }
        if let Some(initialising) = &mut self.initialising
            && let Poll::Ready(admission) = initialising.as_mut().poll(context)
        {
            self.initialising = None;
            return Poll::Ready(Event::Initialised(admission));
        }
        if !self.is_behind()
            && !self.is_busy()
            && let Poll::Ready(read) = self.poll_read(context)
        {
            return Poll::Ready(read.map_or(Event::Broken, Event::Read));
        }
        if self.handle.outbox.is_blocked()
            && let Poll::Ready(writable) = self.transport.poll_writable(context)
        {
            return Poll::Ready(match writable {
                Ok(()) => self.write(context),
                Err(_) => Event::Broken,
            });
        }
        if let Poll::Ready(Err(_)) = self.transport.poll_flush(context) {
            return Poll::Ready(Event::Broken);
        }
        let due = self.conversation.deadline();
        if due < self.timer.deadline() || self.timer.is_elapsed() {
            self.timer.as_mut().reset(due);
        }
        self.timer.as_mut().poll(context).map(|()| Event::Deadline)
    }

    /// The next reply of an operation, unless too many bytes are pending.
    fn poll_response(&mut self, context: &mut Context<'_>) -> Poll<OperationEvent> {
        if self.is_behind() {
            return Poll::Pending;
        }
        match self.answers.poll_next_unpin(context) {
            Poll::Ready(Some(answer)) => Poll::Ready(answer),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    /// Whether requests must be answered before more is read.
    fn is_busy(&self) -> bool {
        self.unanswered_bytes >= self.gateway.config().graphql.message_bytes
    }

    /// Whether pending bytes must be written before more is read or polled.
    fn is_behind(&self) -> bool {
        let limit = self.gateway.config().limits.urgent_frames;
        self.handle.outbox.load().bytes >= WAITING_BYTES
            || self.handle.outbox.urgent_frames() >= limit
    }

    /// Stop 17 of the life of a party edit: written.
    fn write(&mut self, context: &mut Context<'_>) -> Event {
        tracing::trace!(target: "heartline::life", party_stop = 17, "written");
        let transport = &mut self.transport;
        let flushed = self.handle.outbox.flush_with(|slices| transport.write(context, slices));
        let is_blocked = matches!(flushed, Ok(Flushed::Blocked));
        let waiting = self.handle.outbox.load().bytes;
        self.conversation.written(is_blocked, waiting, self.gateway.clock().now());
        match flushed {
            Ok(_) => Event::Written,
            Err(_) => Event::Broken,
        }
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut buffer = [0; READ_BYTES];
        let read = ready!(self.transport.poll_read(context, &mut buffer))?;
        self.reader.feed(&buffer[..read]);
        self.charge();
        self.conversation.record_activity(self.gateway.clock().now());
        Poll::Ready(Ok(read))
    }

    /// Charges the bytes held to the budget.
    fn charge(&mut self) {
        let held = self.reader.buffered() + self.unanswered_bytes;
        self.gateway.budget().change(self.charged_bytes, held);
        self.charged_bytes = held;
    }

    /// Stop 1 of the life of a party edit: read. Passes every complete message to the conversation.
    fn read_messages(&mut self) -> Option<Ended> {
        while !self.is_behind() && !self.is_busy() {
            let mut bytes = 0;
            let effect = match self.reader.next() {
                Ok(None) => return None,
                Ok(Some(Incoming::Close(code))) => {
                    self.handle.outbox.seal([close_frame(code, "")]);
                    return Some(Ended::ClientClosed);
                }
                Ok(Some(Incoming::Text(text))) => {
                    bytes = text.len();
                    tracing::trace!(target: "heartline::life", party_stop = 1, "read");
                    self.conversation.text(&text)
                }
                Ok(Some(Incoming::Binary(_))) => Some(self.conversation.binary()),
                Ok(Some(Incoming::Ping(payload))) => {
                    self.handle.outbox.push_urgent(pong_frame(&payload));
                    None
                }
                Ok(Some(Incoming::Pong)) => None,
                Err(error) => Some(Effect::Close(error.into())),
            };
            self.frames_received += 1;
            self.gateway.metrics().frames_received.inc();
            if let Some(ended) = effect.and_then(|effect| self.perform(effect, bytes)) {
                return Some(ended);
            }
        }
        None
    }

    /// Performs the effect of a frame of so many bytes.
    fn perform(&mut self, effect: Effect, bytes: usize) -> Option<Ended> {
        match effect {
            Effect::Send(text) => self.handle.outbox.push_urgent(text_frame(&text)),
            Effect::Ping => self.handle.outbox.push_urgent(ping_frame()),
            Effect::Initialise(token) => {
                let age = self.handle.age(self.gateway.clock().now());
                let service = Arc::clone(&self.service);
                let gateway = Arc::clone(&self.gateway);
                let admission = async move { gateway.admit_graphql(&*service, token, age).await };
                self.initialising = Some(Box::pin(admission));
            }
            Effect::Start { id, request } => self.start(id, *request, bytes),
            Effect::Stop { id } => {
                if let Some(stopped) = self.operations.remove(&id) {
                    stopped.handle.abort();
                    self.release(stopped.request_bytes);
                }
            }
            Effect::Close(close) => return Some(self.close(&close)),
        }
        None
    }

    /// Stop 3 of the life of a party edit: started. Its replies are polled with those of all
    /// others.
    fn start(&mut self, id: String, request: GraphQlRequest, request_bytes: usize) {
        let Some(caller) = &self.caller else { return };
        tracing::trace!(target: "heartline::life", party_stop = 3, "started");
        let (replies, handle) = abortable(caller.run(request));
        let serial = self.operations_started;
        self.operations_started += 1;
        let running = Running { serial, handle, request_bytes };
        if let Some(ended) = self.operations.insert(id.clone(), running) {
            self.release(ended.request_bytes);
        }
        self.unanswered_bytes += request_bytes;
        self.charge();
        let replies = replies.map(Some).chain(once(std::future::ready(None)));
        let answers = replies.map(move |reply| OperationEvent { id: id.clone(), serial, reply });
        self.answers.push(answers.boxed());
    }

    /// Releases the bytes of a request.
    fn release(&mut self, bytes: usize) {
        self.unanswered_bytes -= bytes;
        self.charge();
    }

    fn initialised(&mut self, admission: Result<Admitted, CloseReason>) -> Option<Ended> {
        match admission {
            Ok(Admitted { identity, expires_at, caller }) => {
                self.caller = Some(caller);
                if let Some(identity) = identity {
                    self.handle.identify(identity);
                    self.listing = Some(self.gateway.hub().list(Arc::clone(&self.handle)));
                }
                let acknowledged = self.conversation.initialised(expires_at);
                self.perform(acknowledged, 0)
            }
            Err(reason) => Some(self.close(&GraphQlClose::of(reason))),
        }
    }

    /// Stop 16 of the life of a party edit: answered. The reply is queued.
    fn answered(&mut self, answer: OperationEvent) -> Option<Ended> {
        let OperationEvent { id, serial, reply } = answer;
        let running = self.operations.get_mut(&id).filter(|running| running.serial == serial)?;
        let bytes = std::mem::take(&mut running.request_bytes);
        self.release(bytes);
        let text = match reply {
            Some(reply) => self.conversation.replied(&id, &reply),
            None => {
                self.operations.remove(&id);
                self.conversation.ended(&id)
            }
        };
        if let Some(text) = text {
            tracing::trace!(target: "heartline::life", party_stop = 16, "answered");
            self.handle.outbox.push(&text_frame(&text), self.gateway.clock().now());
        }
        None
    }

    fn close(&mut self, close: &GraphQlClose) -> Ended {
        self.gateway.metrics().closing(close.reason);
        self.handle.outbox.seal([close_frame(Some(close.code), &close.sentence)]);
        Ended::Closed(close.reason)
    }
}

impl Drop for GraphQlConnection {
    fn drop(&mut self) {
        self.gateway.budget().change(self.charged_bytes, 0);
    }
}
