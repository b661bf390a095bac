//! The connections of this node, by user.
//!
//! The hub decides local delivery: a frame goes to every connection listed here. Shards keep
//! locks short; no lock is held across an await.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use heartline_protocol::{ChatId, CloseReason, ConnectionId, ServerFrame, UserId, encode_server};
use heartline_routing::renewal::{ConnectionCounts, LeaseLosses, LocalLeases};
use heartline_routing::{Lease, LeaseKey, ResyncReason};
use heartline_runtime::{Clock, Map};
use smallvec::SmallVec;
use tokio::time::Instant;
use tracing::info;

use crate::config::Limits;
use crate::handle::Handle;
use crate::metrics::Metrics;
use crate::outbox::Delivered;
use crate::pressure::{Load, Verdict};
use crate::session::replies::slow_consumer;
use crate::websocket::text_frame;

const SHARDS: usize = 64;

/// The longest delay before a client that must sync does so. A gap between nodes is detected within
/// two seconds, so a client has every message within five.
const RESYNC_DELAY_MS_MAX: u64 = 2000;

/// The connections of this node.
#[derive(Debug)]
pub struct Hub {
    shards: [Mutex<Shard>; SHARDS],
    /// Sockets that have not authenticated yet, by their own number.
    guests: Mutex<Map<u64, Arc<Handle>>>,
    hasher: RandomState,
    clock: Clock,
    metrics: Metrics,
    /// The grace that a `SLOW_CONSUMER` warning announces.
    slow_grace: Duration,
    /// Frames that a connection's urgent lane may hold.
    urgent_frames: usize,
}

/// Most users have one connection here, which is then stored in the table itself.
pub(crate) type Handles = SmallVec<[Arc<Handle>; 1]>;

#[derive(Debug, Default)]
struct Shard {
    users: Map<UserId, Handles>,
    /// Requests to close connections that are not listed. A connection that is registered and about
    /// to be listed finds its request here. When full, the oldest are removed: their connections
    /// have ended long ago.
    early_closes: VecDeque<(ConnectionId, CloseReason)>,
}

/// Requests to close that a shard remembers.
const EARLY_CLOSES_MAX: usize = 32;

/// The entry of a connection in the hub. Dropping it removes the connection, also in a panic.
#[derive(Debug)]
pub(crate) struct Listing {
    hub: Arc<Hub>,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Guest(u64),
    Member(Arc<Handle>),
}

