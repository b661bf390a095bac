//! Every way a connection can end: reason, close code, and whether to come back.

use serde::{Deserialize, Serialize};

use crate::limits::CLOSE_REASON_BYTES_MAX;

/// Why the server ends a connection. It is said in `connection_closing` before the Close frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CloseReason {
    /// The client did not authenticate within the timeout.
    AuthTimeout,
    /// The token is not good; another one may be.
    Unauthorized,
    /// The token ran out and was not refreshed within the grace.
    TokenExpired,
    /// A newer connection of the same device took its place, or of the same user where only one is
    /// allowed: coming back would take it again.
    SessionReplaced,
    /// An operator, or the application's back end, ended it.
    SessionEnded,
    /// Too many connections of this user or address.
    ConnectionLimit,
    /// Nothing was heard from the client for the heartbeat timeout.
    HeartbeatTimeout,
    /// The client did not read fast enough: come back and sync what was not written.
    SlowConsumer,
    /// The client went on sending faster than allowed.
    RateLimited,
    /// The client broke the protocol. The code tells how: 1002 framing, 1003 too many frames that
    /// are no JSON object or came before `authenticate`, 1007 text that is not UTF-8, 1009 size.
    ProtocolError,
    /// The server is going away.
    ServerShutdown,
    /// The connection reached its age limit: nothing is wrong.
    MaxAge,
    /// The server cannot serve this connection at the moment, or it asked for too much at once.
    Overloaded,
    /// A fault of the server's own.
    InternalError,
}

/// What a client does after a close.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reconnect {
    /// Not by itself: ask the user.
    Never,
    /// With a token other than the refused one; after a second refusal in a row not by itself.
    WithNewToken,
    /// After the client's own growing pause.
    BackOff,
    /// After the `reconnect_delay_ms` that the server gave.
    AfterDelay,
}

impl CloseReason {
    /// Every reason, in the order of the reference.
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

    /// The reason as it is written.
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

    /// The WebSocket close code. A `protocol_error` has the code of its kind (1002, 1007 or
    /// 1009 for framing, text and size); 1003, for frames that are no JSON object, stands here.
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

    /// The close code on a GraphQL socket; none where it cannot happen there.
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

    /// What a client does next.
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

    /// The `reconnect_allowed` of the closing frame: false where coming back with what the client
    /// has now cannot help.
    pub const fn reconnect_allowed(self) -> bool {
        !matches!(self, Self::SessionReplaced | Self::SessionEnded | Self::Unauthorized)
    }
}

/// Cuts a close reason to what a Close frame can carry, on a character boundary.
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
