//! Error codes: one table for frames and HTTP.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The error of a request, which also decides whether the client retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// The frame, a field or the request is malformed; `details.field` names the field. Do not
    /// retry.
    InvalidMessage,
    /// There is no valid token: send `authenticate`, or `refresh_token` with a new token, then
    /// retry.
    Unauthorized,
    /// The user's role or the token's scope does not allow the request, or the token belongs to
    /// another user or device.
    Forbidden,
    /// The user is not a member of the chat, or the chat does not exist; the server does not reveal
    /// which. Remove the chat from the client's list.
    NotAMember,
    /// The resource does not exist.
    NotFound,
    /// The request conflicts with an earlier one: the `client_message_id` was used for another
    /// message, the connection is authenticated already, or it has too many presence subscriptions.
    /// `details.reason` may say which.
    Conflict,
    /// The content, the frame or the body is over its size limit: send a smaller one.
    MessageTooLarge,
    /// The client is over a rate limit: send nothing for `retry_after_seconds`. The server closes a
    /// connection that keeps sending.
    RateLimited,
    /// A warning, not an answer: the server closes the connection unless the client has read enough
    /// within `details.grace_period_seconds`.
    SlowConsumer,
    /// A queue is full and nothing was stored: retry after `retry_after_seconds`.
    ServerBusy,
    /// A store or another dependency failed, or the connection is closing: retry after
    /// `retry_after_seconds`, a message with the same `client_message_id`. `details.outcome` says
    /// whether the message may have been stored.
    ServiceUnavailable,
    /// The chat is halted until an operator repairs it; nothing was stored.
    ChatHalted,
    /// The server failed internally: retry after a delay.
    InternalError,
}

impl ErrorCode {
    /// Every code, in the order of the reference page.
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

    /// The code as on the wire.
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

    /// The HTTP status for this error; none for `SLOW_CONSUMER`, which occurs only on sockets.
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

    /// Whether the same request may succeed later, after a delay or with a new token.
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

/// The value of `retry_after_seconds` for a delay: whole seconds, rounded up, at least one.
pub fn retry_after_seconds(delay: Duration) -> u64 {
    u64::try_from(delay.as_millis().div_ceil(1000)).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_rounded_up_to_whole_seconds() {
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
