//! Envelopes for this node, turned into frames in outboxes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use heartline_protocol::server_frame::Message;
use heartline_protocol::{ChatId, ConnectionId, ServerFrame, Timestamp, UserId, encode_server};
use heartline_routing::{Delivery, Envelope, LocalSockets, ResyncReason};
use heartline_runtime::until;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::cursor::{Actions, Cursors, Hole, Resync};
use crate::gateway::Gateway;
use crate::handle::Handle;
use crate::hub::Hub;
use crate::ports::Reads;
use crate::presence::{PresenceHandle, TypingNews};
use crate::websocket::text_frame;

/// Envelopes handled together, so that each connection gets their frames in one write.
const BATCH_ENVELOPES: usize = 64;

/// Bytes of frames after which outboxes are flushed although more envelopes wait, so that a batch
/// alone never makes a healthy connection look slow.
const BATCH_BYTES: usize = 64 * 1024;

/// Connections written to before other tasks of the thread get a turn.
const WRITES_PER_TURN: usize = 256;

/// How long a busy node waits for a batch to fill, so that more envelopes share a write.
const BUSY_WAIT: Duration = Duration::from_millis(2);

/// The deadline for reading a hole from the log.
const HOLE_DEADLINE: Duration = Duration::from_secs(2);

/// Delivers the envelopes for this node until the link closes.
pub async fn run(gateway: Arc<Gateway>, mut envelopes: mpsc::Receiver<Envelope>) {
    let (hub, reads) = (&*gateway.hub, &*gateway.durability.reads);
    let mut batch = Vec::with_capacity(BATCH_ENVELOPES);
    let presence = &gateway.presence;
    let mut arrivals = Arrivals { hub, presence, cursors: Cursors::default(), pushes: Vec::new() };
    let mut delivery = Writes { hub, handles: Vec::new(), count: 0 };
    let mut hole_reads = FuturesUnordered::new();
    let mut is_busy = false;
    loop {
        let hole_due = arrivals.cursors.deadline();
        tokio::select! {
            biased;
            Some((hole, messages)) = hole_reads.next(), if !hole_reads.is_empty() => {
                arrivals.hole_filled(hole, messages);
            }
            () = until(hole_due) => {
                let read = |hole: Hole| read_hole(reads, hub.clock().now(), hole);
                hole_reads.extend(arrivals.holes_due().into_iter().map(read));
            }
            count = envelopes.recv_many(&mut batch, BATCH_ENVELOPES) => {
                if count == 0 {
                    return;
                }
                if is_busy {
                    fill(&mut batch, &mut envelopes).await;
                }
                for envelope in batch.drain(..) {
                    arrivals.receive(envelope);
                }
            }
        }
        is_busy = arrivals.pushes.len() > 1;
        if is_busy {
            delivery.together(&mut arrivals).await;
        } else if let Some(push) = arrivals.pushes.pop() {
            delivery.alone(push, &mut arrivals).await;
        }
    }
}

async fn read_hole(reads: &dyn Reads, now: Instant, hole: Hole) -> (Hole, Option<Vec<Message>>) {
    let Hole { chat_id, first, last } = hole;
    (hole, reads.hole(chat_id, first, last, now + HOLE_DEADLINE).await)
}

/// Receives more envelopes until the batch is full or the wait is over.
async fn fill(batch: &mut Vec<Envelope>, envelopes: &mut mpsc::Receiver<Envelope>) {
    let full = async {
        while batch.len() < BATCH_ENVELOPES {
            let room = BATCH_ENVELOPES - batch.len();
            if envelopes.recv_many(batch, room).await == 0 {
                break;
            }
        }
    };
    // A timeout is no error: the batch is delivered as it is.
    let _ = tokio::time::timeout(BUSY_WAIT, full).await;
}

/// Turns envelopes into pushes, those of a chat in the order of its sequences.
struct Arrivals<'a> {
    hub: &'a Hub,
    presence: &'a PresenceHandle,
    cursors: Cursors,
    /// Pushes that are ready.
    pushes: Vec<Push>,
}

/// A push whose frame is ready for the socket.
struct Push {
    user_ids: Arc<[UserId]>,
    frame: Bytes,
    /// The connection that sent the message, which does not get it.
    except: Option<ConnectionId>,
    /// The chat, if the push is a message of one.
    chat_id: Option<ChatId>,
    committed_at: Option<Timestamp>,
}

