//! The receiving end: turns parcels from other nodes into envelopes in this node's inbox.
//!
//! Lost parcels are detected here: by a gap in the numbers, by an interrupted subscription to the
//! broker, by a sender's status that names a later number, or because the inbox was full. Every
//! loss ends in one `Resync` for every connection of the node, and raises a count that others
//! watch.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use heartline_protocol::NodeId;
use heartline_runtime::{Clock, Map, Set};
use tokio::sync::mpsc::error::{SendError, TrySendError};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::envelope::{Envelope, ResyncReason};
use super::gaps::Gaps;
use super::health::Health;
use super::metrics::{LinkMetrics, Transport};
use super::numbering::{Arrival, Received};
use super::parcel::{Arrived, Content, ParcelError, Status};
use super::peers::Peers;

/// Envelopes that the inbox holds. Senders on this node and direct links wait for room; a parcel
/// from the broker waits 50 ms and is then dropped, which is a gap.
pub const INBOX_ENVELOPES: usize = 1024;

/// How long a full inbox may block the subscription to the broker. After it did, nothing waits for
/// as long again, so that the subscription reads at least half of the time.
const INBOX_TIME: Duration = Duration::from_millis(50);

/// How long a silent sender is remembered. Every live one sends probes.
const SENDER_MEMORY: Duration = Duration::from_secs(600);

/// Senders that are remembered at most. Fewer are alive at once.
const SENDERS_MAX: usize = 1024;

/// Unknown versions and kinds of senders that are remembered as logged.
const LOGGED_MAX: usize = 4096;

/// The inbox was dropped: the node is stopping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this node's inbox has ended")]
pub struct InboxEnded;

/// The receiving end of this node's links.
#[derive(Debug)]
pub struct Reception {
    own: NodeId,
    inbox: mpsc::Sender<Envelope>,
    state: Mutex<State>,
    peers: Mutex<Peers>,
    health: Health,
    gaps: Gaps,
    metrics: LinkMetrics,
    clock: Clock,
}

#[derive(Debug, Default)]
struct State {
    senders: Map<NodeId, Sender>,
    /// Until when a parcel is dropped at once if the inbox is full.
    sheds_until: Option<Instant>,
    /// Unknown versions and kinds that were logged, each once per sender.
    logged: Set<(Option<NodeId>, Unknown)>,
}

/// A part of the format that this release does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Unknown {
    Version(u8),
    Kind(u8),
}

#[derive(Debug)]
struct Sender {
    broker: Received,
    direct: Received,
}

impl Reception {
    /// The receiving end, and the queue that the node's inbox reads.
    pub fn new(
        own: NodeId,
        clock: Clock,
        metrics: LinkMetrics,
    ) -> (Arc<Self>, mpsc::Receiver<Envelope>) {
        let (inbox, envelopes) = mpsc::channel(INBOX_ENVELOPES);
        let reception = Self {
            inbox,
            state: Mutex::default(),
            peers: Mutex::new(Peers::new(own.clone())),
            own,
            health: Health::new(clock.now()),
            gaps: Gaps::new(),
            metrics,
            clock,
        };
        (Arc::new(reception), envelopes)
    }

