//! The task of one GraphQL socket.
//!
//! Results are asked for only while the socket takes what is written, so whoever reads slowly makes
//! its subscriptions wait, which replace what piles up by one picture of the present. Only a socket
//! that takes nothing at all is cut.

use std::collections::HashMap;
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
use tokio::time::{Instant, Sleep, sleep_until};

use super::conversation::{Conversation, Effect, Goodbye};
use super::{GraphQl, GraphQlCaller, GraphQlRequest, Reply};
use crate::connection::Ended;
use crate::farewell;
use crate::gateway::Gateway;
use crate::handle::{Handle, Identity};
use crate::hub::Listing;
use crate::outbox::{Flushed, Signal};
use crate::transport::Transport;
use crate::websocket::{FrameReader, Incoming, close_frame, ping_frame, pong_frame, text_frame};

/// Bytes read from a socket at a time.
const READ_BYTES: usize = 16 * 1024;

/// Bytes that may wait to be written before more results are asked for.
const WAITING_BYTES: usize = 64 * 1024;

/// An answer of an operation, or its end. Clients use an id again after they have completed it, so
/// that operations are told apart by numbers of our own.
struct Answer {
    id: String,
    serial: u64,
    reply: Option<Reply>,
}

/// An operation that is under way.
struct Running {
    serial: u64,
    handle: AbortHandle,
    /// The bytes of its request, until it has answered once: then what it needs of them is small.
    request_bytes: usize,
}

/// What became of the token: whoever it is of, until when it is good, and what answers them.
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
    answers: SelectAll<BoxStream<'static, Answer>>,
    operations: HashMap<String, Running>,
    operations_started: u64,
    /// Bytes of requests that have not been answered.
    unanswered_bytes: usize,
    /// What the reader and these requests hold, as the budget knows it.
    charged_bytes: usize,
    timer: Pin<Box<Sleep>>,
}

