//! Values that are legal alone and contradict each other.

use std::net::SocketAddr;
use std::time::Duration;

use heartline_routing::{Plane, Planes};

use super::keys::{self, Key};
use super::layer::Origin;
use super::problem::Problem;
use super::settings::Settings;
use super::store_engine::StoreEngine;
use super::{Config, MetricsListen};

/// The kinds of keys for tokens; a server has exactly one.
const KEY_KINDS: [&str; 4] = ["hmac_secret", "public_key_files", "jwks_file", "jwks_url"];

/// The longest sweep interval on Redis: after 5 s without a sweep its scripts assume that Redis was
/// down, and one late or lost sweep must not look like that.
const REDIS_SWEEP_INTERVAL_MAX: Duration = Duration::from_secs(2);

/// Collects contradictions between settings.
struct Checker<'a> {
    settings: &'a Settings,
    problems: &'a mut Vec<Problem>,
}

/// Finds the contradictions; `subject` is the file or "configuration", for missing settings.
pub(super) fn find(
    config: &Config,
    settings: &Settings,
    subject: &str,
    problems: &mut Vec<Problem>,
) {
    let mut checker = Checker { settings, problems };
    checker.times(config);
    checker.limits(config);
    checker.listeners(config);
    checker.cluster(config);
    checker.planes(config);
    checker.key_sources(subject);
}

