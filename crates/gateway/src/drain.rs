//! Closes connections: all in batches when the node shuts down, the fullest when memory runs out.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use heartline_protocol::CloseReason;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

use crate::gateway::Gateway;

/// How often a batch of connections is closed.
const TICK: Duration = Duration::from_millis(50);

/// The smallest batch; a small node closes all connections at once.
const BATCH_MIN: usize = 50;

/// The share of the drain timeout over which the batches are spread; the rest is for writing the
/// last closing frames.
const SPREAD: f64 = 0.5;

/// Asks every connection to close with `server_shutdown`, in batches, so that clients do not all
/// reconnect at once. Returns when all have been asked and every registration under way has ended;
/// the caller waits until the connections have ended.
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
    // Connections whose upgrade was granted just before the drain began.
    for handle in gateway.hub().all() {
        handle.stop(CloseReason::ServerShutdown);
    }
    // Every lease is registered, or given back, before the node withdraws its record.
    gateway.tasks.join().await;
}

/// Runs forever: whenever the outboxes exceed their budget, closes the connections with the fullest
/// outboxes until the rest is within it.
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
            let (used, capacity) = (gateway.budget().used(), gateway.budget().capacity());
            warn!(shed, used, capacity, "outbox memory exceeded: closed the fullest connections");
        }
    }
}
