//! The link of a node to all others.
//!
//! Envelopes go through the broker while it works for both ends, and directly while it does not.
//! Each node probes its own link to the broker every second and sends its status to the others over
//! the direct links, so that within five seconds of any interruption every node uses the transport
//! that works.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{join, join_all};
use heartline_protocol::NodeId;
use heartline_runtime::{Clock, Map};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::{debug, info, warn};

use super::carrier::{Carrier, DirectCarrier, Reach, Refused, Returned};
use super::envelope::Envelope;
use super::health::{HealthChange, WORSE_OFF_AGE};
use super::metrics::LinkMetrics;
use super::parcel::{PARCEL_BYTES_MAX, Parcel, Status};
use super::peers::{PeerStatus, Way};
use super::reception::Reception;
use super::{LinkError, NodeLink};
use crate::directory::Nodes;

/// How often the link checks whether something is due.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// How often a node probes its link to the broker, sends its status and lists the nodes.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// How long listing the nodes may take.
const NODES_TIMEOUT: Duration = Duration::from_secs(1);

/// How often configured addresses without a known node are asked for one.
const IDENTIFY_INTERVAL: Duration = Duration::from_secs(2);

/// The parts of the link.
#[derive(Debug)]
pub struct ClusterParts {
    /// Where other nodes reach this one directly, as `host:port`.
    pub address: Option<String>,
    /// Addresses where other nodes may be found although the directory is down (`cluster.peers`).
    /// The node's own may be among them.
    pub peers: Vec<String>,
    /// The receiving end.
    pub reception: Arc<Reception>,
    /// Carries parcels through the broker.
    pub broker: Arc<dyn Carrier>,
    /// Carries parcels without the broker.
    pub direct: Arc<dyn DirectCarrier>,
    /// The nodes that are announced.
    pub nodes: Arc<dyn Nodes>,
    /// The clocks.
    pub clock: Clock,
}

/// The link of a node to all others.
#[derive(Debug)]
pub struct ClusterLink(ClusterParts);

impl ClusterLink {
    /// A link of these parts, which works while [`run`](Self::run) runs.
    pub fn new(parts: ClusterParts) -> Arc<Self> {
        Arc::new(Self(parts))
    }

    /// Maintains the link for ever: probes it, exchanges statuses, lists the nodes, and sends
    /// parcels that the broker returned again.
    pub async fn run(self: Arc<Self>, returned: mpsc::Receiver<Returned>) {
        let upkeep = join(self.check_for_ever(), self.list_for_ever());
        let rest = join(self.identify_peers_for_ever(), self.send_again(returned));
        join(upkeep, rest).await;
    }

    /// Waits until parcels that are sent to this node through the broker arrive. A node announces
    /// itself, and registers connections, only afterwards.
    pub async fn subscribed(&self) {
        self.0.reception.health().subscribed().await;
    }

    /// Whether the broker carries parcels from and to this node.
    pub fn broker_is_healthy(&self) -> bool {
        self.0.reception.health().is_healthy()
    }

    /// The statuses that other nodes sent in the last seconds.
    pub fn peer_statuses(&self) -> Vec<PeerStatus> {
        self.0.reception.peers().statuses(self.0.clock.now())
    }

    /// Whether clients would be better off elsewhere: this node's link to the broker has been down
    /// for a while, and another node's is up.
    pub fn is_worse_off(&self) -> bool {
        let (now, silence) = (self.0.clock.now(), self.0.nodes.silence());
        self.0.reception.health().proof_age(now, silence) >= WORSE_OFF_AGE
            && self.peer_statuses().iter().any(|status| status.broker_is_healthy)
    }

    /// How many gaps were detected so far; see [`Reception::gaps`].
    pub fn gaps(&self) -> watch::Receiver<u64> {
        self.0.reception.gaps()
    }

    fn metrics(&self) -> &LinkMetrics {
        self.0.reception.metrics()
    }
}

#[async_trait]
impl NodeLink for ClusterLink {
    async fn send(&self, node_id: &NodeId, envelope: Envelope) -> Result<(), LinkError> {
        let reception = &self.0.reception;
        if node_id == reception.own() {
            return reception.send(envelope).await.map_err(|_| LinkError::Gone);
        }
        let sent = self.send_across(node_id, &envelope).await;
        if sent.is_err() {
            self.lose(node_id);
        }
        sent
    }

