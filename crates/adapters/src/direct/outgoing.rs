//! Parcels on their way into the stream to one node.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes, BytesMut};
use heartline_protocol::NodeId;
use heartline_routing::link::{
    Departures, LinkMetrics, Parcel, Refused, Transport, TransportMetrics,
};

use super::unpacker::LENGTH_BYTES;
use crate::parcel_queue::ParcelQueue;

/// Bytes after which a piece of the stream is complete. Parcels that wait at the same time are sent
/// together.
const PIECE_BYTES: usize = 32 * 1024;

/// A bounded queue that senders fill and the present connection empties.
#[derive(Debug)]
pub(super) struct Outgoing {
    receiver: NodeId,
    queue: ParcelQueue,
    departures: Arc<Mutex<Departures>>,
    metrics: TransportMetrics,
}

impl Outgoing {
    pub(super) fn new(
        receiver: NodeId,
        departures: Arc<Mutex<Departures>>,
        metrics: &LinkMetrics,
    ) -> Self {
        let metrics = metrics.of(Transport::Direct).clone();
        let queue = ParcelQueue::new(metrics.queue_parcels.clone());
        Self { receiver, queue, departures, metrics }
    }

    /// Queues a parcel.
    pub(super) async fn put(&self, parcel: Parcel) -> Result<(), Refused> {
        self.queue.put(&self.receiver, parcel).await
    }

    /// The next piece of the stream: the queued parcels, numbered, each behind its length.
    pub(super) fn poll_piece(&self, context: &mut Context<'_>) -> Poll<Bytes> {
        let mut waiting = ready!(self.queue.poll_next(context));
        let alone = LENGTH_BYTES + waiting.parcel.len();
        let room = if self.queue.is_empty() { alone } else { PIECE_BYTES + alone };
        let mut piece = BytesMut::with_capacity(room);
        let mut departures = lock(&self.departures);
        loop {
            departures.stamp(&self.receiver, &mut waiting.parcel);
            self.append(&mut piece, &waiting.parcel);
            if piece.len() >= PIECE_BYTES {
                break;
            }
            match self.queue.next_now() {
                Some(next) => waiting = next,
                None => break,
            }
        }
        Poll::Ready(piece.freeze())
    }

    fn append(&self, piece: &mut BytesMut, parcel: &Parcel) {
        self.metrics.parcels_sent.inc();
        self.metrics.bytes_sent.inc_by(parcel.len() as u64);
        if !parcel.is_envelope() {
            self.metrics.probes_sent.inc();
        }
        // The length of a parcel always fits.
        piece.put_u32_le(parcel.len() as u32);
        piece.put_slice(parcel.as_bytes());
    }

    /// Drops the queued parcels, because the node is unreachable. Each envelope uses a number, so
    /// that the node detects a gap if it comes back. Returns how many were dropped.
    pub(super) fn drop_all(&self) -> usize {
        let mut departures = lock(&self.departures);
        let waiting = std::iter::from_fn(|| self.queue.next_now());
        let envelopes = waiting.filter(|waiting| waiting.parcel.is_envelope());
        envelopes.map(|_| departures.next(&self.receiver)).count()
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
