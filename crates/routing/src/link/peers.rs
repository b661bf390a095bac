//! The other nodes that this node knows.
//!
//! The directory lists them while it answers. Nodes that it lists no longer are remembered for a
//! while, because the directory itself may have failed; nodes that send a status over the direct
//! link are known even if the directory never listed them.

use std::sync::Arc;
use std::time::Duration;

use heartline_protocol::NodeId;
use heartline_runtime::Map;
use tokio::time::Instant;

use super::parcel::Status;
use crate::directory::LiveNode;

/// How long a node that is neither listed nor heard from is remembered.
pub const PEER_MEMORY: Duration = Duration::from_secs(600);

/// How long a node's status is valid.
pub const STATUS_AGE_MAX: Duration = Duration::from_secs(3);

/// How long the broker is not used for a node after it returned a parcel for that node.
const RETURN_PAUSE: Duration = Duration::from_secs(1);

/// How long the link to a node may be idle before a probe is sent.
const PROBE_AFTER: Duration = Duration::from_secs(2);

/// Nodes that are remembered at most. Further ones are reached through the broker only.
const PEERS_MAX: usize = 1024;

/// The last status of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerStatus {
    /// The node.
    pub node_id: NodeId,
    /// Whether the broker reached it.
    pub broker_is_healthy: bool,
    /// How long ago it was sent.
    pub age: Duration,
}

#[derive(Debug)]
struct Peer {
    address: Option<Arc<str>>,
    /// When the directory last listed it, or it last sent anything.
    seen_at: Instant,
    listed_at: Option<Instant>,
    status: Option<(bool, Instant)>,
    returned_at: Option<Instant>,
    /// When a parcel was last sent to it through the broker.
    broker_sent_at: Option<Instant>,
}

/// How a parcel goes to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Way {
    /// Through the broker; directly to this address if that does not work.
    Broker(Option<Arc<str>>),
    /// Directly to this address.
    Direct(Arc<str>),
    /// Directly to this address; through the broker if that does not work, although the broker has
    /// just returned a parcel.
    DirectOrBroker(Arc<str>),
}

/// The other nodes.
#[derive(Debug)]
pub(super) struct Peers {
    own: NodeId,
    nodes: Map<NodeId, Peer>,
}

impl Peers {
    pub(super) fn new(own: NodeId) -> Self {
        Self { own, nodes: Map::default() }
    }

    /// Records the nodes that the directory lists. Returns those that were not known.
    pub(super) fn listed(&mut self, nodes: Vec<LiveNode>, now: Instant) -> Vec<NodeId> {
        let records = nodes.into_iter().map(|node| node.record);
        let mut added = Vec::new();
        for record in records {
            added.extend(self.add(&record.node_id, record.address, now));
            if let Some(peer) = self.nodes.get_mut(&record.node_id) {
                peer.listed_at = Some(now);
            }
        }
        added
    }

    /// Records that a node was found at an address, or sent something. Returns it if it was not
    /// known.
    pub(super) fn add(
        &mut self,
        node_id: &NodeId,
        address: Option<String>,
        now: Instant,
    ) -> Option<NodeId> {
        if *node_id == self.own {
            return None;
        }
        if let Some(peer) = self.nodes.get_mut(node_id) {
            peer.seen_at = now;
            if address.is_some() && address.as_deref() != peer.address.as_deref() {
                peer.address = address.map(Into::into);
            }
            return None;
        }
        if self.nodes.len() == PEERS_MAX {
            return None;
        }
        let (listed_at, status, returned_at, broker_sent_at) = (None, None, None, None);
        let address = address.map(Into::into);
        let peer = Peer { address, seen_at: now, listed_at, status, returned_at, broker_sent_at };
        self.nodes.insert(node_id.clone(), peer);
        Some(node_id.clone())
    }

    /// Records a node's status. Returns whether the broker reaches it, if that has changed.
    pub(super) fn record_status(
        &mut self,
        node_id: &NodeId,
        status: Status,
        now: Instant,
    ) -> Option<bool> {
        self.add(node_id, status.address, now);
        let is_healthy = status.broker_is_healthy;
        let before = self.nodes.get_mut(node_id)?.status.replace((is_healthy, now));
        let was_healthy = before.is_none_or(|(was_healthy, _)| was_healthy);
        (was_healthy != is_healthy).then_some(is_healthy)
    }

    /// Records that the broker returned a parcel for a node. Returns the node's address.
    pub(super) fn returned(&mut self, node_id: &NodeId, now: Instant) -> Option<Arc<str>> {
        let peer = self.nodes.get_mut(node_id)?;
        peer.returned_at = Some(now);
        peer.address.clone()
    }

