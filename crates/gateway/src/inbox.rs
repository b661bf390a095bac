//! Envelopes for this node, turned into frames in outboxes.

use std::sync::Arc;

use bytes::Bytes;
use heartline_routing::Envelope;
use tokio::sync::mpsc;

use crate::handle::Handle;
use crate::hub::Hub;
use crate::websocket::text_frame;

/// Envelopes taken together. What waited together leaves together: one write per connection.
const BATCH_ENVELOPES: usize = 64;

/// Bytes of frames after which outboxes are flushed although more envelopes wait, so that a batch
/// alone never makes a healthy connection look slow.
const BATCH_BYTES: usize = 64 * 1024;

/// Connections written to before other tasks of the thread get a turn.
const WRITES_PER_TURN: usize = 64;

/// Delivers what arrives, until the link is gone.
pub async fn run(hub: Arc<Hub>, mut envelopes: mpsc::Receiver<Envelope>) {
    let mut batch = Vec::with_capacity(BATCH_ENVELOPES);
    let mut touched = Touched::default();
    while envelopes.recv_many(&mut batch, BATCH_ENVELOPES).await > 0 {
        // A lone envelope is written user by user, while each connection is at hand; of several,
        // all are queued first, so that each connection gets them in one write.
        touched.write_at_once = batch.len() == 1;
        let mut bytes = 0;
        for envelope in batch.drain(..) {
            bytes += deliver(&hub, envelope, &mut touched).await;
            if bytes >= BATCH_BYTES {
                touched.flush().await;
                bytes = 0;
            }
        }
        touched.flush().await;
    }
}

/// Queues one envelope's frame and answers its size.
async fn deliver(hub: &Hub, envelope: Envelope, touched: &mut Touched) -> usize {
    match envelope {
        Envelope::Push { user_ids, frame, queued } => {
            let frame = text_frame_of(&frame);
            let mut count = 0;
            for user_id in &user_ids {
                count += hub.push(user_id, &frame, &mut touched.handles);
                if touched.write_at_once {
                    touched.flush().await;
                }
            }
            if let Some(queued) = queued {
                // Whoever asked may have given up waiting; the frame is queued all the same.
                let _ = queued.send(count);
            }
            frame.len()
        }
        Envelope::Close { leases, reason } => {
            for lease in &leases {
                hub.close(lease, reason);
            }
            0
        }
    }
}

fn text_frame_of(json: &Bytes) -> Bytes {
    text_frame(std::str::from_utf8(json).expect("frames are encoded from strings"))
}

/// The connections that frames were queued for and that must be written to.
#[derive(Debug, Default)]
struct Touched {
    handles: Vec<Arc<Handle>>,
    write_at_once: bool,
    writes: usize,
}

impl Touched {
    async fn flush(&mut self) {
        for handle in self.handles.drain(..) {
            handle.flush();
            self.writes += 1;
            if self.writes.is_multiple_of(WRITES_PER_TURN) {
                tokio::task::yield_now().await;
            }
        }
    }
}
