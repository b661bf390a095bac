//! Why a request was refused: one table for frames and HTTP.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What went wrong with a request, and by that whether to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// A malformed frame, field or request; `details.field` names the field. Sending it again does
    /// not help.
    InvalidMessage,
    /// No valid token, or none yet: send `authenticate`, or `refresh_token` with a new one, then the
    /// request again.
    Unauthorized,
    /// The role or the scope forbids it, or the token is another user's or device's.
    Forbidden,
    /// Not a member of the chat, or there is no such chat: the two look the same. Forget the chat.
    NotAMember,
    /// There is no such thing.
    NotFound,
    /// It contradicts what was said before: a `client_message_id` that was used for another
    /// message, a second `authenticate`, a watch too many; `details.reason` may say which.
    Conflict,
    /// Content, frame or body over its limit: make it smaller.
    MessageTooLarge,
    /// Too many in too short a time: hold everything back for `retry_after_seconds`. Whoever goes on
    /// regardless is closed.
    RateLimited,
    /// A warning, not an answer: read faster within `details.grace_period_seconds` or be closed.
    SlowConsumer,
    /// A queue is full and nothing was stored: send it again after `retry_after_seconds`.
    ServerBusy,
    /// Something behind the server failed, or the connection is closing: send it again after
    /// `retry_after_seconds`, a message with the same `client_message_id`. `details.outcome` says
    /// whether it may have been stored.
    ServiceUnavailable,
    /// The chat is stopped until an operator acts; nothing was stored.
    ChatHalted,
    /// A fault of the server's own: send it again after a pause.
    InternalError,
}

impl ErrorCode {
    /// Every code, in the order of the reference.
    pub const ALL: [Self; 13] = [
        Self::InvalidMessage,
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotAMember,
        Self::NotFound,
        Self::Conflict,
        Self::MessageTooLarge,
        Self::RateLimited,
        Self::SlowConsumer,
        Self::ServerBusy,
        Self::ServiceUnavailable,
        Self::ChatHalted,
        Self::InternalError,
    ];

    /// The code as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidMessage => "INVALID_MESSAGE",
            Self::Unauthorized => "UNAUTHORIZED",
            Self::Forbidden => "FORBIDDEN",
            Self::NotAMember => "NOT_A_MEMBER",
            Self::NotFound => "NOT_FOUND",
            Self::Conflict => "CONFLICT",
            Self::MessageTooLarge => "MESSAGE_TOO_LARGE",
            Self::RateLimited => "RATE_LIMITED",
            Self::SlowConsumer => "SLOW_CONSUMER",
            Self::ServerBusy => "SERVER_BUSY",
            Self::ServiceUnavailable => "SERVICE_UNAVAILABLE",
            Self::ChatHalted => "CHAT_HALTED",
            Self::InternalError => "INTERNAL_ERROR",
        }
    }

    /// The HTTP status of the same refusal; none for `SLOW_CONSUMER`, which only sockets get.
    pub const fn http_status(self) -> Option<u16> {
        match self {
            Self::InvalidMessage => Some(400),
            Self::Unauthorized => Some(401),
            Self::Forbidden | Self::NotAMember => Some(403),
            Self::NotFound => Some(404),
            Self::Conflict => Some(409),
            Self::MessageTooLarge => Some(413),
            Self::RateLimited => Some(429),
            Self::SlowConsumer => None,
            Self::ServerBusy | Self::ServiceUnavailable | Self::ChatHalted => Some(503),
            Self::InternalError => Some(500),
        }
    }

    /// Whether the same request may succeed later, after a pause or with a new token.
    pub const fn retryable(self) -> bool {
        match self {
            Self::Unauthorized
            | Self::RateLimited
            | Self::ServerBusy
            | Self::ServiceUnavailable
            | Self::InternalError => true,
            Self::InvalidMessage
            | Self::Forbidden
            | Self::NotAMember
            | Self::NotFound
            | Self::Conflict
            | Self::MessageTooLarge
            | Self::SlowConsumer
            | Self::ChatHalted => false,
        }
    }
}

/// A pause as `retry_after_seconds` says it: whole seconds, rounded up, at least one.
pub fn retry_after_seconds(pause: Duration) -> u64 {
    u64::try_from(pause.as_millis().div_ceil(1000)).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_rounded_up_to_whole_seconds() {
        let seconds = [0, 1, 1000, 1001].map(|ms| retry_after_seconds(Duration::from_millis(ms)));
        assert_eq!(seconds, [1, 1, 1, 2]);
    }

    #[test]
    fn the_written_form_is_the_serialised_form() {
        for code in ErrorCode::ALL {
            let json = serde_json::to_string(&code).unwrap();
            assert_eq!(json, format!("\"{}\"", code.as_str()));
        }
    }
}