    fn peers(&self) -> Vec<NodeId> {
        self.0.reception.peers().node_ids()
    }

    fn cut_off(&self) -> Vec<NodeId> {
        self.0.reception.peers().cut_off(self.0.clock.now())
    }
}

impl ClusterLink {
    /// Passes an envelope to a carrier that accepts it.
    async fn send_across(&self, node_id: &NodeId, envelope: &Envelope) -> Result<(), LinkError> {
        let reception = &self.0.reception;
        let (is_healthy, now) = (self.broker_is_healthy(), self.0.clock.now());
        let way = reception.peers().way(node_id, is_healthy, now).ok_or(LinkError::Gone)?;
        let parcel = Parcel::envelope(reception.own(), envelope);
        if parcel.len() > PARCEL_BYTES_MAX {
            warn!(node = %node_id, bytes = parcel.len(), "envelope dropped: too large");
            self.metrics().dropped("too_large");
            return Err(LinkError::Full);
        }
        let (broker, direct) = (&self.0.broker, &self.0.direct);
        let carried = match &way {
            Way::Broker(address) => {
                let address = address.as_deref();
                match broker.carry(node_id, address, parcel).await {
                    Err(refused) if address.is_some() => {
                        direct.carry(node_id, address, refused.parcel).await
                    }
                    carried => carried,
                }
            }
            Way::Direct(address) => direct.carry(node_id, Some(&**address), parcel).await,
            Way::DirectOrBroker(address) => {
                let address = Some(&**address);
                match direct.carry(node_id, address, parcel).await {
                    Err(refused) => broker.carry(node_id, address, refused.parcel).await,
                    carried => carried,
                }
            }
        };
        carried.map_err(|refused| refused.error)
    }

    /// Makes the receiver detect a gap for an envelope that no carrier accepted. On the direct
    /// transport the next status shows it; while that transport does not work, the broker's next
    /// parcel may.
    fn lose(&self, node_id: &NodeId) {
        match self.0.direct.reach(node_id) {
            Reach::Connected => self.0.direct.lose(node_id),
            Reach::Unknown | Reach::Unreachable | Reach::Gone => self.0.broker.lose(node_id),
        }
    }
}

// === maintenance ===

