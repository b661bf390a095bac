//! The server's configuration: defaults, then a file, then the environment, made into one typed
//! value before anything starts.
//!
//! `config.default.toml` is the manual and the bottom layer. [`load`] lays the others over it,
//! judges every key by the table in `keys`, looks for contradictions, and answers either a
//! [`Loaded`] or every problem there is. No plane reads a file or the environment by itself.

mod auth;
mod check;
mod contradiction;
mod decode;
mod files;
mod keys;
mod layer;
mod load;
mod memory;
mod problem;
mod rule;
mod settings;
mod store_engine;
#[cfg(test)]
mod tests;
mod value;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use heartline_auth::Secret;
use heartline_gateway::config as gateway;
use heartline_protocol::rest::Visibility;
use heartline_routing::Planes;
use ipnet::IpNet;
use serde::Deserialize;

pub use auth::AuthKeys;
pub use decode::{LogFormat, MetricsListen};
pub use files::{Disk, Files};
pub use layer::Layer;
pub use load::{Loaded, Sources, load};
pub use memory::process_memory;
pub use problem::{ConfigErrors, Problem};
pub use settings::Difference;
pub(crate) use store_engine::StoreEngine;

/// The commented defaults, as `heartline config` prints them.
pub const DEFAULTS: &str = include_str!("../config.default.toml");

/// Everything that an operator can decide, checked.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The listener and its surroundings.
    pub server: Server,
    /// Which tokens are accepted.
    pub auth: Auth,
    /// The life of a connection.
    pub gateway: Gateway,
    /// The bounds.
    pub limits: Limits,
    /// The directory of connections.
    pub routing: Routing,
    /// Where nodes find each other's connections.
    pub redis: Redis,
    /// How nodes reach each other directly.
    pub cluster: Cluster,
    /// Who sees whether somebody is online, and how soon.
    pub presence: Presence,
    /// Party sessions.
    pub party: Party,
    /// Where messages are kept.
    pub store: Store,
    /// Where metrics are served.
    pub metrics: Metrics,
    /// What is logged, and how.
    pub log: Log,
}

/// The listener and its surroundings.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Where the main listener is bound.
    pub listen: SocketAddr,
    /// The node's name, without the suffix of this start.
    pub name: String,
    /// The directory for the node's own files.
    pub data_dir: PathBuf,
    /// The certificate chain; set exactly when `tls_key` is.
    #[serde(deserialize_with = "decode::optional_path")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key.
    #[serde(deserialize_with = "decode::optional_path")]
    pub tls_key: Option<PathBuf>,
    /// Origins besides the server's own host that browsers may connect from.
    pub allowed_origins: Vec<String>,
    /// Peers whose `X-Forwarded-For` is believed.
    #[serde(deserialize_with = "decode::networks")]
    pub trusted_proxies: Vec<IpNet>,
    /// The planes that the node runs.
    #[serde(deserialize_with = "decode::planes")]
    pub planes: Planes,
}

/// Which tokens are accepted. [`Loaded::auth_keys`] holds the same with the files read.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    /// Shared secrets, all valid at once.
    pub hmac_secrets: Vec<Secret>,
    /// One shared secret; empty when there is none.
    pub hmac_secret: Secret,
    /// PEM files with public keys, all valid at once.
    pub public_key_files: Vec<PathBuf>,
    /// A file with a key set.
    #[serde(deserialize_with = "decode::optional_path")]
    pub jwks_file: Option<PathBuf>,
    /// The address of a key set.
    #[serde(deserialize_with = "decode::optional_text")]
    pub jwks_url: Option<String>,
    /// What `iss` must be.
    #[serde(deserialize_with = "decode::optional_text")]
    pub issuer: Option<String>,
    /// What `aud` must be or contain.
    #[serde(deserialize_with = "decode::optional_text")]
    pub audience: Option<String>,
    /// How far clocks may differ.
    #[serde(deserialize_with = "decode::duration")]
    pub leeway: Duration,
    /// The secret of a site that uses NextAuth; empty when there is none.
    pub nextauth_secret: Secret,
}

