//! The link of a node to all others.
//!
//! Envelopes go through Redis while that works for both ends, and directly while it does not. Each
//! node proves its own link to Redis every second and tells the others over the direct links, so
//! that within five seconds of any cut everybody sends the way that works.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{join, join_all};
use heartline_protocol::NodeId;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::{debug, info, warn};

use super::carrier::{Carrier, DirectCarrier, Reach, Refused, Returned};
use super::envelope::Envelope;
use super::health::WORSE_OFF_AGE;
use super::metrics::LinkMetrics;
use super::parcel::{PARCEL_BYTES_MAX, Parcel, Status};
use super::peers::{PeerStatus, Way};
use super::reception::Reception;
use super::{LinkError, NodeLink};
use crate::clock::Clock;
use crate::directory::Nodes;

/// How often the link looks whether something is due.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// How often a node proves its link to Redis, says how it is, and reads who is there.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// How long reading who is there may take.
const NODES_TIMEOUT: Duration = Duration::from_secs(1);

/// How often configured addresses where nobody is known are asked who is there.
const INTRODUCTION_INTERVAL: Duration = Duration::from_secs(2);

/// What the link is made of.
#[derive(Debug)]
pub struct ClusterParts {
    /// Where other nodes reach this one directly, as `host:port`.
    pub address: Option<String>,
    /// Addresses where other nodes may be found although the directory is down (`cluster.peers`).
    /// The node's own may be among them.
    pub peers: Vec<String>,
    /// The receiving end.
    pub reception: Arc<Reception>,
    /// Parcels through Redis.
    pub redis: Arc<dyn Carrier>,
    /// Parcels without it.
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
    /// A link of these parts. It works while [`run`](Self::run) does.
    pub fn new(parts: ClusterParts) -> Arc<Self> {
        Arc::new(Self(parts))
    }

    /// Keeps the link: proves it, tells and hears who is there, and sends again what Redis gave
    /// back, for ever.
    pub async fn run(self: Arc<Self>, returned: mpsc::Receiver<Returned>) {
        let upkeep = join(self.check_for_ever(), self.list_for_ever());
        let rest = join(self.introduce_for_ever(), self.send_again(returned));
        join(upkeep, rest).await;
    }

    /// Waits until what is sent to this node through Redis is heard. A node announces itself, and
    /// registers connections, only afterwards.
    pub async fn subscribed(&self) {
        self.0.reception.health().subscribed().await;
    }

    /// Whether Redis carries what this node sends and brings what it is sent.
    pub fn redis_is_healthy(&self) -> bool {
        self.0.reception.health().is_healthy()
    }

    /// What other nodes said of themselves in the last seconds.
    pub fn peer_statuses(&self) -> Vec<PeerStatus> {
        self.0.reception.peers().statuses(self.0.clock.now())
    }

    /// Whether clients would be better off elsewhere: this node's link to Redis has been down for
    /// a while, and another node's is up.
    pub fn is_worse_off(&self) -> bool {
        let (now, silence) = (self.0.clock.now(), self.0.nodes.silence());
        self.0.reception.health().proof_age(now, silence) >= WORSE_OFF_AGE
            && self.peer_statuses().iter().any(|status| status.redis_is_healthy)
    }

    /// How many losses were noticed so far; see [`Reception::gaps`].
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
    /// Gives an envelope to whatever takes it.
    async fn send_across(&self, node_id: &NodeId, envelope: &Envelope) -> Result<(), LinkError> {
        let reception = &self.0.reception;
        let (is_healthy, now) = (self.redis_is_healthy(), self.0.clock.now());
        let way = reception.peers().way(node_id, is_healthy, now).ok_or(LinkError::Gone)?;
        let parcel = Parcel::envelope(reception.own(), envelope);
        if parcel.len() > PARCEL_BYTES_MAX {
            warn!(node = %node_id, bytes = parcel.len(), "an envelope is too large to send");
            self.metrics().dropped("too_large");
            return Err(LinkError::Full);
        }
        let (redis, direct) = (&self.0.redis, &self.0.direct);
        let carried = match &way {
            Way::Redis(address) => {
                let address = address.as_deref();
                match redis.carry(node_id, address, parcel).await {
                    Err(refused) if address.is_some() => {
                        direct.carry(node_id, address, refused.parcel).await
                    }
                    carried => carried,
                }
            }
            Way::Direct(address) => direct.carry(node_id, Some(&**address), parcel).await,
            Way::DirectOrRedis(address) => {
                let address = Some(&**address);
                match direct.carry(node_id, address, parcel).await {
                    Err(refused) => redis.carry(node_id, address, refused.parcel).await,
                    carried => carried,
                }
            }
        };
        carried.map_err(|refused| refused.error)
    }

