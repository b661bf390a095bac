//! Closing reasons: for each its close code and whether the client reconnects.

use serde::{Deserialize, Serialize};

use crate::limits::CLOSE_REASON_BYTES_MAX;

/// The reason for which the server closes a connection, sent in `connection_closing` before the
/// Close frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CloseReason {
    /// The client did not authenticate within the timeout.
    AuthTimeout,
    /// The token is invalid; another one may be valid.
    Unauthorized,
    /// The token expired and was not refreshed within the grace period.
    TokenExpired,
    /// A newer connection of the same device replaced this one, or a newer connection of the same
    /// user where only one is allowed. Reconnecting would replace the newer one in turn.
    SessionReplaced,
    /// An operator or the application's back end closed the connection.
    SessionEnded,
    /// Too many connections of this user or address.
    ConnectionLimit,
    /// The client sent nothing for the heartbeat timeout.
    HeartbeatTimeout,
    /// The client did not read fast enough: reconnect, and sync to get the frames that were
    /// dropped.
    SlowConsumer,
    /// The client kept sending faster than its rate limits allow.
    RateLimited,
    /// The client violated the protocol. The close code says how: 1002 framing, 1003 too many
    /// frames that are not JSON objects or arrived before `authenticate`, 1007 text that is not
    /// UTF-8, 1009 size.
    ProtocolError,
    /// The server is shutting down.
    ServerShutdown,
    /// The connection reached its maximum age; this is not an error.
    MaxAge,
    /// The server cannot serve this connection at the moment, or has rejected too many of its
    /// requests with `SERVER_BUSY`.
    Overloaded,
    /// The server failed internally.
    InternalError,
}

/// The client's next step after a close.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reconnect {
    /// Do not reconnect automatically: ask the user.
    Never,
    /// Reconnect with a token other than the rejected one; after a second rejection in a row do not
    /// reconnect automatically.
    WithNewToken,
    /// Reconnect after the client's own delay, which grows with every failure.
    BackOff,
    /// Reconnect after the `reconnect_delay_ms` that the server sent.
    AfterDelay,
}

impl CloseReason {
    /// Every reason, in the order of the reference page.
    pub const ALL: [Self; 14] = [
        Self::AuthTimeout,
        Self::Unauthorized,
        Self::TokenExpired,
        Self::SessionReplaced,
        Self::SessionEnded,
        Self::ConnectionLimit,
        Self::HeartbeatTimeout,
        Self::SlowConsumer,
        Self::RateLimited,
        Self::ProtocolError,
        Self::ServerShutdown,
        Self::MaxAge,
        Self::Overloaded,
        Self::InternalError,
    ];

    /// The reason as on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AuthTimeout => "auth_timeout",
            Self::Unauthorized => "unauthorized",
            Self::TokenExpired => "token_expired",
            Self::SessionReplaced => "session_replaced",
            Self::SessionEnded => "session_ended",
            Self::ConnectionLimit => "connection_limit",
            Self::HeartbeatTimeout => "heartbeat_timeout",
            Self::SlowConsumer => "slow_consumer",
            Self::RateLimited => "rate_limited",
            Self::ProtocolError => "protocol_error",
            Self::ServerShutdown => "server_shutdown",
            Self::MaxAge => "max_age",
            Self::Overloaded => "overloaded",
            Self::InternalError => "internal_error",
        }
    }

    /// The WebSocket close code. For `protocol_error` this is 1003, frames that are not JSON
    /// objects; violations in framing, text and size are closed with 1002, 1007 and 1009 instead.
    pub const fn code(self) -> u16 {
        match self {
            Self::AuthTimeout => 4408,
            Self::Unauthorized | Self::TokenExpired => 4401,
            Self::SessionReplaced => 4409,
            Self::SessionEnded => 4403,
            Self::ConnectionLimit | Self::RateLimited => 4429,
            Self::HeartbeatTimeout => 4410,
            Self::SlowConsumer => 1008,
            Self::ProtocolError => 1003,
            Self::ServerShutdown | Self::MaxAge => 1001,
            Self::Overloaded => 1013,
            Self::InternalError => 1011,
        }
    }

    /// The close code on a GraphQL socket; none if the reason does not occur there.
    pub const fn graphql_code(self) -> Option<u16> {
        match self {
            Self::AuthTimeout => Some(4408),
            Self::Unauthorized => Some(4401),
            Self::TokenExpired | Self::SessionEnded => Some(4403),
            Self::SessionReplaced => None,
            Self::ProtocolError => Some(4400),
            Self::ServerShutdown | Self::MaxAge => Some(1012),
            Self::ConnectionLimit
            | Self::HeartbeatTimeout
            | Self::SlowConsumer
            | Self::RateLimited
            | Self::Overloaded
            | Self::InternalError => Some(1013),
        }
    }

    /// The client's next step.
    pub const fn reconnect(self) -> Reconnect {
        match self {
            Self::SessionReplaced | Self::SessionEnded => Reconnect::Never,
            Self::Unauthorized | Self::TokenExpired => Reconnect::WithNewToken,
            Self::ServerShutdown | Self::MaxAge => Reconnect::AfterDelay,
            Self::AuthTimeout
            | Self::ConnectionLimit
            | Self::HeartbeatTimeout
            | Self::SlowConsumer
            | Self::RateLimited
            | Self::ProtocolError
            | Self::Overloaded
            | Self::InternalError => Reconnect::BackOff,
        }
    }

    /// The `reconnect_allowed` of the closing frame: false if reconnecting with the same token and
    /// device cannot succeed.
    pub const fn reconnect_allowed(self) -> bool {
        !matches!(self, Self::SessionReplaced | Self::SessionEnded | Self::Unauthorized)
    }
}

/// Truncates a close reason to the size limit of a Close frame, on a character boundary.
pub fn cut_reason(reason: &str) -> &str {
    let end = reason.floor_char_boundary(CLOSE_REASON_BYTES_MAX);
    &reason[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_written_form_is_the_serialised_form() {
        for reason in CloseReason::ALL {
            let json = serde_json::to_string(&reason).unwrap();
            assert_eq!(json, format!("\"{}\"", reason.as_str()));
        }
    }

    #[test]
    fn a_reason_is_cut_on_a_character_boundary() {
        let long = "é".repeat(100);
        assert_eq!(cut_reason(&long).len(), 122);
        assert_eq!(cut_reason("short"), "short");
    }
}
