//! The pending requests of one connection.
//!
//! Sends are submitted at once and may complete in any order between chats. Pages are read one at a
//! time, the next one only when the client has read the last.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use heartline_durability::message::DEFAULT_CONTENT_TYPE;
use heartline_durability::{LogRead, NewMessage, Position, Receipt, SendError};
use heartline_protocol::client_frame::{
    PresenceUsers, SendMessage, SyncManifestRequest, SyncRequest,
};
use heartline_protocol::limits::{
    DURABILITY_DEADLINE, SYNC_PAGE_BYTES_MAX, SYNC_PAGE_MESSAGES, SYNC_PAGE_MESSAGES_MAX,
};
use heartline_protocol::server_frame::{ErrorFrame, MessageAck};
use heartline_protocol::{ClientMessageId, RequestId, ServerFrame, UserId};
use tokio::time::Instant;

use crate::gateway::Gateway;
use crate::handle::{Handle, Identity};
use crate::ports::SendOutcome;
use crate::presence::Watch;
use crate::session::{Closing, Request, Response, replies};

/// The requests of one connection, allocated only while there are some.
#[derive(Default)]
pub(crate) struct Requests {
    pending: FuturesUnordered<PendingRequest>,
    /// Reads that have not begun.
    reads: VecDeque<Request>,
    is_reading: bool,
    /// The closing that waits for the last responses.
    pub(crate) closing: Option<Closing>,
}

/// A pending request.
enum PendingRequest {
    /// A send. A variant of its own, so that its outcome is not boxed a second time.
    Send {
        outcome: SendOutcome,
        ids: Option<(RequestId, ClientMessageId)>,
    },
    Other(BoxFuture<'static, Answered>),
}

/// A request that was answered.
struct Answered {
    answer: Response,
    was_read: bool,
}

impl Future for PendingRequest {
    type Output = Answered;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answered> {
        match self.get_mut() {
            Self::Send { outcome, ids } => {
                let outcome = ready!(outcome.as_mut().poll(context));
                let (request_id, id) = ids.take().expect("an outcome is ready once");
                let answer = stored(outcome, request_id, id);
                Poll::Ready(Answered { answer, was_read: false })
            }
            Self::Other(answered) => answered.as_mut().poll(context),
        }
    }
}

impl Requests {
    /// Starts a request; returns the response if it is ready at once.
    pub(crate) fn start(
        &mut self,
        request: Request,
        gateway: &Arc<Gateway>,
        handle: &Arc<Handle>,
    ) -> Option<Response> {
        let identity = handle.identity().expect("only an admitted connection has requests");
        match request {
            Request::Send(frame) => {
                let deadline = gateway.clock().now() + DURABILITY_DEADLINE;
                let SendMessage { request_id, client_message_id, .. } = &frame;
                let (request_id, id) = (request_id.clone(), client_message_id.clone());
                match gateway.durability.sends.submit(new_message(frame, identity), deadline) {
                    Ok(outcome) => {
                        let ids = Some((request_id, id));
                        self.pending.push(PendingRequest::Send { outcome, ids });
                        None
                    }
                    Err(error) => Some(refused(request_id, error.into())),
                }
            }
            Request::Subscribe(frame) => self.watch(frame, true, gateway, handle),
            Request::Unsubscribe(frame) => self.watch(frame, false, gateway, handle),
            read @ (Request::Sync(_) | Request::Manifest(_)) => {
                self.reads.push_back(read);
                None
            }
        }
    }

    fn watch(
        &mut self,
        frame: PresenceUsers,
        begins: bool,
        gateway: &Gateway,
        handle: &Arc<Handle>,
    ) -> Option<Response> {
        let PresenceUsers { request_id, user_ids } = frame;
        let handle = Arc::clone(handle);
        let watch = Watch { handle, request_id: request_id.clone(), user_ids, begins };
        let Some(answer) = gateway.presence.watch(watch) else {
            return Some(Response::Reply(replies::presence_busy(request_id)));
        };
        self.pending.push(PendingRequest::Other(Box::pin(async move {
            // The presence task ends only with the node.
            let answer = answer.await.unwrap_or(Response::Reply(replies::closing(request_id)));
            Answered { answer, was_read: false }
        })));
        None
    }

