//! What every store has in common: how it fails.

use heartline_protocol::Outcome;

/// The store could not do what it was asked, for a reason that lies in the machine and not in the
/// request.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the store is unavailable: {reason}")]
pub struct StoreError {
    /// Whether something may have been written all the same.
    pub outcome: Outcome,
    /// Why, for the operator's log; never for a client.
    pub reason: String,
}

impl StoreError {
    /// Nothing was written.
    pub fn rejected(reason: impl Into<String>) -> Self {
        Self { outcome: Outcome::Rejected, reason: reason.into() }
    }

    /// Something may have been written: the commit itself failed, or its answer was lost.
    pub fn unknown(reason: impl Into<String>) -> Self {
        Self { outcome: Outcome::Unknown, reason: reason.into() }
    }
}
