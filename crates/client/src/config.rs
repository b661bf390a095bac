//! The configuration of a client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use heartline_protocol::DeviceId;
use heartline_protocol::limits::SYNC_PAGE_BYTES_MAX;
use heartline_runtime::{Clock, Random};

use crate::back_off::BackOffConfig;
use crate::dial::{self, Dialer, TcpDialer};
use crate::token::TokenProvider;

/// The configuration of a client. Start from [`ClientConfig::new`] and change individual fields.
#[derive(Clone)]
pub struct ClientConfig {
    /// The URLs of the server, tried in turn: `ws`, `wss`, `http` or `https`. A URL without a path
    /// means `/v1/ws`.
    pub urls: Vec<String>,
    /// The source of tokens.
    pub token: Arc<dyn TokenProvider>,
    /// The device id. If neither this nor the token has one, the server creates a new id for every
    /// connection.
    pub device_id: Option<DeviceId>,
    /// How the client sends the token.
    pub authentication: Authentication,
    /// The delays after failures.
    pub back_off: BackOffConfig,
    /// The clocks: those of the machine, unless a test simulates time.
    pub clock: Clock,
    /// The random source of ids and jitter: that of the machine, unless a test needs repeatable
    /// values.
    pub random: Random,
    /// Opens sockets: over TCP, unless a test connects inside the process.
    pub dialer: Arc<dyn Dialer>,
    /// The time limit for the TCP connection, TLS and the upgrade together.
    pub connect_timeout: Duration,
    /// The time limit for `connection_established` after the upgrade.
    pub establish_timeout: Duration,
    /// The capacity of the event queue; while it is full, the socket is not read.
    pub event_capacity: usize,
    /// The capacity of the queue of outgoing frames; while it is full, sending waits.
    pub frame_capacity: usize,
    /// Bytes of the largest frame that the client accepts from the server.
    pub frame_bytes_max: usize,
    /// The TLS configuration for `wss` and `https`; by default the public roots are trusted.
    pub tls: Option<Arc<rustls::ClientConfig>>,
}

/// How the client sends the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authentication {
    /// In the `Authorization` header of the upgrade.
    Header,
    /// In the list of subprotocols, as browsers must.
    Subprotocol,
    /// In an `authenticate` frame, as the answer to `auth_challenge`.
    Message,
}

/// The reason why a client cannot start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The list of URLs is empty.
    #[error("the client has no URL: configure at least one")]
    NoUrl,
    /// A URL is invalid.
    #[error("the URL {url} is invalid: {reason}")]
    InvalidUrl {
        /// The URL as configured.
        url: String,
        /// The reason, for people.
        reason: &'static str,
    },
    /// A queue has no capacity.
    #[error("event_capacity and frame_capacity must be at least 1")]
    ZeroCapacity,
}

impl ClientConfig {
    /// A client of one server with the default delays and limits of the protocol.
    pub fn new(url: impl Into<String>, token: impl TokenProvider + 'static) -> Self {
        Self {
            urls: vec![url.into()],
            token: Arc::new(token),
            device_id: None,
            authentication: Authentication::Header,
            back_off: BackOffConfig::default(),
            clock: Clock::system(),
            random: Random::system(),
            dialer: Arc::new(TcpDialer),
            connect_timeout: Duration::from_secs(10),
            establish_timeout: Duration::from_secs(15),
            event_capacity: 256,
            frame_capacity: 256,
            frame_bytes_max: 4 * SYNC_PAGE_BYTES_MAX,
            tls: None,
        }
    }

    /// The TLS configuration in use, for requests of the application to the same server outside the
    /// socket.
    pub fn tls_config(&self) -> Arc<rustls::ClientConfig> {
        self.tls.clone().unwrap_or_else(dial::public_roots)
    }
}

impl fmt::Debug for ClientConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ClientConfig")
            .field("urls", &self.urls)
            .field("device_id", &self.device_id)
            .field("authentication", &self.authentication)
            .field("back_off", &self.back_off)
            .finish_non_exhaustive()
    }
}
