//! Why a message was not acknowledged, and the error frame for it.

use std::time::Duration;

use heartline_protocol::server_frame::{ErrorDetails, ErrorFrame};
use heartline_protocol::{ErrorCode, Outcome, retry_after_seconds};

use crate::log::AppendRefusal;

/// Why a message was not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendError {
    /// The store refused it.
    Refused(AppendRefusal),
    /// Too many sends are pending, in this chat or on this node.
    Busy,
    /// The breaker is open, so the store was not called.
    BreakerOpen {
        /// When to try again.
        retry_after: Duration,
    },
    /// The message is stored, but the bus did not accept it in time. The relay publishes it.
    NotPublished,
    /// The store failed, or did not answer in time.
    Unavailable {
        /// Whether the message may be stored nevertheless.
        outcome: Outcome,
    },
}

impl SendError {
    /// The label under which sends are counted by outcome.
    pub fn label(self) -> &'static str {
        match self {
            Self::Refused(AppendRefusal::NotAMember) => "not_a_member",
            Self::Refused(AppendRefusal::Conflict) => "conflict",
            Self::Refused(AppendRefusal::Halted) => "chat_halted",
            Self::Busy => "busy",
            Self::BreakerOpen { .. } => "breaker_open",
            Self::NotPublished => "not_published",
            Self::Unavailable { outcome: Outcome::Rejected } => "unavailable_rejected",
            Self::Unavailable { outcome: Outcome::Unknown } => "unavailable_unknown",
        }
    }
}

impl From<SendError> for ErrorFrame {
    fn from(error: SendError) -> Self {
        let (code, message, outcome, retry_after) = match error {
            SendError::Refused(AppendRefusal::NotAMember) => return not_a_member(),
            SendError::Refused(AppendRefusal::Conflict) => {
                let message = "this client_message_id was used for another message";
                (ErrorCode::Conflict, message, Outcome::Rejected, None)
            }
            SendError::Refused(AppendRefusal::Halted) => {
                let message = "this chat accepts no messages until an operator repairs it";
                (ErrorCode::ChatHalted, message, Outcome::Rejected, None)
            }
            SendError::Busy => {
                let message = "too many messages are pending: send more slowly";
                (ErrorCode::ServerBusy, message, Outcome::Rejected, Some(1))
            }
            SendError::BreakerOpen { retry_after } => {
                let message = "messages cannot be stored at the moment";
                let seconds = Some(retry_after_seconds(retry_after));
                (ErrorCode::ServiceUnavailable, message, Outcome::Rejected, seconds)
            }
            SendError::NotPublished => {
                return Self::from(SendError::Unavailable { outcome: Outcome::Unknown });
            }
            SendError::Unavailable { outcome } => {
                let message = match outcome {
                    Outcome::Rejected => "the message was not stored: send it again",
                    Outcome::Unknown => {
                        "the message may have been stored: send it again with the same id"
                    }
                };
                (ErrorCode::ServiceUnavailable, message, outcome, Some(1))
            }
        };
        let details = ErrorDetails { outcome: Some(outcome), ..Default::default() };
        let retry_after_seconds = retry_after;
        Self { retry_after_seconds, details: Some(details), ..Self::new(code, message) }
    }
}

/// The error for a chat that does not exist, or of which the user is no member; the two look the
/// same.
pub fn not_a_member() -> ErrorFrame {
    ErrorFrame::new(ErrorCode::NotAMember, "there is no such chat, or you are not a member")
}
