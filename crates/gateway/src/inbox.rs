//! Envelopes for this node, turned into frames in outboxes.

use std::sync::Arc;

use heartline_protocol::UserId;
use heartline_routing::Envelope;
use tokio::sync::mpsc;

use crate::handle::Handle;
use crate::hub::Hub;
use crate::websocket::text_frame;
use bytes::Bytes;

/// Envelopes taken together. What waited together leaves together: one write per connection.
const BATCH_ENVELOPES: usize = 64;

/// Bytes of frames after which outboxes are flushed although more envelopes wait, so that a batch
/// alone never makes a healthy connection look slow.
const BATCH_BYTES: usize = 64 * 1024;

/// Connections flushed before other tasks of the thread get a turn.
const FLUSHES_PER_TURN: usize = 32;

/// Delivers what arrives, until the link is gone.
pub async fn run(hub: Arc<Hub>, mut envelopes: mpsc::Receiver<Envelope>) {
    let mut batch = Vec::with_capacity(BATCH_ENVELOPES);
    let mut touched = Vec::new();
    while envelopes.recv_many(&mut batch, BATCH_ENVELOPES).await > 0 {
        let mut bytes = 0;
        for envelope in batch.drain(..) {
            bytes += deliver(&hub, envelope, &mut touched);
            if bytes >= BATCH_BYTES {
                flush(&mut touched).await;
                bytes = 0;
            }
        }
        flush(&mut touched).await;
    }
}

/// Queues one envelope's frame and answers its size.
fn deliver(hub: &Hub, envelope: Envelope, touched: &mut Vec<Arc<Handle>>) -> usize {
    match envelope {
        Envelope::Push { user_ids, frame, queued } => {
            let frame = text_frame_of(&frame);
            let push = |user_id: &UserId| hub.push(user_id, &frame, touched);
            let count = user_ids.iter().map(push).sum();
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

async fn flush(touched: &mut Vec<Arc<Handle>>) {
    for (number, handle) in touched.drain(..).enumerate() {
        handle.flush();
        if number % FLUSHES_PER_TURN == FLUSHES_PER_TURN - 1 {
            tokio::task::yield_now().await;
        }
    }
}