    /// Processes a parcel that arrived on a transport. Parcels must be passed in arrival order.
    ///
    /// # Errors
    /// The inbox has ended.
    pub async fn receive(&self, transport: Transport, bytes: Bytes) -> Result<(), InboxEnded> {
        let metrics = self.metrics.of(transport);
        metrics.parcels_received.inc();
        metrics.bytes_received.inc_by(bytes.len() as u64);
        let arrived = match Arrived::open(bytes) {
            Ok(arrived) => arrived,
            Err(ParcelError::Version { version, sender }) => {
                self.metrics.dropped("unknown_version");
                self.warn_of_version(sender.as_ref(), version);
                return Ok(());
            }
            Err(ParcelError::Malformed(error)) => {
                debug!(%error, "parcel dropped: malformed header");
                self.metrics.dropped("malformed");
                return Ok(());
            }
        };
        if arrived.sender == self.own {
            if transport == Transport::Broker {
                self.health.echo(self.clock.now());
            }
            return Ok(());
        }
        if !self.is_new(transport, &arrived) {
            self.metrics.dropped("repeated");
            return Ok(());
        }
        let sender = arrived.sender.clone();
        match arrived.content() {
            Ok(Content::Envelope(envelope)) => self.deliver(transport, envelope).await?,
            Ok(Content::Probe) => {}
            Ok(Content::Status(status)) => self.record_status(&sender, status),
            Ok(Content::Unknown(kind)) => {
                self.metrics.dropped("unknown_kind");
                self.note_unknown_kind(&sender, kind);
            }
            Err(error) => {
                warn!(%error, node = %sender, "parcel dropped: malformed envelope");
                self.metrics.dropped("malformed");
                self.gap("malformed");
            }
        }
        Ok(())
    }

    /// Records that the subscription to the broker was interrupted and works again: parcels that
    /// were published meanwhile are lost, of any sender.
    pub fn resubscribed(&self) {
        for sender in self.lock().senders.values_mut() {
            sender.broker.ignore_next_gap();
        }
        self.gap("resubscribed");
    }