    /// How a parcel for this node is sent now; none if it cannot be.
    pub(super) fn way(
        &mut self,
        node_id: &NodeId,
        broker_is_healthy: bool,
        now: Instant,
    ) -> Option<Way> {
        let Some(peer) = self.nodes.get_mut(node_id) else {
            // A node that has just started may be named by a route before it is listed.
            return broker_is_healthy.then_some(Way::Broker(None));
        };
        if broker_is_healthy && peer.takes_broker(now) {
            peer.broker_sent_at = Some(now);
            return Some(Way::Broker(peer.address.clone()));
        }
        let may_hear_broker = broker_is_healthy && !peer.is_cut_off(now);
        match peer.address.clone() {
            Some(address) if may_hear_broker => Some(Way::DirectOrBroker(address)),
            Some(address) => Some(Way::Direct(address)),
            None => broker_is_healthy.then_some(Way::Broker(None)),
        }
    }

    /// The nodes that the broker reaches and that were sent nothing for a while. The caller sends
    /// each a probe now.
    pub(super) fn probes_due(&mut self, now: Instant) -> Vec<NodeId> {
        let is_due = |peer: &Peer| {
            let is_idle = peer.broker_sent_at.is_none_or(|sent_at| now - sent_at >= PROBE_AFTER);
            is_idle && peer.takes_broker(now)
        };
        let due = self.nodes.iter_mut().filter(|(_, peer)| is_due(peer));
        due.map(|(node_id, peer)| {
            peer.broker_sent_at = Some(now);
            node_id.clone()
        })
        .collect()
    }

    /// Every node with its address, if that is known.
    pub(super) fn addresses(&self) -> Vec<(NodeId, Option<Arc<str>>)> {
        self.nodes.iter().map(|(node_id, peer)| (node_id.clone(), peer.address.clone())).collect()
    }

    /// Every node.
    pub(super) fn node_ids(&self) -> Vec<NodeId> {
        self.nodes.keys().cloned().collect()
    }

    /// Whether a node is known.
    pub(super) fn knows(&self, node_id: &NodeId) -> bool {
        self.nodes.contains_key(node_id)
    }

    /// The nodes whose last status says that the broker does not reach them.
    pub(super) fn cut_off(&self, now: Instant) -> Vec<NodeId> {
        let cut_off = self.nodes.iter().filter(|(_, peer)| peer.is_cut_off(now));
        cut_off.map(|(node_id, _)| node_id.clone()).collect()
    }

    /// The valid statuses of nodes.
    pub(super) fn statuses(&self, now: Instant) -> Vec<PeerStatus> {
        let status = |(node_id, peer): (&NodeId, &Peer)| {
            let (broker_is_healthy, said_at) = peer.status?;
            let age = now.saturating_duration_since(said_at);
            let node_id = node_id.clone();
            (age < STATUS_AGE_MAX).then_some(PeerStatus { node_id, broker_is_healthy, age })
        };
        self.nodes.iter().filter_map(status).collect()
    }

    /// Removes nodes that were not seen for long, and nodes that the direct link reports as gone
    /// unless the directory still lists them. Returns the removed nodes.
    pub(super) fn forget(
        &mut self,
        is_gone: impl Fn(&NodeId) -> bool,
        now: Instant,
    ) -> Vec<NodeId> {
        let is_over = |(node_id, peer): &(&NodeId, &Peer)| {
            let is_listed = peer
                .listed_at
                .is_some_and(|listed_at| now.saturating_duration_since(listed_at) < STATUS_AGE_MAX);
            let is_old = now.saturating_duration_since(peer.seen_at) >= PEER_MEMORY;
            is_old || (!is_listed && is_gone(node_id))
        };
        let over = self.nodes.iter().filter(is_over).map(|(node_id, _)| node_id.clone());
        let over: Vec<_> = over.collect();
        for node_id in &over {
            self.nodes.remove(node_id);
        }
        over
    }
}

impl Peer {
    fn takes_broker(&self, now: Instant) -> bool {
        let rests =
            self.returned_at.is_some_and(|at| now.saturating_duration_since(at) < RETURN_PAUSE);
        !rests && !self.is_cut_off(now)
    }

    fn is_cut_off(&self, now: Instant) -> bool {
        self.status.is_some_and(|(broker_is_healthy, said_at)| {
            !broker_is_healthy && now.saturating_duration_since(said_at) < STATUS_AGE_MAX
        })
    }
}

#[cfg(test)]
mod tests;
