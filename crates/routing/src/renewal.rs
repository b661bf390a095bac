//! Keeps this node and its leases alive, and removes those that ran out.
//!
//! The node, not the client, renews: every lease once per interval, spread over the interval's
//! ticks so that the directory sees an even load. A renewal that the directory does not know of
//! means that the lease was lost; if the socket is still open it is registered again.

use std::sync::Arc;
use std::time::Duration;

use heartline_protocol::CloseReason;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::{debug, info, warn};

use crate::clock::Clock;
use crate::directory::{Connections, Leases, NodeRecord, Nodes, Policy, Registration};
use crate::lease::{Lease, LeaseKey};
use crate::link::{Envelope, NodeLink};
use crate::metrics::RoutingMetrics;

/// The connections whose leases a node keeps: implemented by the gateway's hub.
pub trait Holdings: Send + Sync {
    /// The leases that are renewed together: those of the users whose shard falls into this slice
    /// of all slices. A shard that is renewed as a whole costs the directory less than parts of
    /// many.
    fn leases_to_renew(&self, slice: u64, slices: u64) -> Vec<LeaseKey>;

    /// The leases that are extended together: those of the connections whose number falls into this
    /// slice of all slices.
    fn leases_to_extend(&self, slice: u64, slices: u64) -> Vec<LeaseKey>;

    /// How many connections there are.
    fn connections(&self) -> usize;

    /// How many users have more than one.
    fn multi_device_users(&self) -> usize;

    /// The lease to claim again for a connection that is still open.
    fn lease_again(&self, lease: &LeaseKey) -> Option<Lease>;

    /// The connection's lease was lost for a while and is held again: pushes may be missing.
    fn lease_healed(&self, lease: &LeaseKey);

    /// The whole node could not be found for a while, and can be again.
    fn all_healed(&self);

    /// A younger connection holds the place: this one must close.
    fn lease_replaced(&self, lease: &LeaseKey);
}

/// How often the node is announced and a slice of the leases is renewed.
const TICK: Duration = Duration::from_secs(1);

/// Leases renewed in one call.
const BATCH: usize = 10_000;

/// Lost leases that are claimed again at the same time.
const CLAIMS_IN_FLIGHT: usize = 32;

/// How often what is stored beside a lease is kept from being cleared away.
const EXTEND_INTERVAL: Duration = Duration::from_secs(180);

/// How often the directory's connections of this node are compared with its own.
const RECONCILE_INTERVAL: Duration = Duration::from_secs(60);

/// A connection that the directory knows and this node does not must have been there for so long,
/// or it is one that is just being made.
const RECONCILE_AGE: Duration = Duration::from_secs(30);

/// Leases removed in one sweep; the next one continues.
const SWEEP_LIMIT: usize = 10_000;

/// Keeps this node and its leases alive.
#[derive(Clone)]
pub struct Renewal {
    /// Where they are held.
    pub leases: Arc<dyn Leases>,
    /// The connections that the directory lists, for reconciliation.
    pub connections: Arc<dyn Connections>,
    /// Where the node is announced.
    pub nodes: Arc<dyn Nodes>,
    /// Whose they are.
    pub holdings: Arc<dyn Holdings>,
    /// How the nodes of replaced connections are told.
    pub link: Arc<dyn NodeLink>,
    /// This node.
    pub node: NodeRecord,
    /// How long leases last.
    pub policy: Policy,
    /// How often each is renewed.
    pub renew_interval: Duration,
    /// The clocks.
    pub clock: Clock,
    /// What is counted.
    pub metrics: RoutingMetrics,
}

impl std::fmt::Debug for Renewal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Renewal").field("node", &self.node).finish_non_exhaustive()
    }
}

impl Renewal {
    /// Announces the node and renews each lease once per interval, for ever.
    pub async fn run(self) {
        let slices = (self.renew_interval.as_millis() / TICK.as_millis()).max(1) as u64;
        let extend_slices = EXTEND_INTERVAL.as_secs();
        let mut ticks = interval(TICK.min(self.renew_interval));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut announced_at = self.clock.now();
        let mut unleased = vec![0; slices as usize];
        for tick in 0_u64.. {
            ticks.tick().await;
            self.announce(&mut announced_at).await;
            let due = tick % slices;
            // What could not be renewed is tried again before its next turn: a lease bears two
            // misses, but not the race of a third with its end. Only one slice at a time, so that
            // a directory that comes back is not asked for everything at once.
            let behind = (1..slices).map(|ago| (due + slices - ago) % slices);
            let behind = behind.rev().find(|slice| unleased[*slice as usize] > 0);
            for slice in [Some(due), behind].into_iter().flatten() {
                let leases = self.holdings.leases_to_renew(slice, slices);
                unleased[slice as usize] = self.renew(leases).await;
            }
            self.metrics.connections_unleased.set(unleased.iter().sum::<usize>() as i64);
            self.metrics.multi_device_users.set(self.holdings.multi_device_users() as i64);
            let slice = tick % extend_slices;
            self.extend(self.holdings.leases_to_extend(slice, extend_slices)).await;
        }
    }

    /// Says that the node is there. When that was not heard for a whole lease, routes to it did
    /// not count meanwhile.
    async fn announce(&self, announced_at: &mut Instant) {
        let node = NodeRecord { connections: self.holdings.connections(), ..self.node.clone() };
        match self.nodes.announce(&node, self.policy.lease).await {
            Ok(()) => {
                let now = self.clock.now();
                if now - *announced_at >= self.policy.lease {
                    info!("this node can be found again");
                    self.holdings.all_healed();
                }
                *announced_at = now;
            }
            Err(error) => {
                self.metrics.announcements_failed.inc();
                warn!(%error, "the node was not announced");
            }
        }
    }

