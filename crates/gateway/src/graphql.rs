//! GraphQL over WebSocket, the second language that sockets speak here.
//!
//! The transport is `graphql-transport-ws`; what the operations mean is behind a port. Such a socket
//! passes the same gate as any other: origin, limits, tokens, leases, memory, drain.

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

/// What may be configured about GraphQL sockets.
#[derive(Debug, Clone, Copy)]
pub struct GraphQlConfig {
    /// Whether a socket needs a token.
    pub require_auth: bool,
    /// Whether a bad token counts as none.
    pub bad_token_is_anonymous: bool,
    /// Bytes of one message.
    pub message_bytes: usize,
    /// Operations that one socket may have under way, subscriptions among them.
    pub operations: usize,
    /// How long a socket may take to say `connection_init`.
    pub init_timeout: Duration,
    /// How often a silent client is asked whether it is there.
    pub ping_interval: Duration,
    /// How long a socket may take nothing of what waits for it.
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

/// What answers GraphQL.
pub trait GraphQl: fmt::Debug + Send + Sync {
    /// Takes up a socket, of an account or of nobody in particular.
    fn open(&self, account: Option<UserId>) -> Arc<dyn GraphQlCaller>;
}

/// One socket as what answers GraphQL knows it.
pub trait GraphQlCaller: fmt::Debug + Send + Sync {
    /// Runs an operation. A query or a mutation has one answer, a subscription any number.
    fn run(&self, request: GraphQlRequest) -> BoxStream<'static, Reply>;

    /// The socket has closed.
    fn close(self: Arc<Self>) -> BoxFuture<'static, ()>;
}
