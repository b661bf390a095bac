//! Envelopes for this node, turned into frames in outboxes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use heartline_protocol::UserId;
use heartline_routing::Envelope;
use tokio::sync::{mpsc, oneshot};

use crate::handle::Handle;
use crate::hub::Hub;
use crate::websocket::text_frame;

/// Envelopes taken together. What waited together leaves together: one write per connection.
const BATCH_ENVELOPES: usize = 64;

/// Bytes of frames after which outboxes are flushed although more envelopes wait, so that a batch
/// alone never makes a healthy connection look slow.
const BATCH_BYTES: usize = 64 * 1024;

/// Connections written to before other tasks of the thread get a turn.
const WRITES_PER_TURN: usize = 256;

/// How long a busy node waits for a batch to fill: what comes meanwhile shares its writes.
const BUSY_WAIT: Duration = Duration::from_millis(2);

/// Delivers what arrives, until the link is gone.
pub async fn run(hub: Arc<Hub>, mut envelopes: mpsc::Receiver<Envelope>) {
    let mut batch = Vec::with_capacity(BATCH_ENVELOPES);
    let mut delivery = Delivery { hub: &hub, handles: Vec::new(), writes: 0 };
    let mut is_busy = false;
    while envelopes.recv_many(&mut batch, BATCH_ENVELOPES).await > 0 {
        if is_busy {
            fill(&mut batch, &mut envelopes).await;
        }
        is_busy = batch.len() > 1;
        if is_busy {
            delivery.together(&mut batch).await;
        } else if let Some(envelope) = batch.pop() {
            delivery.alone(envelope).await;
        }
    }
}

/// Takes more envelopes until the batch is full or the wait is over.
async fn fill(batch: &mut Vec<Envelope>, envelopes: &mut mpsc::Receiver<Envelope>) {
    let full = async {
        while batch.len() < BATCH_ENVELOPES {
            let room = BATCH_ENVELOPES - batch.len();
            if envelopes.recv_many(batch, room).await == 0 {
                break;
            }
        }
    };
    // Both ends of the wait are good: the batch goes out as it is.
    let _ = tokio::time::timeout(BUSY_WAIT, full).await;
}

/// Brings envelopes to outboxes.
struct Delivery<'a> {
    hub: &'a Hub,
    /// Connections that frames were queued for and that must be written to.
    handles: Vec<Arc<Handle>>,
    writes: usize,
}

impl Delivery<'_> {
    /// A lone envelope is written user by user, while each connection is at hand.
    async fn alone(&mut self, envelope: Envelope) {
        let now = self.hub.clock().now();
        let Some(Push { user_ids, frame, queued }) = self.push_of(envelope) else { return };
        let mut count = 0;
        for user_id in &user_ids {
            count += self.hub.write(user_id, &frame, now, &mut self.handles);
            self.rest_between_writes().await;
        }
        tell(queued, count);
    }

    /// Of several envelopes all are queued first, so that each connection gets them in one write.
    async fn together(&mut self, batch: &mut Vec<Envelope>) {
        let now = self.hub.clock().now();
        let mut bytes = 0;
        for envelope in batch.drain(..) {
            let Some(Push { user_ids, frame, queued }) = self.push_of(envelope) else { continue };
            let push = |user_id| self.hub.push(user_id, &frame, now, &mut self.handles);
            let count = user_ids.iter().map(push).sum();
            tell(queued, count);
            bytes += frame.len();
            if bytes >= BATCH_BYTES {
                self.flush().await;
                bytes = 0;
            }
        }
        self.flush().await;
    }

    async fn flush(&mut self) {
        while let Some(handle) = self.handles.pop() {
            handle.flush();
            self.rest_between_writes().await;
        }
    }

    async fn rest_between_writes(&mut self) {
        self.writes += 1;
        if self.writes.is_multiple_of(WRITES_PER_TURN) {
            tokio::task::yield_now().await;
        }
    }

    /// The push in an envelope, with its frame made for the socket; anything else is done here.
    fn push_of(&self, envelope: Envelope) -> Option<Push> {
        match envelope {
            Envelope::Push { user_ids, frame, queued } => {
                let json = std::str::from_utf8(&frame).expect("frames are encoded from strings");
                Some(Push { user_ids, frame: text_frame(json), queued })
            }
            Envelope::Close { leases, reason } => {
                for lease in &leases {
                    self.hub.close(lease, reason);
                }
                None
            }
        }
    }
}

/// A push whose frame is ready for the socket.
struct Push {
    user_ids: Vec<UserId>,
    frame: Bytes,
    queued: Option<oneshot::Sender<usize>>,
}

/// Whoever asked may have given up waiting; the frame is queued all the same.
fn tell(queued: Option<oneshot::Sender<usize>>, count: usize) {
    if let Some(queued) = queued {
        let _ = queued.send(count);
    }
}