impl Checker<'_> {
    /// Records a contradiction at the first of the keys that an operator has set, unless one of
    /// them is already illegal.
    fn refuse_if(&mut self, is_broken: bool, paths: &[(&str, &str)], sentence: &str) {
        let keys: Vec<&Key> = paths.iter().map(|(section, name)| key(section, name)).collect();
        if !is_broken || keys.iter().any(|key| self.settings.get(key).is_doubtful) {
            return;
        }
        let is_set = |key: &&&Key| self.settings.get(key).origin != Origin::Default;
        let key = keys.iter().find(is_set).unwrap_or(&keys[0]);
        let setting = self.settings.get(key);
        self.problems.push(Problem::of_value(&setting.origin, key, &setting.value, sentence));
    }

    fn times(&mut self, config: &Config) {
        let (gateway, routing) = (&config.gateway, &config.routing);
        let shown = |duration: Duration| humantime::format_duration(duration).to_string();
        self.refuse_if(
            gateway.heartbeat_timeout < gateway.heartbeat_interval * 2,
            &[("gateway", "heartbeat_timeout"), ("gateway", "heartbeat_interval")],
            &format!(
                "one late heartbeat would end a connection: heartbeat_timeout ({}) must be at \
                 least twice heartbeat_interval ({})",
                shown(gateway.heartbeat_timeout),
                shown(gateway.heartbeat_interval)
            ),
        );
        self.refuse_if(
            gateway.max_connection_age <= gateway.heartbeat_timeout,
            &[("gateway", "max_connection_age"), ("gateway", "heartbeat_timeout")],
            "max_connection_age must be longer than heartbeat_timeout",
        );
        self.refuse_if(
            routing.lease < routing.renew_interval * 2,
            &[("routing", "lease"), ("routing", "renew_interval")],
            &format!(
                "one late renewal would show a user offline: lease ({}) must be at least twice \
                 renew_interval ({})",
                shown(routing.lease),
                shown(routing.renew_interval)
            ),
        );
        self.refuse_if(
            routing.sweep_interval > routing.lease,
            &[("routing", "sweep_interval"), ("routing", "lease")],
            "sweep_interval must be at most lease",
        );
        self.refuse_if(
            config.limits.gateway.slow_grace > gateway.drain_timeout,
            &[("limits", "slow_grace"), ("gateway", "drain_timeout")],
            &format!(
                "a drain would cut a slow consumer within its grace: limits.slow_grace ({}) must \
                 be at most gateway.drain_timeout ({})",
                shown(config.limits.gateway.slow_grace),
                shown(gateway.drain_timeout)
            ),
        );
    }

    fn limits(&mut self, config: &Config) {
        let limits = &config.limits;
        self.refuse_if(
            limits.gateway.send_burst < limits.gateway.send_rate,
            &[("limits", "send_burst"), ("limits", "send_rate")],
            &format!(
                "send_burst ({}) must be at least send_rate ({})",
                limits.gateway.send_burst, limits.gateway.send_rate
            ),
        );
        self.refuse_if(
            limits.gateway.frame_burst < limits.gateway.frame_rate,
            &[("limits", "frame_burst"), ("limits", "frame_rate")],
            &format!(
                "frame_burst ({}) must be at least frame_rate ({})",
                limits.gateway.frame_burst, limits.gateway.frame_rate
            ),
        );
        self.refuse_if(
            limits.ingest_per_chat > limits.ingest_per_node,
            &[("limits", "ingest_per_chat"), ("limits", "ingest_per_node")],
            &format!(
                "ingest_per_chat ({}) must be at most ingest_per_node ({})",
                limits.ingest_per_chat, limits.ingest_per_node
            ),
        );
    }

    fn listeners(&mut self, config: &Config) {
        let server = &config.server;
        self.refuse_if(
            server.tls_cert.is_some() && server.tls_key.is_none(),
            &[("server", "tls_cert"), ("server", "tls_key")],
            "has no private key beside it: set server.tls_key too, or neither",
        );
        self.refuse_if(
            server.tls_key.is_some() && server.tls_cert.is_none(),
            &[("server", "tls_key"), ("server", "tls_cert")],
            "has no certificate beside it: set server.tls_cert too, or neither",
        );
        let clashes = matches!(
            config.metrics.listen,
            MetricsListen::Address(metrics) if is_same_port(metrics, server.listen)
        );
        self.refuse_if(
            clashes,
            &[("metrics", "listen"), ("server", "listen")],
            "metrics.listen and server.listen are the same port: choose another, or write \"main\" \
             to serve /metrics on the main listener",
        );
    }

    fn cluster(&mut self, config: &Config) {
        let (cluster, redis) = (&config.cluster, &config.redis);
        self.refuse_if(
            redis.url.is_some() && !StoreEngine::of(&config.store.url).is_shared(),
            &[("redis", "url"), ("store", "url")],
            "nodes that share Redis must share their messages too: set store.url to a \
             \"postgres://…\" database, or leave redis.url empty for a node that is alone",
        );
        self.refuse_if(
            redis.url.is_some() && config.routing.sweep_interval > REDIS_SWEEP_INTERVAL_MAX,
            &[("routing", "sweep_interval"), ("redis", "url")],
            "nobody would know who is online: with redis.url, set sweep_interval to at most 2s",
        );
        let archive = config.party.archive_url.as_deref();
        self.refuse_if(
            redis.url.is_some() && archive.is_some_and(|url| !StoreEngine::of(url).is_shared()),
            &[("party", "archive_url"), ("redis", "url")],
            "nodes that share Redis must share the archive of party sessions too: set \
             party.archive_url to a \"postgres://…\" database, or leave it empty to use store.url",
        );
        self.refuse_if(
            redis.url.is_some() && cluster.listen.is_none(),
            &[("redis", "url"), ("cluster", "listen")],
            "needs cluster.listen too: nodes reach each other there while Redis is away",
        );
        self.refuse_if(
            redis.url.is_none() && cluster.listen.is_some(),
            &[("cluster", "listen"), ("redis", "url")],
            "is of no use without redis.url, by which nodes find each other",
        );
        self.refuse_if(
            cluster.listen.is_some() && cluster.secret.expose().is_empty(),
            &[("cluster", "listen"), ("cluster", "secret")],
            "needs cluster.secret, the same on every node; make one with: openssl rand -hex 32",
        );
        let is_anywhere = cluster.listen.is_some_and(|listen| listen.ip().is_unspecified());
        self.refuse_if(
            is_anywhere && cluster.advertise.is_none(),
            &[("cluster", "listen"), ("cluster", "advertise")],
            "is no address that other nodes could reach: set cluster.advertise to one, such as \
             \"node-1.internal:7402\"",
        );
        let clashes = cluster.listen.is_some_and(|listen| {
            is_same_port(listen, config.server.listen)
                || matches!(config.metrics.listen,
                    MetricsListen::Address(metrics) if is_same_port(metrics, listen))
        });
        self.refuse_if(
            clashes,
            &[("cluster", "listen"), ("server", "listen"), ("metrics", "listen")],
            "is the port of another listener: choose another",
        );
    }

    fn planes(&mut self, config: &Config) {
        let planes = config.server.planes;
        let [ingest, fanout] = [Plane::Ingest, Plane::Fanout].map(|plane| planes.contains(plane));
        let sentence = if planes == Planes::ALL {
            return;
        } else if config.redis.url.is_none() {
            "a node that does not run every plane needs other nodes beside it: set redis.url, or \
             name gateway, ingest and fanout"
        } else if ingest != fanout {
            "the bus between ingest and fanout is inside the process: name both or neither"
        } else if !ingest {
            "in this version a gateway cannot use the ingest plane of another node: name ingest \
             and fanout too"
        } else {
            return;
        };
        self.refuse_if(true, &[("server", "planes")], sentence);
    }

    fn key_sources(&mut self, subject: &str) {
        let settings = self.settings;
        let setting = |name: &str| settings.get(key("auth", name));
        if KEY_KINDS.iter().chain(&["hmac_secrets"]).any(|name| setting(name).is_doubtful) {
            return;
        }
        let is_set = |name: &str| !setting(name).value.is_empty();
        if is_set("hmac_secret") && is_set("hmac_secrets") {
            self.refuse_if(
                true,
                &[("auth", "hmac_secret"), ("auth", "hmac_secrets")],
                "auth.hmac_secrets is set too: put all secrets there, or keep only this one",
            );
            return;
        }
        let one_of = "auth.hmac_secret, auth.public_key_files, auth.jwks_file or auth.jwks_url";
        let secret = if is_set("hmac_secrets") { "hmac_secrets" } else { "hmac_secret" };
        let candidates = [secret, KEY_KINDS[1], KEY_KINDS[2], KEY_KINDS[3]];
        let kinds: Vec<&str> = candidates.into_iter().filter(|name| is_set(name)).collect();
        match kinds.as_slice() {
            [_] => {}
            [] => self.problems.push(Problem::of_source(
                subject,
                format!("no key for tokens is set: set exactly one of {one_of}"),
            )),
            [first, others @ ..] => {
                let others: Vec<_> = others.iter().map(|name| format!("auth.{name}")).collect();
                let others = others.join(" and ");
                self.refuse_if(
                    true,
                    &[("auth", first)],
                    &format!("{others} is set too: keep exactly one kind of key ({one_of})"),
                );
            }
        }
    }
}

fn key(section: &str, name: &str) -> &'static Key {
    keys::find(section, name).expect("contradictions are between keys of the table")
}

/// Whether two listeners conflict: the same port, on the same address or on all of them.
fn is_same_port(left: SocketAddr, right: SocketAddr) -> bool {
    let meets =
        left.ip() == right.ip() || left.ip().is_unspecified() || right.ip().is_unspecified();
    left.port() != 0 && left.port() == right.port() && meets
}