/// The life of a connection.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    /// How often a client says it is alive.
    #[serde(deserialize_with = "decode::duration")]
    pub heartbeat_interval: Duration,
    /// How long silence is borne.
    #[serde(deserialize_with = "decode::duration")]
    pub heartbeat_timeout: Duration,
    /// How long a client has to authenticate after the challenge.
    #[serde(deserialize_with = "decode::duration")]
    pub auth_timeout: Duration,
    /// How long an expired token goes on serving pushes.
    #[serde(deserialize_with = "decode::duration")]
    pub token_grace: Duration,
    /// Whether a user may have several connections at once.
    #[serde(deserialize_with = "decode::session_policy")]
    pub session_policy: gateway::SessionPolicy,
    /// How long a connection may live.
    #[serde(deserialize_with = "decode::duration")]
    pub max_connection_age: Duration,
    /// How long a drain may take.
    #[serde(deserialize_with = "decode::duration")]
    pub drain_timeout: Duration,
}

/// The bounds, one key per number; the gateway's own type explains each.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the manual and the gateway's Limits document the same names")]
pub struct Limits {
    pub outbox_messages: usize,
    pub outbox_bytes: usize,
    #[serde(deserialize_with = "decode::duration")]
    pub slow_grace: Duration,
    pub urgent_frames: usize,
    pub inbound_requests: usize,
    pub send_rate: u32,
    pub send_burst: u32,
    pub frame_rate: u32,
    pub frame_burst: u32,
    pub typing_rate: u32,
    pub presence_rate: u32,
    pub frame_bytes: usize,
    pub ingest_per_chat: usize,
    pub ingest_per_node: usize,
    pub sync_reads: usize,
    pub breaker_failures: usize,
    #[serde(deserialize_with = "decode::duration")]
    pub breaker_window: Duration,
    #[serde(deserialize_with = "decode::duration")]
    pub breaker_open: Duration,
    pub connections_per_user: usize,
    pub connections_per_address: usize,
    pub outbox_memory_percent: u64,
}

/// The directory of connections.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Routing {
    /// How long a lease lasts without renewal.
    #[serde(deserialize_with = "decode::duration")]
    pub lease: Duration,
    /// How often a node renews its leases.
    #[serde(deserialize_with = "decode::duration")]
    pub renew_interval: Duration,
    /// How often leases that have run out are removed.
    #[serde(deserialize_with = "decode::duration")]
    pub sweep_interval: Duration,
    /// Into how many shards users are divided.
    pub shards: u16,
    /// What happens to new connections while Redis does not answer.
    pub redis_down: RedisDown,
}

/// What happens to new connections while Redis does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RedisDown {
    /// They are taken without a lease.
    Accept,
    /// They are refused.
    Reject,
}

/// Where nodes find each other's connections.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redis {
    /// Where; none for a node that is alone.
    #[serde(deserialize_with = "decode::optional_text")]
    pub url: Option<String>,
    /// The certificate authority that is trusted instead of the system's.
    #[serde(deserialize_with = "decode::optional_path")]
    pub tls_ca: Option<PathBuf>,
    /// What every key and channel begins with.
    pub key_prefix: String,
}

/// How nodes reach each other directly.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Where this node answers others; none for nowhere.
    #[serde(deserialize_with = "decode::optional_address")]
    pub listen: Option<SocketAddr>,
    /// The same as others write it.
    #[serde(deserialize_with = "decode::optional_text")]
    pub advertise: Option<String>,
    /// Nodes that are known without Redis.
    pub peers: Vec<String>,
    /// What nodes know each other by.
    pub secret: Secret,
}

/// Who sees whether somebody is online, and how soon.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Presence {
    /// Who may see the presence of those who have not chosen.
    pub default_visibility: Visibility,
    /// How long somebody whose last connection has ended still counts as online.
    #[serde(deserialize_with = "decode::duration")]
    pub offline_linger: Duration,
}

/// Party sessions.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Party {
    /// Whether a GraphQL socket needs a token.
    pub require_auth: bool,
    /// What a bad token is worth.
    pub bad_token: BadToken,
    /// The site that `/join` leads to.
    #[serde(deserialize_with = "decode::optional_text")]
    pub site_url: Option<String>,
    /// Where sessions are kept for good; none for where messages are.
    #[serde(deserialize_with = "decode::optional_text")]
    pub archive_url: Option<String>,
    /// How long a session rests before it is archived.
    #[serde(deserialize_with = "decode::duration")]
    pub archive_debounce: Duration,
    /// How long a session that nobody uses stays where it is fast.
    #[serde(deserialize_with = "decode::duration")]
    pub session_ttl: Duration,
    /// After how long without members a session is ended; none for never.
    #[serde(deserialize_with = "decode::auto_end")]
    pub auto_end: Option<Duration>,
    /// How long a member may be away.
    #[serde(deserialize_with = "decode::duration")]
    pub resume_grace: Duration,
    /// Queue events that can be replayed.
    pub event_log_size: usize,
    /// For how long they can.
    #[serde(deserialize_with = "decode::duration")]
    pub event_log_ttl: Duration,
    /// Events that may wait for one subscriber.
    pub subscription_queue: usize,
    /// Items of a queue.
    pub max_queue: usize,
    /// Edits of one connection in a second.
    pub edit_rate: u32,
    /// Joins of one connection in a minute.
    pub join_rate: u32,
    /// Requests of one address over HTTP in a second.
    pub query_rate: u32,
}

