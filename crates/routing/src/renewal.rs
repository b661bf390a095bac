//! Keeps this node's leases alive and removes those that ran out.
//!
//! The node, not the client, renews: every lease once per interval, spread over the interval's
//! ticks so that the directory sees an even load. A renewal that the directory does not know of
//! means that the lease was lost; if the socket is still open it is registered again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tracing::{debug, warn};

use crate::directory::{Directory, Policy, Registration};
use crate::lease::{Lease, LeaseKey};

/// The connections whose leases a node keeps: implemented by the gateway's hub.
pub trait Holdings: Send + Sync {
    /// The leases of the connections whose number falls into this slice of all slices.
    fn leases_in_slice(&self, slice: u64, slices: u64) -> Vec<LeaseKey>;

    /// The lease to claim again for a connection that is still open.
    fn lease_again(&self, lease: &LeaseKey) -> Option<Lease>;

    /// The connection's lease was lost for a while and is held again: pushes may be missing.
    fn lease_healed(&self, lease: &LeaseKey);

    /// A younger connection holds the place: this one must close.
    fn lease_replaced(&self, lease: &LeaseKey);
}

/// How often a slice of the leases is renewed.
const TICK: Duration = Duration::from_secs(1);

/// Leases renewed in one call.
const BATCH: usize = 500;

/// Leases removed in one sweep; the next one continues.
const SWEEP_LIMIT: usize = 1000;

/// Renews each lease once per `renew_interval`, for ever.
pub async fn renew_leases(
    directory: Arc<dyn Directory>,
    holdings: Arc<dyn Holdings>,
    policy: Policy,
    renew_interval: Duration,
) {
    let slices = (renew_interval.as_millis() / TICK.as_millis()).max(1) as u64;
    let mut ticks = interval(TICK.min(renew_interval));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for slice in (0..slices).cycle() {
        ticks.tick().await;
        for batch in holdings.leases_in_slice(slice, slices).chunks(BATCH) {
            match directory.renew(batch, policy.lease).await {
                Ok(lost) => claim_again(&*directory, &*holdings, policy, &lost).await,
                Err(error) => warn!(%error, leases = batch.len(), "leases were not renewed"),
            }
        }
    }
}

async fn claim_again(
    directory: &dyn Directory,
    holdings: &dyn Holdings,
    policy: Policy,
    lost: &[LeaseKey],
) {
    for key in lost {
        // A connection that closed meanwhile has given its lease back: nothing to claim.
        let Some(lease) = holdings.lease_again(key) else { continue };
        match directory.register(lease, policy).await {
            // It closed meanwhile, and its end found no lease to give back.
            Ok(Registration::Admitted { .. }) if holdings.lease_again(key).is_none() => {
                if let Err(error) = directory.unregister(key).await {
                    warn!(%error, "a lease claimed for a closed connection runs out by itself");
                }
            }
            Ok(Registration::Admitted { replaced }) => {
                replaced.iter().for_each(|older| holdings.lease_replaced(older));
                debug!(connection_id = %key.connection_id, "a lost lease is held again");
                holdings.lease_healed(key);
            }
            Ok(Registration::Refused(_)) => holdings.lease_replaced(key),
            Err(error) => warn!(%error, "a lost lease was not claimed again"),
        }
    }
}

/// Removes leases that ran out, once per `sweep_interval`, for ever.
pub async fn sweep_leases(directory: Arc<dyn Directory>, sweep_interval: Duration) {
    let mut ticks = interval(sweep_interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match directory.sweep(SWEEP_LIMIT).await {
            Ok(swept) if swept.is_empty() => {}
            Ok(swept) => debug!(leases = swept.len(), "swept leases that ran out"),
            Err(error) => warn!(%error, "the sweep failed"),
        }
    }
}