enum Happening {
    Stop(CloseReason),
    Initialised(Result<Admitted, CloseReason>),
    Answer(Answer),
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
        let lifetime = gateway.config().lifetime(rand::random());
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
            operations: HashMap::new(),
            operations_started: 0,
            unanswered_bytes: 0,
            charged_bytes: 0,
            gateway,
        }
    }

    /// Talks until there is a reason to end, and queues the last words.
    pub(super) async fn run(&mut self) -> Ended {
        let ended = poll_fn(|context| self.poll_conversation(context)).await;
        self.answers.clear();
        self.listing = None;
        ended
    }

    /// Says goodbye without having talked.
    pub(super) fn refuse(&mut self, goodbye: &Goodbye) -> Ended {
        self.listing = None;
        self.goodbye(goodbye)
    }

    /// Writes the last words and ends TCP, within the deadline.
    pub(super) async fn finish(&mut self, ended: Ended) {
        if ended == Ended::Lost {
            return self.handle.outbox.seal([]);
        }
        self.timer.as_mut().reset(self.gateway.clock().now() + CLOSE_WRITE_DEADLINE);
        let (outbox, timer) = (&self.handle.outbox, self.timer.as_mut());
        let is_delivered = farewell::say(outbox, &mut self.transport, timer).await;
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
                Happening::Stop(reason) => Some(self.goodbye(&Goodbye::of(reason))),
                Happening::Initialised(admission) => self.initialised(admission),
                Happening::Answer(answer) => self.answered(answer),
                Happening::Read(0) | Happening::Broken => Some(Ended::Lost),
                Happening::Read(_) | Happening::Written => None,
                Happening::Deadline => {
                    let effect = self.conversation.tick(self.gateway.clock().now());
                    effect.and_then(|effect| self.perform(effect, 0))
                }
            };
            if let Some(ended) = ended {
                return Poll::Ready(ended);
            }
        }
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Happening> {
        // What is ready at once is written at once, rather than each answer by itself.
        if let Poll::Ready(answer) = self.poll_answer(context) {
            return Poll::Ready(Happening::Answer(answer));
        }
        match self.handle.outbox.poll_signal(context, None) {
            Poll::Ready(Signal::Stop(reason)) => return Poll::Ready(Happening::Stop(reason)),
            Poll::Ready(Signal::Writable | Signal::Grace(_)) => {
                return Poll::Ready(self.write(context));
            }
            Poll::Pending => {}
        }
        if let Some(initialising) = &mut self.initialising
            && let Poll::Ready(admission) = initialising.as_mut().poll(context)
        {
            self.initialising = None;
            return Poll::Ready(Happening::Initialised(admission));
        }
        if !self.is_behind()
            && !self.is_busy()
            && let Poll::Ready(read) = self.poll_read(context)
        {
            return Poll::Ready(read.map_or(Happening::Broken, Happening::Read));
        }
        if self.handle.outbox.is_blocked()
            && let Poll::Ready(writable) = self.transport.poll_writable(context)
        {
            return Poll::Ready(match writable {
                Ok(()) => self.write(context),
                Err(_) => Happening::Broken,
            });
        }
        if let Poll::Ready(Err(_)) = self.transport.poll_flush(context) {
            return Poll::Ready(Happening::Broken);
        }
        let due = self.conversation.deadline();
        if due < self.timer.deadline() || self.timer.is_elapsed() {
            self.timer.as_mut().reset(due);
        }
        self.timer.as_mut().poll(context).map(|()| Happening::Deadline)
    }

    /// The next answer of an operation, unless more waits to be written than should.
    fn poll_answer(&mut self, context: &mut Context<'_>) -> Poll<Answer> {
        if self.is_behind() {
            return Poll::Pending;
        }
        match self.answers.poll_next_unpin(context) {
            Poll::Ready(Some(answer)) => Poll::Ready(answer),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    /// Whether what was asked for must be answered before more is asked for.
    fn is_busy(&self) -> bool {
        self.unanswered_bytes >= self.gateway.config().graphql.message_bytes
    }

    /// Whether what waits must be written before more is said or heard.
    fn is_behind(&self) -> bool {
        let limit = self.gateway.config().limits.urgent_frames;
        self.handle.outbox.load().bytes >= WAITING_BYTES
            || self.handle.outbox.urgent_frames() >= limit
    }

    fn write(&mut self, context: &mut Context<'_>) -> Happening {
        let transport = &mut self.transport;
        let flushed = self.handle.outbox.flush_with(|slices| transport.write(context, slices));
        let is_blocked = matches!(flushed, Ok(Flushed::Blocked));
        let waiting = self.handle.outbox.load().bytes;
        self.conversation.written(is_blocked, waiting, self.gateway.clock().now());
        match flushed {
            Ok(_) => Happening::Written,
            Err(_) => Happening::Broken,
        }
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut buffer = [0; READ_BYTES];
        let read = ready!(self.transport.poll_read(context, &mut buffer))?;
        self.reader.feed(&buffer[..read]);
        self.charge();
        self.conversation.heard(self.gateway.clock().now());
        Poll::Ready(Ok(read))
    }

    /// Tells the budget what is held.
    fn charge(&mut self) {
        let held = self.reader.buffered() + self.unanswered_bytes;
        self.gateway.budget().change(self.charged_bytes, held);
        self.charged_bytes = held;
    }

    /// Gives every whole message that was read to the conversation.
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

    /// Does what follows from a frame of so many bytes.
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
            Effect::Close(goodbye) => return Some(self.goodbye(&goodbye)),
        }
        None
    }

    fn start(&mut self, id: String, request: GraphQlRequest, request_bytes: usize) {
        let Some(caller) = &self.caller else { return };
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
        let answers = replies.map(move |reply| Answer { id: id.clone(), serial, reply });
        self.answers.push(answers.boxed());
    }

    /// A request is no longer held.
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
            Err(reason) => Some(self.goodbye(&Goodbye::of(reason))),
        }
    }

    fn answered(&mut self, answer: Answer) -> Option<Ended> {
        let Answer { id, serial, reply } = answer;
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
            self.handle.outbox.push(&text_frame(&text), self.gateway.clock().now());
        }
        None
    }

    fn goodbye(&mut self, goodbye: &Goodbye) -> Ended {
        self.gateway.metrics().closing(goodbye.reason);
        self.handle.outbox.seal([close_frame(Some(goodbye.code), &goodbye.sentence)]);
        Ended::Closed(goodbye.reason)
    }
}

impl Drop for GraphQlConnection {
    fn drop(&mut self) {
        self.gateway.budget().change(self.charged_bytes, 0);
    }
}