    /// Answers how many of them are not known to be held now.
    async fn renew(&self, leases: Vec<LeaseKey>) -> usize {
        let mut unleased = 0;
        for batch in leases.chunks(BATCH) {
            let started_at = self.clock.now();
            let renewed = self.leases.renew(batch, self.policy.lease).await;
            let duration = self.clock.now() - started_at;
            match renewed {
                Ok(lost) => {
                    self.metrics.renewed(batch.len(), duration);
                    unleased += self.claim_all_again(lost).await;
                }
                Err(error) => {
                    self.metrics.not_renewed(batch.len(), duration);
                    unleased += batch.len();
                    warn!(%error, leases = batch.len(), "leases were not renewed");
                }
            }
        }
        unleased
    }

    async fn extend(&self, leases: Vec<LeaseKey>) {
        for batch in leases.chunks(BATCH) {
            match self.leases.extend(batch).await {
                // Who is still without a lease then is counted when it is renewed.
                Ok(lost) => drop(self.claim_all_again(lost).await),
                Err(error) => warn!(%error, leases = batch.len(), "leases were not extended"),
            }
        }
    }

    /// Answers how many of their connections are still without a lease.
    async fn claim_all_again(&self, lost: Vec<LeaseKey>) -> usize {
        let mut unleased = 0;
        for batch in lost.chunks(CLAIMS_IN_FLIGHT) {
            let claims: Vec<_> = batch.iter().map(|key| self.claim_again(key)).collect();
            let settled = futures_util::future::join_all(claims).await;
            unleased += settled.into_iter().filter(|is_settled| !is_settled).count();
        }
        unleased
    }

    /// False if the connection goes on without a lease.
    async fn claim_again(&self, key: &LeaseKey) -> bool {
        // A connection that closed meanwhile has given its lease back: nothing to claim.
        let Some(lease) = self.holdings.lease_again(key) else { return true };
        self.metrics.leases_lost.inc();
        match self.leases.register(lease, self.policy).await {
            // It closed meanwhile, and its end found no lease to give back.
            Ok(Registration::Admitted { .. }) if self.holdings.lease_again(key).is_none() => {
                let linger = self.policy.offline_linger;
                if let Err(error) = self.leases.unregister(key, linger).await {
                    warn!(%error, "a lease claimed for a closed connection runs out by itself");
                }
            }
            Ok(Registration::Admitted { replaced }) => {
                close_replaced(&*self.link, replaced).await;
                debug!(connection_id = %key.connection_id, "a lost lease is held again");
                self.metrics.leases_claimed_again.inc();
                self.holdings.lease_healed(key);
            }
            Ok(Registration::Refused(_)) => self.holdings.lease_replaced(key),
            Err(error) => {
                warn!(%error, "a lost lease was not claimed again");
                return false;
            }
        }
        true
    }

    /// Compares what the directory holds of this node with what the node has, for ever.
    pub async fn reconcile_for_ever(self) {
        let mut ticks = interval(RECONCILE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            self.reconcile().await;
        }
    }

    async fn reconcile(&self) {
        let listed = match self.connections.by_node(&self.node.node_id).await {
            Ok(listed) => listed,
            Err(error) => {
                return warn!(%error, "this node's connections could not be compared");
            }
        };
        let orphans: Vec<LeaseKey> = listed
            .into_iter()
            .filter(|live| live.age > RECONCILE_AGE)
            .map(|live| live.key)
            .filter(|key| self.holdings.lease_again(key).is_none())
            .collect();
        for key in &orphans {
            warn!(connection_id = %key.connection_id, "removing a lease without a connection");
            if let Err(error) = self.leases.unregister(key, Duration::ZERO).await {
                warn!(%error, "a lease without a connection runs out by itself");
            }
        }
    }

    /// Removes leases that ran out, once per `sweep_interval`, for ever.
    pub async fn sweep_for_ever(self, sweep_interval: Duration) {
        let mut ticks = interval(sweep_interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut swept_at = self.clock.now();
        loop {
            ticks.tick().await;
            let now = self.clock.now();
            // The process stood still, and so did its renewals: they come first, or those who are
            // still connected here would seem to have left.
            if now - swept_at >= sweep_interval + self.renew_interval {
                info!("this process stood still: its leases are renewed before any is swept");
                self.renew(self.holdings.leases_to_renew(0, 1)).await;
            }
            swept_at = now;
            match self.leases.sweep(SWEEP_LIMIT, self.policy).await {
                Ok(swept) if swept.is_empty() => {}
                Ok(swept) => {
                    self.metrics.leases_swept.inc_by(swept.len() as u64);
                    debug!(leases = swept.len(), "swept leases that ran out");
                }
                Err(error) => {
                    self.metrics.sweeps_failed.inc();
                    warn!(%error, "the sweep failed");
                }
            }
        }
    }
}

/// Has the nodes of replaced connections close them.
pub async fn close_replaced(link: &dyn NodeLink, replaced: Vec<LeaseKey>) {
    for lease in replaced {
        let node_id = lease.node_id.clone();
        let envelope =
            Envelope::Close { leases: vec![lease], reason: CloseReason::SessionReplaced };
        if let Err(error) = link.send(&node_id, envelope).await {
            // Its lease is gone, so its own node finds out at the next renewal.
            warn!(%error, %node_id, "a replaced connection was not told");
        }
    }
}