impl Arrivals<'_> {
    /// Stop 12 of the life of a message, stop 7 of the life of a presence transition: arrived.
    fn receive(&mut self, envelope: Envelope) {
        match envelope {
            Envelope::Message(delivery) => {
                tracing::trace!(target: "heartline::life", message_stop = 12, "arrived");
                let mut actions = Actions::default();
                self.cursors.arrive(delivery, self.hub.clock().now(), &mut actions);
                self.perform(actions);
            }
            Envelope::Push { user_ids, frame } => {
                let frame = socket_frame(&frame);
                let (except, chat_id, committed_at) = (None, None, None);
                let push = Push { user_ids, frame, except, chat_id, committed_at };
                self.pushes.push(push);
            }
            Envelope::Resync { user_ids: Some(user_ids), chat_ids, reason } => {
                for user_id in &*user_ids {
                    self.hub.resync(user_id, chat_ids.as_deref(), reason);
                }
            }
            Envelope::Typing { user_ids, chat_id, user_id, is_typing } => {
                self.presence.typing(TypingNews { user_ids, chat_id, user_id, is_typing });
            }
            Envelope::Presence(news) => {
                tracing::trace!(target: "heartline::life", presence_stop = 7, "arrived");
                self.presence.news(news);
            }
            Envelope::PrivacyChanged { user_ids } => self.presence.privacy_changed(user_ids),
            Envelope::Resync { user_ids: None, chat_ids, reason } => {
                // The lost envelopes may have been about presence too.
                self.presence.evaluate_all();
                self.hub.resync_all(chat_ids.as_deref(), reason);
            }
            Envelope::Close { leases, reason } => {
                for lease in &leases {
                    self.hub.close(lease, reason);
                }
            }
        }
    }

    fn holes_due(&mut self) -> Vec<Hole> {
        let mut actions = Actions::default();
        let holes = self.cursors.due(self.hub.clock().now(), &mut actions);
        self.perform(actions);
        holes
    }

    fn hole_filled(&mut self, hole: Hole, messages: Option<Vec<Message>>) {
        self.hub.metrics().delivery.hole(messages.is_some());
        let clock = self.hub.clock();
        let wall = clock.wall();
        let encode = |message| Bytes::from(encode_server(&ServerFrame::Message(message), wall));
        let mut actions = Actions::default();
        self.cursors.filled(hole.chat_id, messages, clock.now(), encode, &mut actions);
        self.perform(actions);
    }

    fn perform(&mut self, actions: Actions) {
        for delivery in actions.deliveries {
            let Delivery { chat_id, user_ids, frame, origin, committed_at, .. } = delivery;
            self.pushes.push(Push {
                user_ids,
                frame: socket_frame(&frame),
                except: origin,
                chat_id: Some(chat_id),
                committed_at,
            });
        }
        for Resync { chat_id, user_ids } in actions.resyncs {
            for user_id in &*user_ids {
                self.hub.resync(user_id, Some(&[chat_id]), ResyncReason::DeliveryGap);
            }
        }
    }

    /// Counts a push that was queued for so many connections, of so many local users.
    fn reached(&mut self, push: &Push, connections: usize, users_here: usize) {
        let Some(chat_id) = push.chat_id else { return };
        let offline = push.user_ids.len() - users_here;
        self.hub.metrics().delivery.delivered(connections, offline);
        if users_here == 0 {
            self.cursors.mark_idle(chat_id);
        }
    }
}

#[async_trait]
impl LocalSockets for Gateway {
    async fn push(&self, user_ids: &[UserId], frame: &Bytes) -> usize {
        let (frame, now) = (socket_frame(frame), self.clock.now());
        let mut writes = Writes { hub: &self.hub, handles: Vec::new(), count: 0 };
        let mut connections = 0;
        for user_id in user_ids {
            let written = self.hub.write(user_id, &frame, None, now, &mut writes.handles);
            connections += written.unwrap_or(0);
            writes.yield_between_writes().await;
        }
        connections
    }
}

fn socket_frame(json: &[u8]) -> Bytes {
    text_frame(std::str::from_utf8(json).expect("frames are encoded from strings"))
}

/// Writes pushes to outboxes.
struct Writes<'a> {
    hub: &'a Hub,
    /// Connections with queued frames, to be flushed.
    handles: Vec<Arc<Handle>>,
    count: usize,
}

impl Writes<'_> {
    /// Writes a single push user by user.
    async fn alone(&mut self, push: Push, arrivals: &mut Arrivals<'_>) {
        let now = self.hub.clock().now();
        let (mut connections, mut users_here) = (0, 0);
        for user_id in &*push.user_ids {
            let Push { frame, except, .. } = &push;
            let written = self.hub.write(user_id, frame, *except, now, &mut self.handles);
            users_here += usize::from(written.is_some());
            connections += written.unwrap_or(0);
            self.yield_between_writes().await;
        }
        arrivals.reached(&push, connections, users_here);
        self.note_lag([push.committed_at]);
    }

    /// Queues several pushes first, so that each connection gets them in one write.
    async fn together(&mut self, arrivals: &mut Arrivals<'_>) {
        let now = self.hub.clock().now();
        let mut bytes = 0;
        let mut pushes = std::mem::take(&mut arrivals.pushes);
        for push in &pushes {
            let (mut connections, mut users_here) = (0, 0);
            for user_id in &*push.user_ids {
                let Push { frame, except, .. } = push;
                let queued = self.hub.push(user_id, frame, *except, now, &mut self.handles);
                users_here += usize::from(queued.is_some());
                connections += queued.unwrap_or(0);
            }
            arrivals.reached(push, connections, users_here);
            bytes += push.frame.len();
            if bytes >= BATCH_BYTES {
                self.flush().await;
                bytes = 0;
            }
        }
        self.flush().await;
        self.note_lag(pushes.iter().map(|push| push.committed_at));
        pushes.clear();
        arrivals.pushes = pushes;
    }

    async fn flush(&mut self) {
        while let Some(handle) = self.handles.pop() {
            handle.flush();
            self.yield_between_writes().await;
        }
    }

    async fn yield_between_writes(&mut self) {
        self.count += 1;
        if self.count.is_multiple_of(WRITES_PER_TURN) {
            tokio::task::yield_now().await;
        }
    }

    /// Records how long messages took from their commit to their sockets.
    fn note_lag(&self, committed: impl IntoIterator<Item = Option<Timestamp>>) {
        let now = self.hub.clock().wall();
        for committed_at in committed.into_iter().flatten() {
            let lag = Duration::from_millis(now.unix_ms.saturating_sub(committed_at.unix_ms));
            self.hub.metrics().delivery.lag_seconds.observe(lag.as_secs_f64());
        }
    }
}
