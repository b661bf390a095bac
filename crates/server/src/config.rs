//! The server's configuration: defaults, then a file, then the environment, made into one typed
//! value before anything starts.
//!
//! `config.default.toml` is the manual and the bottom layer. [`load`] lays the others over it,
//! checks every key by the table in `keys`, looks for contradictions, and returns either a
//! [`Loaded`] or every problem. No plane reads a file or the environment by itself.

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

/// Every setting of the server, checked.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The listener, the node's name, its files and its certificate.
    pub server: Server,
    /// The accepted tokens.
    pub auth: Auth,
    /// Heartbeats, timeouts and the drain of connections.
    pub gateway: Gateway,
    /// The limits of connections, queues and rates.
    pub limits: Limits,
    /// The directory of connections.
    pub routing: Routing,
    /// The Redis that nodes share.
    pub redis: Redis,
    /// Direct links between nodes.
    pub cluster: Cluster,
    /// The visibility of presence, and the delay of a transition to offline.
    pub presence: Presence,
    /// Party sessions.
    pub party: Party,
    /// The store of messages, chats and users.
    pub store: Store,
    /// The listener for metrics.
    pub metrics: Metrics,
    /// The level and the format of log lines.
    pub log: Log,
}

/// The listener, the node's name, its files and its certificate.
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
    /// Peers whose `X-Forwarded-For` is trusted.
    #[serde(deserialize_with = "decode::networks")]
    pub trusted_proxies: Vec<IpNet>,
    /// The planes that the node runs.
    #[serde(deserialize_with = "decode::planes")]
    pub planes: Planes,
}

/// The accepted tokens. [`Loaded::auth_keys`] holds the same with the files read.
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
    /// The required value of `iss`.
    #[serde(deserialize_with = "decode::optional_text")]
    pub issuer: Option<String>,
    /// The value that `aud` must be or contain.
    #[serde(deserialize_with = "decode::optional_text")]
    pub audience: Option<String>,
    /// How far the clocks of issuer and server may differ.
    pub leeway: Duration,
    /// The secret of a site that uses NextAuth; empty when there is none.
    pub nextauth_secret: Secret,
}

/// Heartbeats, timeouts and the drain of connections.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    /// How often a client sends a heartbeat.
    pub heartbeat_interval: Duration,
    /// How long a connection may be silent before it is closed.
    pub heartbeat_timeout: Duration,
    /// How long a client has to authenticate after the challenge.
    pub auth_timeout: Duration,
    /// How long a connection stays open after its token has expired.
    pub token_grace: Duration,
    /// Whether a user may have several connections at once.
    #[serde(deserialize_with = "decode::session_policy")]
    pub session_policy: gateway::SessionPolicy,
    /// The maximum age of a connection.
    pub max_connection_age: Duration,
    /// How long a drain may take.
    pub drain_timeout: Duration,
}

/// The limits, one key per number.
#[derive(Debug, Clone, Deserialize)]
pub struct Limits {
    /// The limits of connections. Their keys are in the same section.
    #[serde(flatten)]
    pub gateway: gateway::Limits,
    /// The share of the process' memory that all outboxes together may hold.
    pub outbox_memory_percent: u64,
    /// Sends under way per chat.
    pub ingest_per_chat: usize,
    /// Sends under way per node.
    pub ingest_per_node: usize,
    /// Sync reads under way per node.
    pub sync_reads: usize,
    /// Failures of the store within the window that open its circuit breaker.
    pub breaker_failures: usize,
    /// The window in which failures of the store are counted.
    pub breaker_window: Duration,
    /// How long an open circuit breaker rejects calls before it tries one.
    pub breaker_open: Duration,
}

/// The directory of connections.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Routing {
    /// How long a lease lasts without renewal.
    pub lease: Duration,
    /// How often a node renews its leases.
    pub renew_interval: Duration,
    /// How often expired leases are removed.
    pub sweep_interval: Duration,
    /// The number of shards that users are divided into.
    pub shards: u16,
    /// The policy for new connections while Redis does not answer.
    pub redis_down: RedisDown,
}

/// The policy for new connections while Redis does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RedisDown {
    /// New connections are accepted without a lease.
    Accept,
    /// New connections are rejected.
    Reject,
}

