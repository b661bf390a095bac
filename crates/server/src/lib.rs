//! One binary: Heartline, a real-time server.
//!
//! [`run`] shows everything that runs, on one screen.

mod assemble;
mod bus;
mod cluster;
pub mod commands;
pub mod config;
pub mod dev;
mod engines;
mod fanout;
mod gateway;
mod ingest;
pub mod lifecycle;
mod listen;
mod listeners;
mod party;
mod patience;
mod relations;
mod store;
pub mod telemetry;
pub mod tls;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use futures_util::Stream;
use heartline_gateway::inbox;
use heartline_rest::Api;
use heartline_routing::renewal::Renewal;
use heartline_routing::{Directory, NodeRecord, Plane};
use tracing::{info, warn};

pub use crate::assemble::{Node, assemble};
use crate::config::{Config, MetricsListen};
pub use crate::engines::{Engines, InProcess};
use crate::gateway::Sockets;
use crate::lifecycle::{Exit, Lifecycle};
use crate::listen::Site;
pub use crate::listeners::Listeners;

/// Runs the planes of a node on these listeners until `signals` ask it to stop and every connection
/// is closed. `ready` is called with the address once the node listens.
///
/// # Errors
/// Other nodes cannot be heard.
pub async fn run(
    node: Node,
    listeners: Listeners,
    signals: impl Stream<Item = ()> + Unpin,
    ready: impl FnOnce(SocketAddr),
) -> Result<Exit> {
    let (config, api) = (node.config, node.api);
    let lifecycle = node.lifecycle;
    let gateway = Arc::clone(&api.gateway);
    let address = listeners.main.local_address()?;

    // Tasks that run until the last connection is closed.
    let nodes = Arc::clone(&api.directory.nodes);
    lifecycle.spawn_support("inbox", inbox::run(Arc::clone(&gateway), node.envelopes));
    if let Some((others, listener)) = node.others.zip(listeners.cluster) {
        others.open(&lifecycle, listener).await?;
    }
    lifecycle.spawn_support("presence", node.presence.run());
    let (planes, party) = (config.server.planes, node.party);
    let drain_timeout = config.gateway.drain_timeout;
    let last_writes = planes.contains(Plane::Ingest).then(|| node.ingest.start(&lifecycle));
    if planes.contains(Plane::Fanout) {
        node.fanout.start(&lifecycle);
    }
    let sockets = planes
        .contains(Plane::Gateway)
        .then(|| Sockets::start(gateway, &party, Arc::clone(&nodes), &lifecycle, drain_timeout));
    let node_id = node.record.node_id.clone();
    keep_leases(&lifecycle, &config, &api, node.record);
    if api.authenticator.refresh_interval().is_some() {
        lifecycle.spawn_support("signing keys", refresh_keys(api.authenticator.clone()));
    }

    // Tasks that end when the node is asked to stop.
    if let Some(tls) = node.tls.clone() {
        let stop = lifecycle.soft_stop();
        lifecycle.spawn("certificates", async move { tls.watch(stop).await });
    }
    let with_metrics = config.metrics.listen == MetricsListen::Main;
    let site = Site {
        router: heartline_rest::router(api.clone(), with_metrics),
        sockets,
        tls: node.tls,
        lifecycle: lifecycle.clone(),
    };
    lifecycle.spawn("listener", listen::accept(listeners.main, site.clone()));
    if let Some(listener) = listeners.metrics {
        let site =
            Site { router: heartline_rest::metrics_router(api), sockets: None, tls: None, ..site };
        lifecycle.spawn("metrics listener", listen::accept(listener, site));
    }

    info!(%address, node = %config.server.name, %planes, "listening");
    ready(address);
    let exit = lifecycle.wait(signals, drain_timeout).await;
    party.close().await;
    if let Err(error) = nodes.withdraw(&node_id).await {
        warn!(%error, "node not removed from the directory; its lease will expire");
    }
    if let Some(last_writes) = last_writes {
        last_writes.write().await;
    }
    Ok(exit)
}

/// Renews, sweeps and reconciles the leases of this node's connections.
fn keep_leases(lifecycle: &Lifecycle, config: &Config, api: &Api, record: NodeRecord) {
    let gateway = &api.gateway;
    let Directory { leases, connections, nodes, .. } = api.directory.clone();
    let renewal = Renewal {
        leases,
        connections,
        nodes,
        local: Arc::clone(gateway.hub()) as _,
        losses: Arc::clone(gateway.hub()) as _,
        link: Arc::clone(&api.fanout.link),
        node: record,
        policy: gateway.config().policy(),
        renew_interval: config.routing.renew_interval,
        clock: gateway.clock(),
        metrics: api.fanout.metrics.routing.clone(),
    };
    let sweep = renewal.clone().sweep_for_ever(config.routing.sweep_interval);
    lifecycle.spawn_support("sweep", sweep);
    lifecycle.spawn_support("reconciliation", renewal.clone().reconcile_for_ever());
    lifecycle.spawn_support("renewal", renewal.run());
}

/// Keeps a remote key set fresh, for ever.
async fn refresh_keys(authenticator: heartline_auth::Authenticator) {
    while let Some(interval) = authenticator.refresh_interval() {
        authenticator.refresh_keys().await;
        let interval = authenticator.refresh_interval().unwrap_or(interval);
        tokio::time::sleep(interval).await;
    }
}