    /// An envelope went no way: the receiver must see a gap where it next hears of this node. On the
    /// direct way that is the next status; while that way does not work it may still be Redis.
    fn lose(&self, node_id: &NodeId) {
        match self.0.direct.reach(node_id) {
            Reach::Connected => self.0.direct.lose(node_id),
            Reach::Unknown | Reach::Unreachable | Reach::Gone => self.0.redis.lose(node_id),
        }
    }
}

// === what keeps the link ===

impl ClusterLink {
    async fn check_for_ever(&self) {
        let mut ticks = interval(CHECK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let per_status = STATUS_INTERVAL.as_millis() / CHECK_INTERVAL.as_millis();
        for tick in 0_u64.. {
            ticks.tick().await;
            let has_changed = self.judge();
            self.0.reception.check(self.0.clock.now());
            let is_status_due = u128::from(tick) % per_status == 0;
            let echo = self.send_echo(is_status_due);
            let statuses = self.send_statuses(is_status_due || has_changed);
            join(join(echo, self.send_probes()), statuses).await;
            if is_status_due {
                self.keep_books();
            }
        }
    }

    /// Judges the link to Redis anew. Answers whether the verdict has changed.
    fn judge(&self) -> bool {
        let (now, silence) = (self.0.clock.now(), self.0.nodes.silence());
        let verdict = self.0.reception.health().judge(now, silence);
        match verdict {
            Some(true) => info!("Redis carries parcels again"),
            Some(false) => warn!("Redis does not carry parcels; they go directly"),
            None => {}
        }
        self.metrics().redis_is_healthy.set(self.redis_is_healthy().into());
        verdict.is_some()
    }

    /// Sends this node a probe through Redis.
    async fn send_echo(&self, is_due: bool) {
        if !is_due {
            return;
        }
        let own = self.0.reception.own();
        // One that is not taken does not come back, which is all that it is for.
        let _ = self.0.redis.carry(own, None, Parcel::probe(own)).await;
    }

    /// Sends a probe to every node that was sent nothing for a while.
    async fn send_probes(&self) {
        if !self.redis_is_healthy() {
            return;
        }
        let own = self.0.reception.own();
        let due = self.0.reception.peers().probes_due(self.0.clock.now());
        // One that is not taken is sent again in its turn.
        let probes =
            due.iter().map(|node_id| self.0.redis.carry(node_id, None, Parcel::probe(own)));
        join_all(probes).await;
    }

    /// Tells every node how this one is.
    async fn send_statuses(&self, is_due: bool) {
        if !is_due {
            return;
        }
        let own = self.0.reception.own();
        let redis_is_healthy = self.redis_is_healthy();
        let addresses = self.0.reception.peers().addresses();
        let statuses = addresses.iter().filter_map(|(node_id, address)| {
            let redis_number = self.0.redis.last_number(node_id);
            let status = Status { redis_is_healthy, redis_number, address: self.0.address.clone() };
            let parcel = Parcel::status(own, &status);
            Some(self.0.direct.carry(node_id, Some(address.as_deref()?), parcel))
        });
        // A node that does not take it is not reached, which the carrier knows and says.
        join_all(statuses).await;
    }

    /// Forgets who is gone, and sets the gauges.
    fn keep_books(&self) {
        let now = self.0.clock.now();
        let is_gone = |node_id: &NodeId| self.0.direct.reach(node_id) == Reach::Gone;
        let forgotten = self.0.reception.peers().forget(is_gone, now);
        for node_id in &forgotten {
            info!(node = %node_id, "a node is gone");
            self.0.redis.forget(node_id);
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

    /// Reads who is there, once a second.
    async fn list_for_ever(&self) {
        let mut ticks = interval(STATUS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // While the directory is silent, the nodes known last are the best guess.
            let Ok(Ok(nodes)) = timeout(NODES_TIMEOUT, self.0.nodes.nodes()).await else {
                continue;
            };
            let now = self.0.clock.now();
            for node_id in self.0.reception.peers().listed(nodes, now) {
                info!(node = %node_id, "a node is there");
            }
        }
    }

    /// Asks who is at the configured addresses, as long as that is not known.
    async fn introduce_for_ever(&self) {
        let mut ticks = interval(INTRODUCTION_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut known: HashMap<&str, NodeId> = HashMap::new();
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
                let met = self.0.reception.peers().meet(&node_id, Some(address.clone()), now);
                if let Some(node_id) = met {
                    info!(node = %node_id, %address, "a node is there");
                }
                known.insert(address, node_id);
            }
        }
    }

    /// Sends directly what Redis gave back.
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
                // The receiver, if it is there, sees a gap in the numbers.
                Err(Refused { error, .. }) => {
                    debug!(node = %receiver, %error, "a parcel went neither way");
                    self.metrics().dropped("undeliverable");
                }
            }
        }
        // The carrier is gone, and with it whoever gave anything back.
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests;
