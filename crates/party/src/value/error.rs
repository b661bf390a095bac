//! Errors of party operations, with the messages that clients match on.

use heartline_protocol::ErrorCode;

/// A rejected operation: a code that shows whether to retry, and a message. Clients of the GraphQL
/// interface match on parts of the message, so its wording is part of the interface.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PartyError {
    /// The code in `extensions.code`.
    pub code: ErrorCode,
    /// The message.
    pub message: String,
    /// The time after which to retry, if it is known.
    pub retry_after_seconds: Option<u64>,
}

impl PartyError {
    /// An error with this code and message.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after_seconds: None }
    }

    /// The same error, with the time after which to retry.
    #[must_use]
    pub fn after(self, seconds: u64) -> Self {
        Self { retry_after_seconds: Some(seconds), ..self }
    }

    /// An invalid argument, with all reasons.
    pub fn invalid(argument: &str, reasons: &[String]) -> Self {
        let message = format!("Invalid {argument}: {}", reasons.join(", "));
        Self::new(ErrorCode::InvalidMessage, message)
    }

    /// An argument that is over a limit in items or bytes.
    pub fn too_large(argument: &str, reason: &str) -> Self {
        Self::new(ErrorCode::MessageTooLarge, format!("Invalid {argument}: {reason}"))
    }

    /// The connection is in no session, has left it, or was replaced by a newer one.
    pub fn not_in_a_session() -> Self {
        Self::new(ErrorCode::NotAMember, "Must be in a session to perform this operation")
    }

    /// A join by POST, which has no connection that could be a member.
    pub fn needs_a_socket() -> Self {
        let message =
            "A session is joined over a WebSocket: a POST has no connection that could stay";
        Self::new(ErrorCode::InvalidMessage, message)
    }

    /// A subscription or replay on a connection that is in no session.
    pub fn not_in_any_session() -> Self {
        Self::new(ErrorCode::NotAMember, "Unauthorized: not in any session")
    }

    /// A subscription or replay for another session than the connection's own.
    pub fn session_mismatch() -> Self {
        Self::new(ErrorCode::NotAMember, "Unauthorized: session mismatch")
    }

    /// Only signed-in callers may perform the operation.
    pub fn authentication_required() -> Self {
        let message = "Authentication required to perform this operation";
        Self::new(ErrorCode::Unauthorized, message)
    }

    /// The session does not exist.
    pub fn session_not_found() -> Self {
        Self::new(ErrorCode::NotFound, "Session not found")
    }

    /// The session has ended, which is final.
    pub fn session_has_ended() -> Self {
        Self::new(ErrorCode::Conflict, "Session has ended and cannot be joined or changed")
    }

    /// The queue has no item with this uuid.
    pub fn item_not_found() -> Self {
        Self::new(ErrorCode::NotFound, "Queue item not found")
    }

    /// The caller is neither the session's creator nor its leader.
    pub fn only_creator_or_leader() -> Self {
        let message = "Only the session creator or leader can end a session";
        Self::new(ErrorCode::Forbidden, message)
    }
}
