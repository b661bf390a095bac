//! The reasons for which a request cannot be served now, and the error that each gives.

use heartline_protocol::ErrorCode;
use tokio::task::JoinError;
use tracing::{debug, warn};

use crate::room::archive::PartyArchiveError;
use crate::room::store::PartyStoreError;
use crate::value::error::PartyError;

/// A request cannot be served now, for a reason that does not lie in the request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unavailable {
    /// A call to the store of live sessions failed.
    #[error("a store call failed")]
    Store(#[from] PartyStoreError),
    /// A call to the archive failed, and the session is nowhere else.
    #[error("an archive call failed")]
    Archive(#[from] PartyArchiveError),
    /// A search in the archive failed.
    #[error("a search in the archive failed")]
    Search(#[source] PartyArchiveError),
    /// The room ended before it served the request.
    #[error("the room was closed")]
    RoomClosed,
    /// The room did not serve the request in time.
    #[error("the room did not reply in time")]
    RoomTimeout,
    /// Another node holds the lock under which the session is restored.
    #[error("the session is being restored by another node")]
    Restoring,
    /// The task that restored the session panicked.
    #[error("restoring the session failed")]
    RestoreFailed(#[from] JoinError),
    /// The result of a commit was lost, and the log no longer shows whether it was applied.
    #[error("the outcome of a commit is unknown")]
    OutcomeUnknown,
    /// Other nodes committed first until the deadline passed.
    #[error("too many concurrent commits")]
    Contended,
    /// A room has too many requests, or the node too many rooms.
    #[error("too many requests")]
    Overloaded,
    /// This node is shutting down and accepts no changes.
    #[error("the node is shutting down")]
    ShuttingDown,
}

impl From<Unavailable> for PartyError {
    fn from(error: Unavailable) -> Self {
        let reason: &dyn std::error::Error = &error;
        let (code, message) = match &error {
            Unavailable::Store(_)
            | Unavailable::Archive(_)
            | Unavailable::RoomClosed
            | Unavailable::RoomTimeout
            | Unavailable::Restoring
            | Unavailable::RestoreFailed(_)
            | Unavailable::OutcomeUnknown => {
                debug!(error = reason, "party operation failed");
                let message = "The session cannot be changed now. Try again.";
                (ErrorCode::ServiceUnavailable, message)
            }
            Unavailable::Search(_) => {
                warn!(error = reason, "searching party sessions failed");
                let message = "Sessions cannot be searched now. Try again.";
                (ErrorCode::ServiceUnavailable, message)
            }
            Unavailable::Contended => {
                let message = "Too many members change the session at once. Try again.";
                (ErrorCode::ServiceUnavailable, message)
            }
            Unavailable::Overloaded => {
                let message = "The session has too many requests. Try again.";
                (ErrorCode::ServerBusy, message)
            }
            Unavailable::ShuttingDown => {
                let message = "The server is shutting down. Reconnect and try again.";
                (ErrorCode::ServiceUnavailable, message)
            }
        };
        Self::new(code, message)
    }
}
