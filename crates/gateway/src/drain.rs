//! Goodbye in batches, when the node goes away; and to the fullest, when memory runs out.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use heartline_protocol::CloseReason;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

use crate::gateway::Gateway;

/// How often a batch of connections is told.
const TICK: Duration = Duration::from_millis(50);

/// Connections told per tick at the least; a small node is done at once.
const BATCH_MIN: usize = 50;

/// The share of the drain timeout over which the goodbyes are spread; the rest is for the last
/// ones to be written and for stragglers.
const SPREAD: f64 = 0.5;

/// Tells every connection that the server is going away, a batch at a time so that those who come
/// back do not all come back at once. Returns when all have been told and every registration under
/// way has ended; the caller waits for the connections to end.
pub async fn drain(gateway: &Gateway) {
    gateway.stop_accepting();
    let connections = gateway.hub().all();
    let ticks =
        (gateway.config().drain_timeout.mul_f64(SPREAD).as_millis() / TICK.as_millis()).max(1);
    let batch = connections.len().div_ceil(ticks as usize).max(BATCH_MIN);
    info!(connections = connections.len(), batch, "draining");
    let mut pace = interval(TICK);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for batch in connections.chunks(batch) {
        pace.tick().await;
        for handle in batch {
            handle.stop(CloseReason::ServerShutdown);
        }
    }
    // Those whose upgrade was granted just before the drain began.
    for handle in gateway.hub().all() {
        handle.stop(CloseReason::ServerShutdown);
    }
    // Their leases are in the directory, or have been given back, before the node withdraws.
    gateway.tasks.join().await;
}

/// Whenever the outboxes hold more than their budget, ends the fullest until it is kept again,
/// for ever.
pub async fn shed(gateway: Arc<Gateway>) {
    loop {
        gateway.budget().exceeded().await;
        let mut excess = gateway.budget().used().saturating_sub(gateway.budget().refuse_above());
        let mut loads: Vec<_> = gateway
            .hub()
            .all()
            .into_iter()
            .map(|handle| (Reverse(handle.outbox.load().bytes), handle))
            .collect();
        loads.sort_by_key(|(bytes, _)| *bytes);
        let mut shed = 0_usize;
        for (Reverse(bytes), handle) in loads {
            if excess == 0 || bytes == 0 {
                break;
            }
            handle.stop(CloseReason::Overloaded);
            excess = excess.saturating_sub(bytes as u64);
            shed += 1;
        }
        if shed > 0 {
            warn!(shed, "outbox memory is exceeded: ended the fullest connections");
        }
    }
}
