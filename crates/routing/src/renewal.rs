//! Announces this node, renews its leases, and removes expired ones.
//!
//! The node, not the client, renews: every lease once per interval, spread over the interval's
//! ticks so that the directory has an even load. A lease that the directory does not hold any more
//! was lost; if its socket is still open it is registered again.

use std::sync::Arc;
use std::time::Duration;

use heartline_protocol::CloseReason;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::{debug, info, warn};

use crate::directory::{
    Connections, DirectoryError, Leases, NodeRecord, Nodes, Policy, Registration,
};
use crate::episode::{Ended, Episode};
use crate::lease::{Lease, LeaseKey};
use crate::link::{Envelope, NodeLink};
use crate::metrics::RoutingMetrics;
use heartline_runtime::Clock;

/// The leases of a node's own connections: implemented by the gateway's hub.
pub trait LocalLeases: Send + Sync {
    /// The leases that are renewed together: those of the users whose shard falls into this slice
    /// of all slices. A shard that is renewed as a whole costs the directory less than parts of
    /// many.
    fn leases_to_renew(&self, slice: u64, slices: u64) -> Vec<LeaseKey>;

    /// The leases that are extended together: those of the connections whose number falls into this
    /// slice of all slices.
    fn leases_to_extend(&self, slice: u64, slices: u64) -> Vec<LeaseKey>;

    /// The lease to claim again for a connection that is still open.
    fn lease_again(&self, lease: &LeaseKey) -> Option<Lease>;

    /// How many connections and users there are.
    fn counts(&self) -> ConnectionCounts;
}

/// The numbers that a node announces and measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Open connections.
    pub connections: usize,
    /// Users with more than one of them.
    pub multi_device_users: usize,
}

/// Acts on the connections whose leases were lost: implemented by the gateway's hub.
pub trait LeaseLosses: Send + Sync {
    /// The connection's lease was lost for a while and is registered again: pushes may be missing.
    fn lease_healed(&self, lease: &LeaseKey);

    /// Routes to this node did not count for a while, and do again: pushes may be missing.
    fn all_healed(&self);

    /// A younger connection has replaced this one, which must close.
    fn lease_replaced(&self, lease: &LeaseKey);
}

/// How often the node is announced and a slice of the leases is renewed.
const TICK: Duration = Duration::from_secs(1);

/// Leases renewed in one call.
const BATCH: usize = 10_000;

/// Lost leases that are registered again at the same time.
const CLAIMS_IN_FLIGHT: usize = 32;

/// How often the indexes of a lease are extended.
const EXTEND_INTERVAL: Duration = Duration::from_secs(180);

/// How often the directory's connections of this node are compared with its own.
const RECONCILE_INTERVAL: Duration = Duration::from_secs(60);

/// A lease without a connection must be this old to be removed: the connection of a younger one may
/// still be opening.
const RECONCILE_AGE: Duration = Duration::from_secs(30);

/// Leases removed in one sweep; the next one continues.
const SWEEP_LIMIT: usize = 10_000;

