//! A queue of parcels, bounded in number and in bytes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use heartline_protocol::NodeId;
use heartline_routing::LinkError;
use heartline_routing::link::{Parcel, ROOM_TIME, Refused};
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::mpsc::Permit;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Parcels that may wait.
pub(crate) const QUEUE_PARCELS_MAX: usize = 1024;

/// Bytes of parcels that may wait.
pub(crate) const QUEUE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A queue with many senders and one receiver. A sender that finds it full waits for [`ROOM_TIME`]
/// and is then refused; from then on, until the queue moves, senders are refused at once.
#[derive(Debug)]
pub(crate) struct ParcelQueue {
    fill: mpsc::Sender<Waiting>,
    empty: Mutex<mpsc::Receiver<Waiting>>,
    bytes: Arc<Semaphore>,
    is_stalled: AtomicBool,
    length: Gauge,
}

/// A queued parcel.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// The node that it is for.
    pub(crate) receiver: NodeId,
    /// The parcel.
    pub(crate) parcel: Parcel,
    _place: Place,
}

/// The room that a parcel takes in the queue.
#[derive(Debug)]
struct Place {
    _bytes: OwnedSemaphorePermit,
    length: Gauge,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.length.dec();
    }
}

impl ParcelQueue {
    /// An empty queue with a gauge of its length.
    pub(crate) fn new(length: Gauge) -> Self {
        let (fill, empty) = mpsc::channel(QUEUE_PARCELS_MAX);
        let bytes = Arc::new(Semaphore::new(QUEUE_BYTES_MAX));
        let is_stalled = AtomicBool::new(false);
        Self { fill, empty: Mutex::new(empty), bytes, is_stalled, length }
    }

    /// Queues a parcel.
    pub(crate) async fn put(&self, receiver: &NodeId, parcel: Parcel) -> Result<(), Refused> {
        // A parcel larger than the bound waits alone.
        let bytes = parcel.len().min(QUEUE_BYTES_MAX) as u32;
        let room = match self.room_now(bytes) {
            Some(room) => Some(room),
            None if self.is_stalled.load(Ordering::Relaxed) => None,
            None => tokio::time::timeout(ROOM_TIME, self.room(bytes)).await.ok().flatten(),
        };
        let Some((permit, bytes)) = room else {
            self.is_stalled.store(true, Ordering::Relaxed);
            return Err(Refused { error: LinkError::Full, parcel });
        };
        self.length.inc();
        let place = Place { _bytes: bytes, length: self.length.clone() };
        permit.send(Waiting { receiver: receiver.clone(), parcel, _place: place });
        Ok(())
    }

    fn room_now(&self, bytes: u32) -> Option<(Permit<'_, Waiting>, OwnedSemaphorePermit)> {
        let bytes = Arc::clone(&self.bytes).try_acquire_many_owned(bytes).ok()?;
        Some((self.fill.try_reserve().ok()?, bytes))
    }

    async fn room(&self, bytes: u32) -> Option<(Permit<'_, Waiting>, OwnedSemaphorePermit)> {
        let bytes = Arc::clone(&self.bytes).acquire_many_owned(bytes).await.ok()?;
        Some((self.fill.reserve().await.ok()?, bytes))
    }

    /// The next parcel. Only the last task that polled is woken.
    pub(crate) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Waiting> {
        match self.lock().poll_recv(context) {
            Poll::Ready(Some(waiting)) => {
                self.is_stalled.store(false, Ordering::Relaxed);
                Poll::Ready(waiting)
            }
            // The queue holds its own other end, so it never ends.
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    /// The next parcel, if one is queued.
    pub(crate) fn next_now(&self) -> Option<Waiting> {
        let waiting = self.lock().try_recv().ok()?;
        self.is_stalled.store(false, Ordering::Relaxed);
        Some(waiting)
    }

    /// Whether it is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, mpsc::Receiver<Waiting>> {
        self.empty.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use heartline_routing::Envelope;
    use heartline_runtime::Clock;

    use super::*;

    fn queue() -> ParcelQueue {
        ParcelQueue::new(Gauge::default())
    }

    fn node() -> NodeId {
        "node-1".parse().unwrap()
    }

    fn parcel(frame_bytes: usize) -> Parcel {
        let frame = "x".repeat(frame_bytes).into();
        let envelope = Envelope::Push { user_ids: Arc::new([]), frame };
        Parcel::envelope(&node(), &envelope)
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_it_full_waits_and_the_next_one_does_not() {
        let queue = queue();
        for _ in 0..QUEUE_PARCELS_MAX {
            queue.put(&node(), parcel(1)).await.unwrap();
        }
        let begun_at = Clock::system().now();
        let refused = queue.put(&node(), parcel(1)).await.unwrap_err();
        assert_eq!(refused.error, LinkError::Full);
        assert_eq!(Clock::system().now() - begun_at, ROOM_TIME);
        queue.put(&node(), parcel(1)).await.unwrap_err();
        assert_eq!(Clock::system().now() - begun_at, ROOM_TIME);
        // The queue has room for one, and the next sender waits again.
        poll_fn(|context| queue.poll_next(context)).await;
        queue.put(&node(), parcel(1)).await.unwrap();
        queue.put(&node(), parcel(1)).await.unwrap_err();
        assert_eq!(Clock::system().now() - begun_at, ROOM_TIME * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_are_bounded_and_come_back_with_what_leaves() {
        let queue = queue();
        let half = QUEUE_BYTES_MAX / 2;
        queue.put(&node(), parcel(half)).await.unwrap();
        queue.put(&node(), parcel(half)).await.unwrap_err();
        assert_eq!(queue.length.get(), 1);
        drop(queue.next_now().unwrap());
        assert_eq!(queue.length.get(), 0);
        queue.put(&node(), parcel(half)).await.unwrap();
        assert!(queue.next_now().is_some());
        assert!(queue.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_gets_the_room_that_another_leaves() {
        let queue = queue();
        for _ in 0..QUEUE_PARCELS_MAX {
            queue.put(&node(), parcel(1)).await.unwrap();
        }
        let (node, begun_at) = (node(), Clock::system().now());
        let empty = async {
            tokio::time::sleep(ROOM_TIME / 2).await;
            queue.next_now()
        };
        let (put, emptied) = tokio::join!(queue.put(&node, parcel(1)), empty);
        assert!(put.is_ok() && emptied.is_some());
        assert_eq!(Clock::system().now() - begun_at, ROOM_TIME / 2);
    }
}
