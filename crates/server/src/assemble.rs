//! From a configuration to a node: the only place that knows every part.

use std::sync::Arc;

use anyhow::{Context, Result};
use heartline_adapters::HttpJwks;
use heartline_adapters::jwks::FETCH_TIMEOUT;
use heartline_auth::{AuthConfig, Authenticator, Keys, PemFile, Secret};
use heartline_fanout::{Fanout, TypingQueue};
use heartline_gateway::{Gateway, Metrics, Parts, PresenceTask};
use heartline_rest::{Api, Development, PrivacyChanges};
use heartline_routing::{Envelope, LocalSockets, NodeRecord};
use heartline_runtime::{Clock, Random};
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;

use crate::bus::Bus;
use crate::cluster::{Cluster, Others};
use crate::config::{AuthKeys, Config, Loaded};
use crate::engines::Engines;
use crate::fanout::{FanoutPlane, QueuedTyping};
use crate::ingest::IngestPlane;
use crate::lifecycle::Lifecycle;
use crate::party::PartyPlane;
use crate::tls::TlsReloader;

/// A node, put together and not yet running.
#[derive(Debug)]
pub struct Node {
    pub(crate) config: Config,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) api: Api,
    pub(crate) ingest: IngestPlane,
    pub(crate) fanout: FanoutPlane,
    pub(crate) party: PartyPlane,
    pub(crate) record: NodeRecord,
    pub(crate) others: Option<Others>,
    pub(crate) envelopes: mpsc::Receiver<Envelope>,
    pub(crate) presence: PresenceTask,
    pub(crate) tls: Option<TlsReloader>,
}

impl Node {
    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }
}

/// Puts a node together around its engines. Nothing runs and nothing is bound yet.
///
/// # Errors
/// A key, a certificate, a store or a server that the configuration names cannot be used.
pub async fn assemble(
    loaded: Loaded,
    engines: Engines,
    lifecycle: Lifecycle,
    clock: Clock,
    random: Random,
) -> Result<Node> {
    let Loaded { config, auth_keys, development, .. } = loaded;
    let Engines { node_id, store, cluster, routing, mut registry } = engines;
    let authenticator = authenticator(auth_keys, clock)?;
    let metrics = metrics(&lifecycle, &mut registry);
    let fanout_metrics = heartline_fanout::Metrics { routing, ..Default::default() };
    fanout_metrics.register(&mut registry);
    let bus = Bus::in_process(clock, &mut registry);
    let ingest = IngestPlane::new(store.clone(), &bus, &config, clock, &mut registry);
    let (typing_queue, typing) = TypingQueue::new(fanout_metrics.clone());
    let Cluster { directory, link, envelopes, record, others, redis } = cluster;
    let (id, sources) = (node_id.clone(), (clock, random));
    let party = PartyPlane::new(&config, &store, redis, id, sources, &mut registry).await?;
    let (gateway, presence) = Gateway::new(Parts {
        config: config.gateway(),
        node_id: node_id.clone(),
        clock,
        random,
        authenticator: authenticator.clone(),
        leases: Arc::clone(&directory.leases),
        presence: Arc::clone(&directory.presence),
        link: Arc::clone(&link),
        durability: ingest.ports(),
        typing: Arc::new(QueuedTyping(typing_queue)),
        metrics,
    });
    let (routes, gateway) = (Arc::clone(&directory.routes), Arc::new(gateway));
    let sockets = Arc::clone(&gateway) as Arc<dyn LocalSockets>;
    let fanout = Fanout { node_id, routes, link, sockets, clock, metrics: fanout_metrics };
    let fanout_plane = FanoutPlane {
        fanout: fanout.clone(),
        bus,
        audiences: Arc::clone(&store.audiences),
        states: Arc::clone(&directory.presence),
        lazy_writes: ingest.lazy_writes(),
        typing,
    };
    let tls = certificates(&config)?;
    let api = Api {
        gateway,
        fanout: fanout.clone(),
        chat: ingest.parts(),
        planes: config.server.planes,
        default_visibility: config.presence.default_visibility,
        privacy_changes: PrivacyChanges(fanout),
        directory,
        authenticator,
        registry: Arc::new(registry),
        tasks: lifecycle.connections(),
        stop: lifecycle.soft_stop(),
        cut: lifecycle.hard_stop(),
        party: party.parts(),
        development: development.map(|secret| Development { secret }),
        site_url: config.party.site_url.clone(),
        cluster: others.as_ref().map(|others| Arc::clone(&others.link)),
    };
    Ok(Node {
        config,
        lifecycle,
        api,
        ingest,
        fanout: fanout_plane,
        party,
        record,
        others,
        envelopes,
        presence,
        tls,
    })
}

fn certificates(config: &Config) -> Result<Option<TlsReloader>> {
    let (Some(certificate), Some(key)) = (&config.server.tls_cert, &config.server.tls_key) else {
        return Ok(None);
    };
    Ok(Some(TlsReloader::load(certificate, key).context("server.tls_cert")?))
}

fn authenticator(keys: AuthKeys, clock: Clock) -> Result<Authenticator> {
    let material = if let Some(url) = &keys.jwks_url {
        Keys::JwksUrl(Arc::new(HttpJwks::new(url, FETCH_TIMEOUT).context("auth.jwks_url")?))
    } else if let Some((name, text)) = keys.jwks_file {
        Keys::JwksFile { name, text }
    } else if keys.public_keys.is_empty() {
        Keys::Hmac(keys.hmac_secrets.into_iter().map(Secret::new).collect())
    } else {
        let files = keys.public_keys.into_iter();
        Keys::PublicKeys(files.map(|(name, pem)| PemFile { name, pem }).collect())
    };
    let config = AuthConfig {
        keys: material,
        issuer: keys.issuer,
        audience: keys.audience,
        leeway: keys.leeway,
        nextauth_secret: keys.nextauth_secret.map(Secret::new),
    };
    Authenticator::new(config, clock).context("auth")
}

fn metrics(lifecycle: &Lifecycle, registry: &mut Registry) -> Metrics {
    let metrics = Metrics::default();
    metrics.register(registry);
    registry.register(
        "server_connection_panics",
        "Tasks of connections that panicked",
        lifecycle.connection_panics_metric(),
    );
    metrics
}
