//! The events of a client.

use std::time::Duration;

use heartline_protocol::server_frame::{ConnectionClosing, ConnectionEstablished};
use heartline_protocol::{CloseReason, ErrorCode, ServerFrame};

use crate::token::TokenError;

/// An event of the connection. Events arrive in the order in which they happened.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientEvent {
    /// An attempt to connect begins.
    Connecting {
        /// The URL as configured.
        url: String,
        /// The number of the attempt since the start or the last established connection; 1 is the
        /// first.
        attempt: u32,
    },
    /// The connection is established. Pushes arrive from now on, so an application that syncs does
    /// it now.
    Connected(Box<ConnectionEstablished>),
    /// Any other frame from the server.
    Frame {
        /// The decoded frame; [`ServerFrame::Unknown`] if this version does not know its type.
        frame: Box<ServerFrame>,
        /// The text of the frame as received.
        text: String,
    },
    /// The attempt failed or the connection ended.
    Disconnected {
        /// How the attempt or the connection ended.
        ending: Ending,
        /// The delay before the next attempt; none if the client stops.
        retry_in: Option<Duration>,
    },
    /// The client stopped. This is the last event.
    Stopped(StopReason),
}

/// How an attempt or a connection ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// The server answered the upgrade with a status other than 101.
    Rejected(Rejection),
    /// The server closed the connection.
    Closed {
        /// The server's `connection_closing`, if it sent one.
        closing: Option<ConnectionClosing>,
        /// The code of the server's Close frame, if it sent one.
        code: Option<u16>,
    },
    /// The connection failed without a message from the server.
    Lost(Loss),
    /// The provider returned no token.
    NoToken(TokenError),
}

/// The server's response to an upgrade that it rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The HTTP status.
    pub status: u16,
    /// The code of the error body, if there is one.
    pub code: Option<ErrorCode>,
    /// The message of the error body, for people.
    pub message: Option<String>,
    /// The delay of `Retry-After`, if the server sent one.
    pub retry_after: Option<Duration>,
}

/// How a connection failed without a message from the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// The connection could not be opened.
    Unreachable(String),
    /// The upgrade succeeded, but `connection_established` did not arrive in time.
    NotEstablished,
    /// The server sent nothing for the heartbeat timeout after a heartbeat.
    HeartbeatTimeout,
    /// The socket failed or was closed.
    Broken(String),
    /// The application dropped the connection.
    Dropped,
}

/// The reason why the client stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// The application closed the client.
    ClosedByCaller,
    /// The server closed the connection with a reason that forbids reconnecting.
    ClosedByServer(CloseReason),
    /// The server rejected the upgrade with a status after which no retry can succeed.
    Rejected {
        /// The HTTP status.
        status: u16,
    },
    /// The server rejected the token, and the provider has no other that the server accepts.
    TokenRejected,
    /// The provider will have no token any more, or returned one that a header cannot carry.
    NoToken(String),
}
