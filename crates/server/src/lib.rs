//! One binary: Heartline, a real-time server.
//!
//! [`run`] shows everything that runs, on one screen.

mod assemble;
mod chat;
mod cluster;
pub mod commands;
pub mod config;
pub mod dev;
mod engines;
pub mod lifecycle;
mod listen;
mod listeners;
mod party;
mod patience;
mod planes;
mod relations;
mod store;
pub mod telemetry;
pub mod tls;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use futures_util::Stream;
use heartline_gateway::{drain, inbox};
use heartline_rest::Api;
use heartline_routing::renewal::{Holdings, Renewal};
use heartline_routing::{Directory, NodeRecord};
use tracing::{info, warn};

pub use crate::assemble::{Node, assemble};
use crate::config::{Config, MetricsListen};
pub use crate::engines::{Engines, InProcess};
use crate::lifecycle::{Exit, Lifecycle};
use crate::listen::Site;
pub use crate::listeners::Listeners;

/// Runs a node on these listeners until `signals` ask it to stop and it has said goodbye to
/// everybody. `ready` is told where it listens once it does.
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

    // What others rely on until the last of them is gone.
    let nodes = Arc::clone(&api.directory.nodes);
    lifecycle.spawn_support("inbox", inbox::run(Arc::clone(&gateway), node.envelopes));
    if let Some((others, listener)) = node.others.zip(listeners.cluster) {
        others.open(&lifecycle, listener).await?;
    }
    lifecycle.spawn_support("presence", node.presence.run());
    let party = node.party;
    lifecycle.spawn_support("party", party.rooms.clone().run(Arc::clone(&nodes)));
    let last_writes = node.chat.start(&lifecycle, api.fanout.clone(), &*api.directory.presence);
    lifecycle.spawn_support("shed", drain::shed(Arc::clone(&gateway)));
    let node_id = node.record.node_id.clone();
    keep_leases(&lifecycle, &config, &api, node.record);
    if api.authenticator.refresh_interval().is_some() {
        lifecycle.spawn_support("signing keys", refresh_keys(api.authenticator.clone()));
    }

    // What ends with the soft stop.
    if let Some(tls) = node.tls.clone() {
        let stop = lifecycle.soft_stop();
        lifecycle.spawn("certificates", async move { tls.watch(stop).await });
    }
    let stop = lifecycle.soft_stop();
    let (leaving, rooms) = (Arc::clone(&gateway), party.rooms.clone());
    let drain_timeout = config.gateway.drain_timeout;
    lifecycle.spawn("drain", async move {
        stop.cancelled().await;
        leaving.stop_accepting();
        rooms.leave(drain_timeout / 4).await;
        drain::drain(&leaving).await;
    });
    let with_metrics = config.metrics.listen == MetricsListen::Main;
    let site = Site {
        router: heartline_rest::router(api.clone(), with_metrics),
        gateway: Some(gateway),
        graphql: Some(party.graphql()),
        tls: node.tls,
        lifecycle: lifecycle.clone(),
    };
    lifecycle.spawn("listener", listen::accept(listeners.main, site.clone()));
    if let Some(listener) = listeners.metrics {
        let site = Site {
            router: heartline_rest::metrics_router(api),
            gateway: None,
            graphql: None,
            tls: None,
            ..site
        };
        lifecycle.spawn("metrics listener", listen::accept(listener, site));
    }

    info!(%address, node = %config.server.name, "listening");
    ready(address);
    let exit = lifecycle.wait(signals, drain_timeout).await;
    party.close().await;
    if let Err(error) = nodes.withdraw(&node_id).await {
        warn!(%error, "node not removed from the directory; its lease will expire");
    }
    last_writes.write().await;
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
        holdings: Arc::clone(gateway.hub()) as Arc<dyn Holdings>,
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