/// The loops that keep this node and its leases registered.
#[derive(Clone)]
pub struct Renewal {
    /// Renews, registers and sweeps.
    pub leases: Arc<dyn Leases>,
    /// The connections that the directory lists, for reconciliation.
    pub connections: Arc<dyn Connections>,
    /// Where the node is announced.
    pub nodes: Arc<dyn Nodes>,
    /// This node's connections.
    pub local: Arc<dyn LocalLeases>,
    /// Tells connections whose lease was lost.
    pub losses: Arc<dyn LeaseLosses>,
    /// Tells the nodes of replaced connections to close them.
    pub link: Arc<dyn NodeLink>,
    /// This node.
    pub node: NodeRecord,
    /// How long leases last.
    pub policy: Policy,
    /// How often each lease is renewed.
    pub renew_interval: Duration,
    /// The clocks.
    pub clock: Clock,
    /// The metrics of routing.
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
        let mut outage = Episode::default();
        let mut unleased = vec![0; slices as usize];
        for tick in 0_u64.. {
            ticks.tick().await;
            let counts = self.local.counts();
            self.metrics.multi_device_users.set(counts.multi_device_users as i64);
            self.announce(counts.connections, &mut announced_at, &mut outage).await;
            let due = tick % slices;
            // A slice that was not renewed is tried again before its next turn: a lease survives
            // two missed renewals, but may expire before a third. Only one slice at a time, so that
            // a directory that recovers does not get every renewal at once.
            let behind = (1..slices).map(|ago| (due + slices - ago) % slices);
            let behind = behind.rev().find(|slice| unleased[*slice as usize] > 0);
            for slice in [Some(due), behind].into_iter().flatten() {
                let leases = self.local.leases_to_renew(slice, slices);
                unleased[slice as usize] = self.renew(leases, &mut outage).await;
            }
            self.metrics.connections_unleased.set(unleased.iter().sum::<usize>() as i64);
            let slice = tick % extend_slices;
            self.extend(self.local.leases_to_extend(slice, extend_slices), &mut outage).await;
        }
    }

    /// Announces the node. If no announcement arrived for a whole lease, routes to the node did not
    /// count meanwhile.
    async fn announce(&self, connections: usize, announced_at: &mut Instant, outage: &mut Episode) {
        let node = NodeRecord { connections, ..self.node.clone() };
        match self.nodes.announce(&node, self.policy.lease).await {
            Ok(()) => {
                let now = self.clock.now();
                if now - *announced_at >= self.policy.lease {
                    info!("node announced again: its routes count");
                    self.losses.all_healed();
                }
                *announced_at = now;
                if let Some(Ended { lasted, failures }) = outage.succeed(now) {
                    let seconds = lasted.as_secs();
                    info!(seconds, failures, "directory answers again");
                }
            }
            Err(error) => {
                self.metrics.announcements_failed.inc();
                self.failed("announce", &error, outage);
            }
        }
    }

    /// Logs the first failure of an outage; the announcement that succeeds again logs its end.
    fn failed(&self, call: &'static str, error: &DirectoryError, outage: &mut Episode) {
        if outage.fail(self.clock.now()) {
            warn!(call, %error, "directory does not answer: leases are not renewed");
        } else {
            debug!(call, %error, "directory does not answer");
        }
    }

    /// Renews leases. Returns how many of them are not known to be held now.
    async fn renew(&self, leases: Vec<LeaseKey>, outage: &mut Episode) -> usize {
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
                    self.failed("renew", &error, outage);
                }
            }
        }
        unleased
    }

    async fn extend(&self, leases: Vec<LeaseKey>, outage: &mut Episode) {
        for batch in leases.chunks(BATCH) {
            match self.leases.extend(batch).await {
                // The renewal counts connections that are still without a lease then.
                Ok(lost) => drop(self.claim_all_again(lost).await),
                Err(error) => self.failed("extend", &error, outage),
            }
        }
    }

    /// Registers lost leases again. Returns how many of their connections are still without one.
    async fn claim_all_again(&self, lost: Vec<LeaseKey>) -> usize {
        let mut unleased = 0;
        for batch in lost.chunks(CLAIMS_IN_FLIGHT) {
            let claims: Vec<_> = batch.iter().map(|key| self.claim_again(key)).collect();
            let claimed = futures_util::future::join_all(claims).await;
            unleased += claimed.into_iter().filter(|is_done| !is_done).count();
        }
        if unleased > 0 {
            warn!(leases = unleased, "lost leases not registered again");
        }
        unleased
    }

    /// Registers a lost lease again. False if the connection is still open and without a lease.
    async fn claim_again(&self, key: &LeaseKey) -> bool {
        // A connection that closed meanwhile has ended its lease.
        let Some(lease) = self.local.lease_again(key) else { return true };
        self.metrics.leases_lost.inc();
        match self.leases.register(lease, self.policy).await {
            // The connection closed meanwhile, and its end found no lease.
            Ok(Registration::Admitted { .. }) if self.local.lease_again(key).is_none() => {
                let linger = self.policy.offline_linger;
                if let Err(error) = self.leases.unregister(key, linger).await {
                    warn!(%error, "lease of a closed connection not removed: it expires");
                }
            }
            Ok(Registration::Admitted { replaced }) => {
                close_replaced(&*self.link, replaced).await;
                debug!(connection_id = %key.connection_id, "lost lease registered again");
                self.metrics.leases_claimed_again.inc();
                self.losses.lease_healed(key);
            }
            Ok(Registration::Refused(_)) => self.losses.lease_replaced(key),
            Err(error) => {
                debug!(%error, connection_id = %key.connection_id, "registering a lost lease failed");
                return false;
            }
        }
        true
    }

    /// Compares the directory's connections of this node with its own, for ever.
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
                return warn!(%error, "reconciliation failed: connections not listed");
            }
        };
        let orphans: Vec<LeaseKey> = listed
            .into_iter()
            .filter(|live| live.age > RECONCILE_AGE)
            .map(|live| live.key)
            .filter(|key| self.local.lease_again(key).is_none())
            .collect();
        for key in &orphans {
            warn!(connection_id = %key.connection_id, "lease without a connection: removing it");
            if let Err(error) = self.leases.unregister(key, Duration::ZERO).await {
                warn!(%error, "lease without a connection not removed: it expires");
            }
        }
    }

    /// Removes expired leases, once per `sweep_interval`, for ever.
    pub async fn sweep_for_ever(self, sweep_interval: Duration) {
        let mut ticks = interval(sweep_interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut swept_at, mut outage) = (self.clock.now(), Episode::default());
        loop {
            ticks.tick().await;
            let now = self.clock.now();
            // The process was paused, and so were its renewals. They come first, or the sweep would
            // remove the leases of connections that are still open here.
            if now - swept_at >= sweep_interval + self.renew_interval {
                info!("process was paused: renewing its leases before the sweep");
                let leases = self.local.leases_to_renew(0, 1);
                self.renew(leases, &mut Episode::default()).await;
            }
            swept_at = now;
            self.sweep(&mut outage).await;
        }
    }
}

impl Renewal {
    async fn sweep(&self, outage: &mut Episode) {
        match self.leases.sweep(SWEEP_LIMIT, self.policy).await {
            Ok(swept) => {
                if let Some(Ended { lasted, failures }) = outage.succeed(self.clock.now()) {
                    info!(seconds = lasted.as_secs(), failures, "sweep works again");
                }
                self.metrics.leases_swept.inc_by(swept.len() as u64);
                if !swept.is_empty() {
                    debug!(leases = swept.len(), "expired leases removed");
                }
            }
            Err(error) => {
                self.metrics.sweeps_failed.inc();
                if outage.fail(self.clock.now()) {
                    warn!(%error, "sweep failed: expired leases are not removed");
                }
            }
        }
    }
}

/// Tells the nodes of replaced connections to close them.
pub async fn close_replaced(link: &dyn NodeLink, replaced: Vec<LeaseKey>) {
    for lease in replaced {
        let node_id = lease.node_id.clone();
        let envelope =
            Envelope::Close { leases: vec![lease], reason: CloseReason::SessionReplaced };
        if let Err(error) = link.send(&node_id, envelope).await {
            // Its lease is gone, so its own node detects it at the next renewal.
            warn!(%error, %node_id, "replaced connection not told to close");
        }
    }
}