impl Hub {
    /// The clocks.
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// The gateway's metrics.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(crate) fn new(clock: Clock, metrics: Metrics, limits: &Limits) -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        let (guests, hasher) = (Mutex::default(), RandomState::new());
        let Limits { slow_grace, urgent_frames, .. } = *limits;
        Self { shards, guests, hasher, clock, metrics, slow_grace, urgent_frames }
    }

    fn shard(&self, user_id: &UserId) -> MutexGuard<'_, Shard> {
        let shard = self.hasher.hash_one(user_id) as usize % SHARDS;
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists an admitted connection: from now on it receives pushes.
    pub(crate) fn list(self: &Arc<Self>, handle: Arc<Handle>) -> Listing {
        let identity = handle.identity().expect("only identified connections are listed");
        let user_id = identity.key.user_id.clone();
        let connection_id = identity.key.connection_id;
        let mut shard = self.shard(&user_id);
        shard.users.entry(user_id).or_default().push(Arc::clone(&handle));
        let early = shard.early_closes.iter().find(|(early, _)| *early == connection_id).copied();
        drop(shard);
        if let Some((_, reason)) = early {
            handle.stop(reason);
        }
        self.metrics.connections.inc();
        self.metrics.connections_active.inc();
        Listing { hub: Arc::clone(self), place: Place::Member(handle) }
    }

    /// Lists a socket without a user, so that a drain reaches it: one that has not authenticated
    /// yet, or an anonymous party client.
    pub(crate) fn list_guest(self: &Arc<Self>, number: u64, handle: Arc<Handle>) -> Listing {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner).insert(number, handle);
        self.metrics.connections_unauthenticated.inc();
        Listing { hub: Arc::clone(self), place: Place::Guest(number) }
    }

    /// Queues a frame for every connection of a user except one, and adds those that must be
    /// flushed to `touched`. Returns the number of connections, or `None` if the user has none here.
    pub(crate) fn push(
        &self,
        user_id: &UserId,
        frame: &Bytes,
        except: Option<ConnectionId>,
        now: Instant,
        touched: &mut Vec<Arc<Handle>>,
    ) -> Option<usize> {
        let mut queued = 0;
        let shard = self.shard(user_id);
        for handle in shard.users.get(user_id)? {
            tracing::trace!(target: "heartline::life", message_stop = 13, "queued");
            let is_excepted = except.is_some() && handle.connection_id() == except;
            if is_excepted || !handle.is_chat() {
                continue;
            }
            let Some(pushed) = handle.outbox.push(frame, now) else { continue };
            queued += 1;
            if pushed.first {
                touched.push(Arc::clone(handle));
            }
            self.pressed(handle, pushed.verdict);
        }
        Some(queued)
    }

    /// Stop 13 of the life of a message: queued. Writes a frame to every connection of a user except
    /// one, at once if its outbox is empty. `found` is empty before and after the call; it saves an
    /// allocation.
    pub(crate) fn write(
        &self,
        user_id: &UserId,
        frame: &Bytes,
        except: Option<ConnectionId>,
        now: Instant,
        found: &mut Vec<Arc<Handle>>,
    ) -> Option<usize> {
        found.extend(self.shard(user_id).users.get(user_id)?.iter().cloned());
        tracing::trace!(target: "heartline::life", message_stop = 13, "queued");
        let mut delivered = 0;
        for handle in found.drain(..).filter(|handle| handle.is_chat()) {
            let is_excepted = except.is_some() && handle.connection_id() == except;
            delivered += usize::from(!is_excepted && self.write_to(&handle, frame, now));
        }
        Some(delivered)
    }

    /// Writes a frame to one connection, at once if its outbox is empty. False if the connection is
    /// closing.
    pub(crate) fn write_to(&self, handle: &Handle, frame: &Bytes, now: Instant) -> bool {
        match handle.deliver(frame, now) {
            None => return false,
            Some(Delivered::Written) => {}
            Some(Delivered::Queued(pushed)) => {
                self.pressed(handle, pushed.verdict);
                if pushed.first {
                    handle.outbox.wake();
                }
            }
        }
        true
    }

    /// The chat connections of a user.
    pub(crate) fn connections_of(&self, user_id: &UserId) -> Handles {
        let shard = self.shard(user_id);
        let handles = shard.users.get(user_id).into_iter().flatten();
        handles.filter(|handle| handle.is_chat()).cloned().collect()
    }

    /// Sends `resync_required` for these chats, or all, to the connections of a user.
    pub(crate) fn resync(
        &self,
        user_id: &UserId,
        chat_ids: Option<&[ChatId]>,
        reason: ResyncReason,
    ) {
        for handle in self.connections_of(user_id) {
            self.resync_one(&handle, chat_ids, reason);
        }
    }

    /// Sends `resync_required` for these chats, or all, to every connection of this node.
    pub(crate) fn resync_all(&self, chat_ids: Option<&[ChatId]>, reason: ResyncReason) {
        for handle in self.all().into_iter().filter(|handle| handle.identity().is_some()) {
            self.resync_one(&handle, chat_ids, reason);
        }
    }

    fn resync_one(&self, handle: &Handle, chat_ids: Option<&[ChatId]>, reason: ResyncReason) {
        let Some(connection_id) = handle.connection_id().filter(|_| handle.is_chat()) else {
            return;
        };
        if handle.outbox.urgent_frames() >= self.urgent_frames {
            return handle.stop(CloseReason::SlowConsumer);
        }
        // The connection's id spreads the syncs of many connections over the delay.
        let delay_ms = (connection_id.ulid.0 as u64) % RESYNC_DELAY_MS_MAX;
        let chat_ids = chat_ids.map(<[ChatId]>::to_vec);
        let reason = reason.as_str();
        let frame = ServerFrame::ResyncRequired { reason: reason.to_owned(), chat_ids, delay_ms };
        handle.signal(text_frame(&encode_server(&frame, self.clock.wall())));
        self.metrics.resync_forced(reason);
    }

    /// Applies the verdict of the slow-consumer rule. Frames queued here are written by the flush
    /// that follows every push, or by the close.
    pub(crate) fn pressed(&self, handle: &Handle, verdict: Verdict) {
        match verdict {
            Verdict::Fine => {}
            Verdict::Elevated => {
                self.metrics.outbox_elevated.inc();
                let connection_id = handle.identity().map(|identity| identity.key.connection_id);
                let Load { messages, bytes } = handle.outbox.load();
                info!(?connection_id, messages, bytes, "outbox over 80 percent");
            }
            Verdict::Slow => {
                self.metrics.slow_consumer_warnings.inc();
                let warning = encode_server(&slow_consumer(self.slow_grace), self.clock.wall());
                handle.outbox.push_urgent(text_frame(&warning));
                handle.outbox.wake();
            }
            // The connection's task closes, and sends a warning first if there was none.
            Verdict::Close { .. } => handle.outbox.wake(),
        }
    }

    /// Asks a connection to close, now or as soon as it is listed.
    pub(crate) fn close(&self, lease: &LeaseKey, reason: CloseReason) {
        let mut shard = self.shard(&lease.user_id);
        if let Some(handle) = shard.find(lease) {
            handle.stop(reason);
        } else {
            if shard.early_closes.len() == EARLY_CLOSES_MAX {
                shard.early_closes.pop_front();
            }
            shard.early_closes.push_back((lease.connection_id, reason));
        }
    }

    /// A connection by its lease.
    pub fn find(&self, lease: &LeaseKey) -> Option<Arc<Handle>> {
        self.shard(&lease.user_id).find(lease).cloned()
    }

    /// Every connection of this node, guests first, then shard by shard.
    pub fn all(&self) -> Vec<Arc<Handle>> {
        let guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<Arc<Handle>> = guests.values().cloned().collect();
        drop(guests);
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(shard.users.values().flatten().cloned());
        }
        all
    }

    /// The leases of the connections that the filter selects.
    fn leases(&self, is_selected: impl Fn(ConnectionId) -> bool) -> Vec<LeaseKey> {
        let mut leases = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let keys = shard.users.values().flatten().filter_map(|handle| handle.identity());
            let keys = keys.map(|identity| &identity.key);
            leases.extend(keys.filter(|key| is_selected(key.connection_id)).cloned());
        }
        leases
    }

    fn unlist(&self, handle: &Arc<Handle>) {
        let identity = handle.identity().expect("only identified connections are listed");
        let mut shard = self.shard(&identity.key.user_id);
        if let Some(handles) = shard.users.get_mut(&identity.key.user_id) {
            handles.retain(|other| !Arc::ptr_eq(other, handle));
            if handles.is_empty() {
                shard.users.remove(&identity.key.user_id);
            }
        }
        self.metrics.connections_active.dec();
    }
}

