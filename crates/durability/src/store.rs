//! The error of a store.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use heartline_protocol::Outcome;

/// A failure of the store that is not caused by the request. Clones share the cause.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the store is unavailable")]
pub struct StoreError {
    /// Whether something may have been written nevertheless.
    pub outcome: Outcome,
    /// The cause, for the operator's log; never for a client.
    #[source]
    source: Arc<dyn Error + Send + Sync>,
}

impl StoreError {
    /// A failure that wrote nothing.
    pub fn rejected(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { outcome: Outcome::Rejected, source: Arc::from(source.into()) }
    }

    /// A failure that may have written something: the commit failed, or its result was lost.
    pub fn unknown(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { outcome: Outcome::Unknown, source: Arc::from(source.into()) }
    }
}

/// Shows an error with its causes, for a log line: `the store is unavailable: disk full`.
#[derive(Debug)]
pub struct Chain<'error>(pub &'error (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(cause) = source {
            write!(formatter, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_line_shows_every_cause() {
        let cause = StoreError::rejected(std::io::Error::other("disk full"));
        let error = crate::BusError::Engine(Box::new(cause));
        let shown = Chain(&error).to_string();
        assert_eq!(shown, "the event bus failed: the store is unavailable: disk full");
    }
}