/// The Redis that nodes share.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redis {
    /// The URL; none for a single node.
    #[serde(deserialize_with = "decode::optional_text")]
    pub url: Option<String>,
    /// The certificate authority that is trusted instead of the system's.
    #[serde(deserialize_with = "decode::optional_path")]
    pub tls_ca: Option<PathBuf>,
    /// The prefix of every key and channel.
    pub key_prefix: String,
}

/// Direct links between nodes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// The address that other nodes connect to; none without direct links.
    #[serde(deserialize_with = "decode::optional_address")]
    pub listen: Option<SocketAddr>,
    /// The address of this node as other nodes reach it.
    #[serde(deserialize_with = "decode::optional_text")]
    pub advertise: Option<String>,
    /// Nodes that are known without Redis.
    pub peers: Vec<String>,
    /// The secret by which nodes authenticate each other.
    pub secret: Secret,
}

/// The visibility of presence, and the delay of a transition to offline.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Presence {
    /// The visibility of users who have chosen none.
    pub default_visibility: Visibility,
    /// How long a user whose last connection has ended still counts as online.
    pub offline_linger: Duration,
}

/// Party sessions.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Party {
    /// Whether a GraphQL socket needs a token.
    pub require_auth: bool,
    /// The policy for an invalid token.
    pub bad_token: BadToken,
    /// The site that `/join` leads to.
    #[serde(deserialize_with = "decode::optional_text")]
    pub site_url: Option<String>,
    /// The store of archived sessions; none for the store of messages.
    #[serde(deserialize_with = "decode::optional_text")]
    pub archive_url: Option<String>,
    /// How long a session must be unchanged before it is archived.
    pub archive_debounce: Duration,
    /// How long an unused session stays in memory or Redis.
    pub session_ttl: Duration,
    /// After how long without members a session is ended; none for never.
    #[serde(deserialize_with = "decode::auto_end")]
    pub auto_end: Option<Duration>,
    /// How long a member may be away.
    pub resume_grace: Duration,
    /// Queue events that can be replayed.
    pub event_log_size: usize,
    /// How long queue events can be replayed.
    pub event_log_ttl: Duration,
    /// Pending events per subscriber, at most.
    pub subscription_queue: usize,
    /// Items of a queue, at most.
    pub max_queue: usize,
    /// Edits per connection and second.
    pub edit_rate: u32,
    /// Joins per connection and minute.
    pub join_rate: u32,
    /// HTTP requests per address and second.
    pub query_rate: u32,
}

/// The policy for an invalid token of a GraphQL socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BadToken {
    /// The socket is closed.
    Refuse,
    /// The socket is served as anonymous.
    Anonymous,
}

/// The store of messages, chats and users.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// The engine and its location.
    pub url: String,
    /// How long messages are kept; none for ever.
    #[serde(deserialize_with = "decode::retention")]
    pub retention: Option<Duration>,
    /// Free bytes on disk below which messages are rejected.
    #[serde(deserialize_with = "decode::bytes")]
    pub disk_reserve: u64,
    /// Whether settings that could lose acknowledged messages are accepted.
    pub allow_unsafe: bool,
}

/// The listener for metrics.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    /// Where metrics are served.
    pub listen: MetricsListen,
}

/// The level and the format of log lines.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// A level, or levels by target.
    pub level: String,
    /// Text or JSON.
    pub format: LogFormat,
}

impl Config {
    /// The gateway's part, with the outbox memory computed from the memory of this process.
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

    /// How long the users of a crashed node may still appear online: until the lease has expired,
    /// the next sweep has found it and the linger has passed.
    pub fn crash_delay(&self) -> Duration {
        self.routing.lease + self.routing.sweep_interval + self.presence.offline_linger
    }

    /// How long the user of a silent device may still appear online.
    pub fn silence_delay(&self) -> Duration {
        let silence = self.gateway.heartbeat_timeout;
        silence + self.routing.sweep_interval + self.presence.offline_linger
    }
}

impl Limits {
    /// The gateway's limits on a machine with this much memory.
    fn within(&self, memory_bytes: u64) -> gateway::Limits {
        let outbox_memory = share(memory_bytes, self.outbox_memory_percent);
        gateway::Limits { outbox_memory, ..self.gateway.clone() }
    }
}

/// A percentage, without overflow for any number of bytes.
fn share(bytes: u64, percent: u64) -> u64 {
    let share = u128::from(bytes) * u128::from(percent) / 100;
    u64::try_from(share).unwrap_or(u64::MAX)
}