    /// The number of gaps that were detected so far. At each change, holders of a copy of data from
    /// other nodes read it again.
    pub fn gaps(&self) -> watch::Receiver<u64> {
        self.gaps.watch()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a parcel's numbers. Returns whether it was not received before.
    fn is_new(&self, transport: Transport, arrived: &Arrived) -> bool {
        let now = self.clock.now();
        let mut state = self.lock();
        let sender = state.sender(&arrived.sender, now);
        let is_new_otherwise =
            arrived.earlier.is_none_or(|earlier| sender.broker.arrive_otherwise(earlier));
        let received = match transport {
            Transport::Broker => &mut sender.broker,
            Transport::Direct => &mut sender.direct,
        };
        let (is_new, is_gap) = match arrived.is_envelope() {
            true => {
                let arrival = received.arrive(arrived.number, now);
                (arrival != Arrival::Repeat, arrival == Arrival::AfterGap)
            }
            false => (true, received.is_short_of(arrived.number, now)),
        };
        drop(state);
        if is_gap {
            debug!(node = %arrived.sender, transport = transport.as_str(), "link sequence gap");
            self.gap("numbers_jumped");
        }
        is_new && is_new_otherwise
    }

    fn warn_of_version(&self, sender: Option<&NodeId>, version: u8) {
        if self.lock().logs_first(sender, Unknown::Version(version)) {
            let node = sender.map_or("unknown", NodeId::as_str);
            warn!(node, version, "parcels dropped: the peer uses another link version");
        }
    }

    /// Later releases may send kinds that this one can ignore, so no connection has to sync.
    fn note_unknown_kind(&self, sender: &NodeId, kind: u8) {
        if self.lock().logs_first(Some(sender), Unknown::Kind(kind)) {
            info!(node = %sender, kind, "envelopes skipped: the peer sends an unknown kind");
        }
    }

    fn record_status(&self, sender: &NodeId, status: Status) {
        let now = self.clock.now();
        let broker_number = status.broker_number;
        self.lock().sender(sender, now).broker.promise(broker_number, now);
        match self.peers().record_status(sender, status, now) {
            Some(true) => info!(node = %sender, "peer reachable through the broker again"),
            Some(false) => warn!(node = %sender, "peer unreachable through the broker"),
            None => {}
        }
    }

    fn gap(&self, reason: &'static str) {
        self.metrics.gap(reason);
        self.gaps.note();
    }

    async fn deliver(&self, transport: Transport, envelope: Envelope) -> Result<(), InboxEnded> {
        let envelope = match self.inbox.try_send(envelope) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Closed(_)) => return Err(InboxEnded),
            Err(TrySendError::Full(envelope)) => envelope,
        };
        match transport {
            // The sender's queue fills meanwhile, and refuses further parcels.
            Transport::Direct => self.send(envelope).await,
            Transport::Broker => self.deliver_soon(envelope).await,
        }
    }

    /// Waits up to `INBOX_TIME` for room in the inbox, unless the last wait timed out.
    async fn deliver_soon(&self, envelope: Envelope) -> Result<(), InboxEnded> {
        let sheds = self.lock().sheds_until.is_some_and(|until| self.clock.now() < until);
        if !sheds {
            let room = self.inbox.reserve();
            match tokio::time::timeout(INBOX_TIME, room).await {
                Ok(Ok(room)) => {
                    room.send(envelope);
                    return Ok(());
                }
                Ok(Err(SendError(()))) => return Err(InboxEnded),
                Err(_) => self.lock().sheds_until = Some(self.clock.now() + INBOX_TIME),
            }
        }
        self.metrics.dropped("inbox_full");
        self.gap("inbox_full");
        Ok(())
    }

    // For the cluster link.

    /// Puts an envelope of this node itself into the inbox; waits for room.
    pub(super) async fn send(&self, envelope: Envelope) -> Result<(), InboxEnded> {
        self.inbox.send(envelope).await.map_err(|_| InboxEnded)
    }

    pub(super) fn peers(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn health(&self) -> &Health {
        &self.health
    }

    /// The metrics of the link.
    pub fn metrics(&self) -> &LinkMetrics {
        &self.metrics
    }

    pub(super) fn own(&self) -> &NodeId {
        &self.own
    }

    /// Detects parcels that a status named and that did not arrive in time, and makes the node's
    /// connections sync after a gap.
    pub(super) fn check(&self, now: Instant) {
        let mut overdue = Vec::new();
        for (node_id, sender) in &mut self.lock().senders {
            if sender.broker.is_overdue(now) {
                overdue.push(node_id.clone());
            }
        }
        for node_id in overdue {
            debug!(node = %node_id, "parcels overdue on the broker");
            self.gap("overdue");
        }
        if !self.gaps.is_due(now) {
            return;
        }
        let (user_ids, chat_ids, reason) = (None, None, ResyncReason::LinkGap);
        // If the inbox is full, the next check tries again.
        if self.inbox.try_send(Envelope::Resync { user_ids, chat_ids, reason }).is_ok() {
            self.gaps.resynced(now);
            self.metrics.resyncs.inc();
            warn!("link gap: every connection of this node must sync");
        }
    }

    /// Removes senders that have been silent for long.
    pub(super) fn forget_silent(&self, now: Instant) {
        let is_silent =
            |received_at: Instant| now.saturating_duration_since(received_at) >= SENDER_MEMORY;
        self.lock().senders.retain(|_, sender| !is_silent(sender.received_at()));
    }
}

impl State {
    /// Whether this was not logged for the sender yet.
    fn logs_first(&mut self, sender: Option<&NodeId>, unknown: Unknown) -> bool {
        if self.logged.len() >= LOGGED_MAX {
            self.logged.clear();
        }
        self.logged.insert((sender.cloned(), unknown))
    }

    fn sender(&mut self, node_id: &NodeId, now: Instant) -> &mut Sender {
        if self.senders.len() >= SENDERS_MAX && !self.senders.contains_key(node_id) {
            let oldest = self.senders.iter().min_by_key(|(_, sender)| sender.received_at());
            if let Some(oldest) = oldest.map(|(node_id, _)| node_id.clone()) {
                self.senders.remove(&oldest);
            }
        }
        let new = || Sender { broker: Received::new(now), direct: Received::new(now) };
        self.senders.entry(node_id.clone()).or_insert_with(new)
    }
}

impl Sender {
    fn received_at(&self) -> Instant {
        self.broker.received_at().max(self.direct.received_at())
    }
}

#[cfg(test)]
mod tests;
