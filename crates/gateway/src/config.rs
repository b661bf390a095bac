//! The configuration of the gateway.

use std::time::Duration;

use heartline_protocol::limits::{self, ClientLimits};
use heartline_protocol::rest::Visibility;
use heartline_routing::Policy;
use ipnet::IpNet;
use serde::Deserialize;

use crate::graphql::GraphQlConfig;

/// The gateway's configuration. The server composes it from its file; nothing here reads one.
#[derive(Debug, Clone)]
pub struct Config {
    /// Origins besides the server's own host that browsers may connect from.
    pub allowed_origins: Vec<String>,
    /// Peers whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// How often a client sends a heartbeat.
    pub heartbeat_interval: Duration,
    /// How long a connection may be silent before it is closed.
    pub heartbeat_timeout: Duration,
    /// How long a client has to authenticate after the challenge.
    pub auth_timeout: Duration,
    /// How long a connection stays open after its token has expired.
    pub token_grace: Duration,
    /// Whether a user may have several connections at once.
    pub session_policy: SessionPolicy,
    /// The maximum age of a connection; each gets a jitter of a tenth.
    pub max_connection_age: Duration,
    /// How long a drain may take.
    pub drain_timeout: Duration,
    /// How long a lease lasts without renewal.
    pub lease: Duration,
    /// The number of shards that users are divided into.
    pub shards: u16,
    /// How long a user stays online after the last connection, in case they reconnect.
    pub offline_linger: Duration,
    /// The visibility of users who have chosen none.
    pub default_visibility: Visibility,
    /// Whether sockets are accepted while the directory does not answer, without a lease until it
    /// does.
    pub accepts_unleased: bool,
    /// How GraphQL sockets are served.
    pub graphql: GraphQlConfig,
    /// The limits.
    pub limits: Limits,
}

/// The number of simultaneous connections of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionPolicy {
    /// One connection per device.
    MultiDevice,
    /// One connection per user.
    SingleSession,
}

/// The gateway's limits; the defaults are the protocol's. A configuration names each by its field.
#[derive(Debug, Clone, Deserialize)]
pub struct Limits {
    /// Frames that one connection's data lane may hold.
    pub outbox_messages: usize,
    /// Bytes that one connection's data lane may hold.
    pub outbox_bytes: usize,
    /// How long a slow consumer has to recover.
    pub slow_grace: Duration,
    /// Frames that one connection's urgent lane may hold before reading pauses.
    pub urgent_frames: usize,
    /// Pending requests of one connection, at most.
    pub inbound_requests: usize,
    /// Sustained `send_message` frames per second.
    pub send_rate: u32,
    /// `send_message` frames that may be sent at once.
    pub send_burst: u32,
    /// Sustained other frames per second.
    pub frame_rate: u32,
    /// Other frames that may be sent at once.
    pub frame_burst: u32,
    /// `typing` frames per second and chat.
    pub typing_rate: u32,
    /// Presence frames per second.
    pub presence_rate: u32,
    /// Bytes of one inbound message.
    pub frame_bytes: usize,
    /// Live connections per user.
    pub connections_per_user: usize,
    /// Live connections per address on this node.
    pub connections_per_address: usize,
    /// Bytes that all outboxes together may hold.
    #[serde(skip)]
    pub outbox_memory: u64,
}

impl Config {
    /// The directory's policy.
    pub fn policy(&self) -> Policy {
        Policy {
            single_session: self.session_policy == SessionPolicy::SingleSession,
            connections_per_user: self.limits.connections_per_user,
            lease: self.lease,
            offline_linger: self.offline_linger,
        }
    }

    /// The limits that `connection_established` announces.
    pub fn client_limits(&self) -> ClientLimits {
        ClientLimits {
            frame_bytes: self.limits.frame_bytes as u64,
            outbox_messages: self.limits.outbox_messages as u64,
            outbox_bytes: self.limits.outbox_bytes as u64,
            slow_grace_ms: self.limits.slow_grace.as_millis() as u64,
            inbound_requests: self.limits.inbound_requests as u64,
            send_rate: self.limits.send_rate.into(),
            send_burst: self.limits.send_burst.into(),
            frame_rate: self.limits.frame_rate.into(),
            frame_burst: self.limits.frame_burst.into(),
            typing_rate: self.limits.typing_rate.into(),
            presence_rate: self.limits.presence_rate.into(),
            connections_per_user: self.limits.connections_per_user as u64,
            ..ClientLimits::default()
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            allowed_origins: Vec::new(),
            trusted_proxies: Vec::new(),
            heartbeat_interval: limits::HEARTBEAT_INTERVAL,
            heartbeat_timeout: limits::HEARTBEAT_TIMEOUT,
            auth_timeout: limits::AUTH_TIMEOUT,
            token_grace: limits::TOKEN_GRACE,
            session_policy: SessionPolicy::MultiDevice,
            max_connection_age: limits::CONNECTION_AGE_MAX,
            drain_timeout: Duration::from_secs(30),
            lease: Duration::from_secs(15),
            shards: 100,
            offline_linger: Duration::ZERO,
            default_visibility: Visibility::ContactsOnly,
            accepts_unleased: true,
            graphql: GraphQlConfig::default(),
            limits: Limits::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            outbox_messages: limits::OUTBOX_MESSAGES_MAX,
            outbox_bytes: limits::OUTBOX_BYTES_MAX,
            slow_grace: limits::SLOW_GRACE,
            urgent_frames: limits::URGENT_FRAMES_MAX,
            inbound_requests: limits::INBOUND_REQUESTS_MAX,
            send_rate: limits::SEND_RATE_PER_SECOND,
            send_burst: limits::SEND_BURST,
            frame_rate: limits::FRAME_RATE_PER_SECOND,
            frame_burst: limits::FRAME_BURST,
            typing_rate: limits::TYPING_RATE_PER_SECOND,
            presence_rate: limits::PRESENCE_RATE_PER_SECOND,
            frame_bytes: limits::FRAME_BYTES_MAX,
            connections_per_user: limits::CONNECTIONS_PER_USER_MAX,
            connections_per_address: limits::CONNECTIONS_PER_ADDRESS_MAX,
            outbox_memory: 256 * 1024 * 1024,
        }
    }
}
