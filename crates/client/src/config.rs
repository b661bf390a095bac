//! What the client needs to know before it starts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use heartline_protocol::DeviceId;
use heartline_protocol::limits::SYNC_PAGE_BYTES_MAX;
use heartline_runtime::{Clock, Random};

use crate::back_off::BackOffConfig;
use crate::dial::{self, Dialer, TcpDialer};
use crate::token::TokenProvider;

/// The client's configuration. Start from [`ClientConfig::new`] and change what differs.
#[derive(Clone)]
pub struct ClientConfig {
    /// Where the server is: `ws`, `wss`, `http` or `https` URLs, tried in turn. A URL without a
    /// path means the protocol's own, `/v1/ws`.
    pub urls: Vec<String>,
    /// Where tokens come from.
    pub token: Arc<dyn TokenProvider>,
    /// The device; without one, and without one in the token, the server makes a new one for
    /// every connection.
    pub device_id: Option<DeviceId>,
    /// How the token travels.
    pub authentication: Authentication,
    /// How long to pause after failures.
    pub back_off: BackOffConfig,
    /// The clocks: the machine's, unless a test simulates time.
    pub clock: Clock,
    /// The random source of ids and pauses: the machine's, unless a test repeats them.
    pub random: Random,
    /// Opens sockets: by TCP, unless a test connects inside the process.
    pub dialer: Arc<dyn Dialer>,
    /// How long the TCP connection, TLS and the upgrade may take together.
    pub connect_timeout: Duration,
    /// How long `connection_established` may take after the upgrade.
    pub establish_timeout: Duration,
    /// Events that may wait for their consumer; when they are that many, the socket is not read.
    pub event_capacity: usize,
    /// Frames that may wait to be written; when they are that many, sending waits.
    pub frame_capacity: usize,
    /// Bytes of the largest frame that is accepted from the server.
    pub frame_bytes_max: usize,
    /// The TLS configuration for `wss` and `https`; without one the public roots are trusted.
    pub tls: Option<Arc<rustls::ClientConfig>>,
}

/// How the token travels to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authentication {
    /// In the `Authorization` header of the upgrade.
    Header,
    /// In the list of subprotocols, as browsers must do it.
    Subprotocol,
    /// In an `authenticate` frame, as the answer to `auth_challenge`.
    Message,
}

/// Why a client cannot start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// There is nowhere to connect to.
    #[error("the client needs at least one URL")]
    NoUrl,
    /// A URL cannot be used.
    #[error("{url} cannot be used: {reason}")]
    InvalidUrl {
        /// The URL as it was given.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A queue that can hold nothing would stop everything.
    #[error("event_capacity and frame_capacity must be at least 1")]
    ZeroCapacity,
}

impl ClientConfig {
    /// A client of one server with the protocol's own pauses and bounds.
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

    /// The TLS configuration in force, for what the application asks of the same server outside
    /// the socket.
    pub fn trust(&self) -> Arc<rustls::ClientConfig> {
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