impl ClusterLink {
    async fn check_for_ever(&self) {
        let mut ticks = interval(CHECK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let per_status = STATUS_INTERVAL.as_millis() / CHECK_INTERVAL.as_millis();
        for tick in 0_u64.. {
            ticks.tick().await;
            let has_changed = self.evaluate();
            self.0.reception.check(self.0.clock.now());
            let is_status_due = u128::from(tick) % per_status == 0;
            let echo = self.send_echo(is_status_due);
            let statuses = self.send_statuses(is_status_due || has_changed);
            join(join(echo, self.send_probes()), statuses).await;
            if is_status_due {
                self.update_peers();
            }
        }
    }

    /// Evaluates the link to the broker. Returns whether its state has changed.
    fn evaluate(&self) -> bool {
        let (now, silence) = (self.0.clock.now(), self.0.nodes.silence());
        let change = self.0.reception.health().evaluate(now, silence);
        match change {
            Some(HealthChange { is_healthy: true, after }) => {
                info!(down_seconds = after.as_secs(), "broker link recovered");
            }
            Some(HealthChange { is_healthy: false, .. }) => {
                warn!("broker link down: envelopes go over direct links");
            }
            None => {}
        }
        self.metrics().broker_is_healthy.set(self.broker_is_healthy().into());
        change.is_some()
    }

    /// Sends this node a probe through the broker.
    async fn send_echo(&self, is_due: bool) {
        if !is_due {
            return;
        }
        let own = self.0.reception.own();
        // A refused probe does not arrive, which is the failure that it detects.
        let _ = self.0.broker.carry(own, None, Parcel::probe(own)).await;
    }

    /// Sends a probe through the broker to every node that was sent nothing for a while.
    async fn send_probes(&self) {
        if !self.broker_is_healthy() {
            return;
        }
        let own = self.0.reception.own();
        let due = self.0.reception.peers().probes_due(self.0.clock.now());
        // A probe that is refused is due again later.
        let probes =
            due.iter().map(|node_id| self.0.broker.carry(node_id, None, Parcel::probe(own)));
        join_all(probes).await;
    }

    /// Sends this node's status to every node.
    async fn send_statuses(&self, is_due: bool) {
        if !is_due {
            return;
        }
        let own = self.0.reception.own();
        let broker_is_healthy = self.broker_is_healthy();
        let addresses = self.0.reception.peers().addresses();
        let statuses = addresses.iter().filter_map(|(node_id, address)| {
            let broker_number = self.0.broker.last_number(node_id);
            let status =
                Status { broker_is_healthy, broker_number, address: self.0.address.clone() };
            let parcel = Parcel::status(own, &status);
            Some(self.0.direct.carry(node_id, Some(address.as_deref()?), parcel))
        });
        // The carrier records that a node is unreachable.
        join_all(statuses).await;
    }

    /// Removes nodes that are gone, and sets the gauges.
    fn update_peers(&self) {
        let now = self.0.clock.now();
        let is_gone = |node_id: &NodeId| self.0.direct.reach(node_id) == Reach::Gone;
        let forgotten = self.0.reception.peers().forget(is_gone, now);
        for node_id in &forgotten {
            info!(node = %node_id, "node gone");
            self.0.broker.forget(node_id);
            self.0.direct.forget(node_id);
        }
        self.0.reception.forget_silent(now);
        let peers = self.peers();
        let is_connected = |node_id: &&NodeId| self.0.direct.reach(node_id) == Reach::Connected;
        let connected = peers.iter().filter(is_connected).count();
        let metrics = self.metrics();
        metrics.peers.set(peers.len() as i64);
        metrics.peers_connected.set(connected as i64);
        metrics.peers_cut_off.set(self.cut_off().len() as i64);
    }

    /// Lists the nodes once a second.
    async fn list_for_ever(&self) {
        let mut ticks = interval(STATUS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // While the directory does not answer, the last known nodes are used.
            let Ok(Ok(nodes)) = timeout(NODES_TIMEOUT, self.0.nodes.nodes()).await else {
                continue;
            };
            let now = self.0.clock.now();
            for node_id in self.0.reception.peers().listed(nodes, now) {
                info!(node = %node_id, "node found");
            }
        }
    }

    /// Asks the configured addresses for their node ids while those are not known.
    async fn identify_peers_for_ever(&self) {
        let mut ticks = interval(IDENTIFY_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut known: Map<&str, NodeId> = Map::default();
        loop {
            ticks.tick().await;
            known.retain(|_, node_id| {
                *node_id == *self.0.reception.own() || self.0.reception.peers().knows(node_id)
            });
            let unknown =
                self.0.peers.iter().filter(|address| !known.contains_key(address.as_str()));
            let asked =
                unknown.map(async |address| (address, self.0.direct.who_is_at(address).await));
            for (address, answer) in join_all(asked).await {
                let Ok(node_id) = answer else { continue };
                let now = self.0.clock.now();
                let added = self.0.reception.peers().add(&node_id, Some(address.clone()), now);
                if let Some(node_id) = added {
                    info!(node = %node_id, %address, "node found");
                }
                known.insert(address, node_id);
            }
        }
    }

    /// Sends parcels that the broker returned over direct links.
    async fn send_again(&self, mut returned: mpsc::Receiver<Returned>) {
        while let Some(Returned { receiver, parcel }) = returned.recv().await {
            if receiver == *self.0.reception.own() {
                continue;
            }
            let address = self.0.reception.peers().returned(&receiver, self.0.clock.now());
            if !parcel.is_envelope() {
                continue;
            }
            match self.0.direct.carry(&receiver, address.as_deref(), parcel).await {
                Ok(()) => {
                    self.metrics().parcels_sent_again.inc();
                }
                // The receiver, if it is alive, sees a gap in the numbers.
                Err(Refused { error, .. }) => {
                    debug!(node = %receiver, %error, "parcel dropped: neither transport accepted it");
                    self.metrics().dropped("undeliverable");
                }
            }
        }
        // The carrier has ended and returns nothing more.
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests;