    /// Starts the next read if none is pending. The caller has checked that there is room.
    pub(crate) fn read_next(&mut self, gateway: &Arc<Gateway>, user_id: &UserId) {
        if self.is_reading {
            return;
        }
        let Some(request) = self.reads.pop_front() else { return };
        self.is_reading = true;
        let (gateway, user_id) = (Arc::clone(gateway), user_id.clone());
        let deadline = gateway.clock().now() + DURABILITY_DEADLINE;
        self.pending.push(PendingRequest::Other(Box::pin(async move {
            let answer = match request {
                Request::Sync(frame) => page(&gateway, user_id, frame, deadline).await,
                Request::Manifest(frame) => manifest(&gateway, &user_id, frame, deadline).await,
                other => unreachable!("{:?} is no read", other.into_id()),
            };
            Answered { answer, was_read: true }
        })));
    }

    /// Whether a read can be started.
    pub(crate) fn has_read_waiting(&self) -> bool {
        !self.is_reading && !self.reads.is_empty()
    }

    /// The next response; `None` when no request is pending.
    pub(crate) fn poll_response(&mut self, context: &mut Context<'_>) -> Poll<Option<Response>> {
        Pin::new(&mut self.pending).poll_next(context).map(|answered| {
            answered.map(|Answered { answer, was_read }| {
                self.is_reading &= !was_read;
                answer
            })
        })
    }

    /// Refuses the reads that have not begun, because the connection is closing.
    pub(crate) fn refuse_reads(&mut self) -> Vec<Response> {
        let refuse = |read: Request| Response::Reply(replies::closing(read.into_id()));
        self.reads.drain(..).map(refuse).collect()
    }

    /// Whether no request is pending.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.reads.is_empty()
    }
}

fn new_message(frame: SendMessage, identity: &Identity) -> NewMessage {
    let SendMessage { chat_id, client_message_id, content, content_type, .. } = frame;
    NewMessage {
        chat_id,
        sender_id: identity.key.user_id.clone(),
        client_message_id,
        content,
        content_type: content_type.unwrap_or_else(|| DEFAULT_CONTENT_TYPE.to_owned()),
        origin: Some(identity.key.connection_id),
    }
}

/// Stop 8 of the life of a message: acknowledged, by a receipt and by nothing else.
fn stored(
    outcome: Result<Receipt, SendError>,
    request_id: RequestId,
    client_message_id: ClientMessageId,
) -> Response {
    tracing::trace!(target: "heartline::life", message_stop = 8, "acknowledged");
    match outcome {
        Ok(Receipt { message, duplicate }) => {
            Response::Reply(ServerFrame::MessageAck(MessageAck {
                request_id,
                chat_id: message.chat_id,
                client_message_id,
                message_id: message.message_id,
                sequence: message.sequence,
                created_at: message.created_at,
                duplicate,
            }))
        }
        Err(error) => refused(request_id, error.into()),
    }
}

async fn page(
    gateway: &Gateway,
    user_id: UserId,
    frame: SyncRequest,
    deadline: Instant,
) -> Response {
    let SyncRequest { request_id, chat_id, after_sequence, limit } = frame;
    let limit = limit.unwrap_or(SYNC_PAGE_MESSAGES).clamp(1, SYNC_PAGE_MESSAGES_MAX);
    let read = LogRead {
        chat_id,
        reader: Some(user_id),
        position: Position::After(after_sequence),
        limit: limit as usize,
        // The outbox must have room for a page and the pushes meanwhile, or the connection closes
        // as slow.
        content_bytes_max: SYNC_PAGE_BYTES_MAX.min(gateway.config().limits.outbox_bytes / 2),
    };
    match gateway.durability.reads.page(read, deadline).await {
        Ok(page) => Response::Page(ServerFrame::SyncResponse {
            request_id,
            chat_id,
            messages: page.messages,
            has_more: page.has_more,
            head_sequence: page.head_sequence,
        }),
        Err(refusal) => refused(request_id, refusal.into()),
    }
}

async fn manifest(
    gateway: &Gateway,
    user_id: &UserId,
    frame: SyncManifestRequest,
    deadline: Instant,
) -> Response {
    let SyncManifestRequest { request_id, page } = frame;
    match gateway.durability.reads.manifest(user_id, page.as_deref(), deadline).await {
        Ok(manifest) => Response::Page(ServerFrame::SyncManifest {
            request_id,
            chats: manifest.chats,
            next_page: manifest.next_page,
        }),
        Err(refusal) => refused(request_id, refusal.into()),
    }
}

fn refused(request_id: RequestId, error: ErrorFrame) -> Response {
    Response::Reply(ServerFrame::Error(ErrorFrame { request_id: Some(request_id), ..error }))
}
