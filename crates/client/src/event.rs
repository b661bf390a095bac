//! What a client tells its application.

use std::time::Duration;

use heartline_protocol::server_frame::{ConnectionClosing, ConnectionEstablished};
use heartline_protocol::{CloseReason, ErrorCode, ServerFrame};

use crate::token::TokenError;

/// Something that happened to the connection, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientEvent {
    /// An attempt begins.
    Connecting {
        /// The URL, as it was configured.
        url: String,
        /// 1 for the first attempt since the start or since the last established connection.
        attempt: u32,
    },
    /// The connection is admitted: from here on pushes arrive, so now is the time to sync.
    Connected(Box<ConnectionEstablished>),
    /// Every other frame from the server.
    Frame {
        /// What it says; [`ServerFrame::Unknown`] if this version cannot tell.
        frame: Box<ServerFrame>,
        /// The text as it came.
        text: String,
    },
    /// The attempt or the connection is over.
    Disconnected {
        /// How it ended.
        ending: Ending,
        /// How long the client pauses before the next attempt; none when it stops.
        retry_in: Option<Duration>,
    },
    /// The client gave up, or was closed. It is the last event.
    Stopped(StopReason),
}

/// How an attempt or a connection ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// The server answered the upgrade with another status.
    Refused(Refusal),
    /// The server closed the connection.
    Closed {
        /// What it said before, if it said something.
        closing: Option<ConnectionClosing>,
        /// The code of its Close frame, if one came.
        code: Option<u16>,
    },
    /// Nobody said anything.
    Lost(Loss),
    /// There was no token to connect with.
    NoToken(TokenError),
}

/// The server's answer to an upgrade that it did not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The code of the error body, if there is one.
    pub code: Option<ErrorCode>,
    /// The error body's sentence for a person.
    pub message: Option<String>,
    /// When to try again, if the server said so.
    pub retry_after: Option<Duration>,
}

/// How a connection can end without a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// It could not be made.
    Unreachable(String),
    /// The upgrade went well, but `connection_established` did not come in time.
    NotEstablished,
    /// A heartbeat and everything after it stayed unanswered.
    HeartbeatTimeout,
    /// It broke.
    Broken(String),
    /// The application broke it.
    Dropped,
}

/// Why the client makes no further attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// The application closed it.
    ClosedByCaller,
    /// The server ended the session and does not want it back.
    ClosedByServer(CloseReason),
    /// The server refused the upgrade in a way that no further attempt can change.
    Refused {
        /// The HTTP status.
        status: u16,
    },
    /// The server did not accept the token, and there is no other that it accepts.
    TokenRefused,
    /// The provider says that there will be no token, or gave one that no header can carry.
    NoToken(String),
}