impl Shard {
    fn find(&self, lease: &LeaseKey) -> Option<&Arc<Handle>> {
        let is_it = |handle: &&Arc<Handle>| {
            handle.identity().is_some_and(|identity| identity.key == *lease)
        };
        self.users.get(&lease.user_id)?.iter().find(is_it)
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        match &self.place {
            Place::Member(handle) => self.hub.unlist(handle),
            Place::Guest(number) => {
                let mut guests = self.hub.guests.lock().unwrap_or_else(PoisonError::into_inner);
                guests.remove(number);
                self.hub.metrics.connections_unauthenticated.dec();
            }
        }
    }
}

// === impl LocalLeases ===

impl LocalLeases for Hub {
    fn leases_to_renew(&self, slice: u64, slices: u64) -> Vec<LeaseKey> {
        self.leases(|id| u64::from(id.shard) % slices == slice)
    }

    fn leases_to_extend(&self, slice: u64, slices: u64) -> Vec<LeaseKey> {
        self.leases(|id| (id.ulid.0 as u64) % slices == slice)
    }

    fn lease_again(&self, lease: &LeaseKey) -> Option<Lease> {
        self.find(lease)?.lease_again(self.clock.now())
    }

    fn counts(&self) -> ConnectionCounts {
        let several = |shard: &Mutex<Shard>| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.users.values().filter(|handles| handles.len() > 1).count()
        };
        ConnectionCounts {
            connections: self.metrics.connections_active.get().try_into().unwrap_or(0),
            multi_device_users: self.shards.iter().map(several).sum(),
        }
    }
}