/// What a bad token of a GraphQL socket is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BadToken {
    /// The socket is closed.
    Refuse,
    /// As much as none.
    Anonymous,
}

/// Where messages, chats and people are kept.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// Which engine, and where.
    pub url: String,
    /// How long messages are kept; none means for ever.
    #[serde(deserialize_with = "decode::retention")]
    pub retention: Option<Duration>,
    /// Free bytes below which messages are refused.
    #[serde(deserialize_with = "decode::bytes")]
    pub disk_reserve: u64,
    /// Whether settings that could lose acknowledged messages are accepted.
    pub allow_unsafe: bool,
}

/// Where metrics are served.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    /// The listener.
    pub listen: MetricsListen,
}

/// What is logged, and how.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// A level, or levels by target.
    pub level: String,
    /// For people or for machines.
    pub format: LogFormat,
}

impl Config {
    /// The gateway's part, with the outbox memory computed from what this process may use.
    pub fn gateway(&self) -> gateway::Config {
        self.gateway_within(process_memory())
    }

    /// The gateway's part on a machine with this much memory.
    fn gateway_within(&self, memory_bytes: u64) -> gateway::Config {
        gateway::Config {
            allowed_origins: self.server.allowed_origins.clone(),
            trusted_proxies: self.server.trusted_proxies.clone(),
            heartbeat_interval: self.gateway.heartbeat_interval,
            heartbeat_timeout: self.gateway.heartbeat_timeout,
            auth_timeout: self.gateway.auth_timeout,
            token_grace: self.gateway.token_grace,
            session_policy: self.gateway.session_policy,
            max_connection_age: self.gateway.max_connection_age,
            drain_timeout: self.gateway.drain_timeout,
            lease: self.routing.lease,
            shards: self.routing.shards,
            offline_linger: self.presence.offline_linger,
            default_visibility: self.presence.default_visibility,
            accepts_unleased: self.routing.redis_down == RedisDown::Accept,
            graphql: heartline_gateway::GraphQlConfig {
                require_auth: self.party.require_auth,
                bad_token_is_anonymous: self.party.bad_token == BadToken::Anonymous,
                ..heartline_gateway::GraphQlConfig::default()
            },
            limits: self.limits.within(memory_bytes),
        }
    }

    /// How long a crashed node's users may still look online: until the lease has run out, the
    /// next sweep has seen it and the linger is over.
    pub fn crash_delay(&self) -> Duration {
        self.routing.lease + self.routing.sweep_interval + self.presence.offline_linger
    }

    /// How long a device that fell silent may still look online.
    pub fn silence_delay(&self) -> Duration {
        let silence = self.gateway.heartbeat_timeout;
        silence + self.routing.sweep_interval + self.presence.offline_linger
    }
}

impl Limits {
    /// The gateway's bounds on a machine with this much memory.
    fn within(&self, memory_bytes: u64) -> gateway::Limits {
        gateway::Limits {
            outbox_messages: self.outbox_messages,
            outbox_bytes: self.outbox_bytes,
            slow_grace: self.slow_grace,
            urgent_frames: self.urgent_frames,
            inbound_requests: self.inbound_requests,
            send_rate: self.send_rate,
            send_burst: self.send_burst,
            frame_rate: self.frame_rate,
            frame_burst: self.frame_burst,
            typing_rate: self.typing_rate,
            presence_rate: self.presence_rate,
            frame_bytes: self.frame_bytes,
            connections_per_user: self.connections_per_user,
            connections_per_address: self.connections_per_address,
            outbox_memory: share(memory_bytes, self.outbox_memory_percent),
        }
    }
}

/// A percentage, without overflow for any number of bytes.
fn share(bytes: u64, percent: u64) -> u64 {
    let share = u128::from(bytes) * u128::from(percent) / 100;
    u64::try_from(share).unwrap_or(u64::MAX)
}
