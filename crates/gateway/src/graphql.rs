//! GraphQL over WebSocket, the second protocol of the gateway.
//!
//! The transport is `graphql-transport-ws`; the operations are behind a port. Such a socket passes
//! the same checks as any other: origin, limits, memory, drain, and with a token also lease and
//! expiry.

mod connection;
pub mod conversation;
mod deadlines;
mod serve;

pub use serve::AcceptedGraphQl;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use heartline_protocol::UserId;

pub use heartline_protocol::graphql::{GraphQlRequest, Reply};

/// The subprotocol.
pub const SUBPROTOCOL: &str = "graphql-transport-ws";

/// The configuration of GraphQL sockets.
#[derive(Debug, Clone, Copy)]
pub struct GraphQlConfig {
    /// Whether a socket needs a token.
    pub require_auth: bool,
    /// Whether a bad token counts as none.
    pub bad_token_is_anonymous: bool,
    /// Bytes of one message.
    pub message_bytes: usize,
    /// Pending operations of one socket, at most, including subscriptions.
    pub operations: usize,
    /// How long a socket may take to send `connection_init`.
    pub init_timeout: Duration,
    /// How often a silent client gets a Ping.
    pub ping_interval: Duration,
    /// How long a socket may accept none of its pending bytes.
    pub blocked_timeout: Duration,
}

impl Default for GraphQlConfig {
    fn default() -> Self {
        Self {
            require_auth: false,
            bad_token_is_anonymous: false,
            message_bytes: 6 * 1024 * 1024,
            operations: 100,
            init_timeout: Duration::from_secs(3),
            ping_interval: Duration::from_secs(12),
            blocked_timeout: Duration::from_secs(10),
        }
    }
}

/// The GraphQL service.
pub trait GraphQl: fmt::Debug + Send + Sync {
    /// Opens the service for a socket, with its account or anonymous.
    fn open(&self, account: Option<UserId>) -> Arc<dyn GraphQlCaller>;
}

/// One socket of the GraphQL service.
pub trait GraphQlCaller: fmt::Debug + Send + Sync {
    /// Runs an operation. A query or a mutation has one reply, a subscription any number.
    fn run(&self, request: GraphQlRequest) -> BoxStream<'static, Reply>;

    /// Ends the socket's use of the service.
    fn close(self: Arc<Self>) -> BoxFuture<'static, ()>;
}