// === impl LeaseLosses ===

impl LeaseLosses for Hub {
    fn lease_healed(&self, lease: &LeaseKey) {
        let Some(handle) = self.find(lease) else { return };
        self.resync_one(&handle, None, ResyncReason::LeaseLost);
    }

    fn all_healed(&self) {
        self.resync_all(None, ResyncReason::LeaseLost);
    }

    fn lease_replaced(&self, lease: &LeaseKey) {
        self.close(lease, CloseReason::SessionReplaced);
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use heartline_routing::LeaseKind;
    use prometheus_client::metrics::counter::Counter;

    use super::*;
    use crate::budget::Budget;
    use crate::handle::Identity;
    use crate::outbox::{Outbox, Signal};
    use crate::pressure::Bounds;

    fn handle(number: u128) -> Arc<Handle> {
        let bounds = Bounds { messages: 10, bytes: 1000, grace: Duration::from_secs(5) };
        let outbox = Outbox::new(bounds, Arc::new(Budget::new(1000)), Counter::default());
        let handle = Handle::new(outbox, None, Clock::system().now(), LeaseKind::Chat);
        let key = LeaseKey {
            user_id: "ana".parse().unwrap(),
            node_id: "node".parse().unwrap(),
            connection_id: ConnectionId { ulid: number.into(), shard: 0 },
        };
        handle.identify(Identity { key, device_id: "phone".parse().unwrap(), is_leased: true });
        Arc::new(handle)
    }

    fn signal(handle: &Handle) -> Poll<Signal> {
        handle.outbox.poll_signal(&mut Context::from_waker(Waker::noop()), None)
    }

    #[test]
    fn a_request_to_close_waits_for_a_connection_that_is_not_listed_yet() {
        let hub = Arc::new(Hub::new(Clock::system(), Metrics::default(), &Limits::default()));
        let (older, newer) = (handle(1), handle(2));
        hub.close(&older.identity().unwrap().key, CloseReason::SessionReplaced);
        let listings = [hub.list(Arc::clone(&older)), hub.list(Arc::clone(&newer))];
        assert_eq!(signal(&older), Poll::Ready(Signal::Stop(CloseReason::SessionReplaced)));
        assert_eq!(signal(&newer), Poll::Pending);
        drop(listings);
        assert!(hub.all().is_empty(), "a listing ends with its owner");
    }

    #[test]
    fn a_full_urgent_lane_ends_the_connection_at_the_configured_number_of_frames() {
        let limits = Limits { urgent_frames: 2, ..Limits::default() };
        let hub = Arc::new(Hub::new(Clock::system(), Metrics::default(), &limits));
        let handle = handle(1);
        let _listing = hub.list(Arc::clone(&handle));
        for _ in 0..2 {
            hub.resync_all(None, ResyncReason::DeliveryGap);
            assert_eq!(signal(&handle), Poll::Ready(Signal::Writable));
        }
        hub.resync_all(None, ResyncReason::DeliveryGap);
        assert_eq!(signal(&handle), Poll::Ready(Signal::Stop(CloseReason::SlowConsumer)));
        assert_eq!(handle.outbox.urgent_frames(), 2);
    }
}
