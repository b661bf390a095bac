//! The failures of a call to Redis, and which of them are the server's.

use redis::{ErrorKind, RedisError, ServerError, ServerErrorKind};

/// Why a call to Redis failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RedisFailure {
    /// No answer came within the deadline; the call may have been carried out.
    #[error("Redis did not answer in time")]
    Timeout,
    /// There is no connection, or it ended during the call, which may have been carried out.
    #[error("no connection to Redis: {0}")]
    Connection(String),
    /// Too many calls failed just now: this one was not tried.
    #[error("Redis is left alone after repeated failures")]
    Refused,
    /// Redis answered, but cannot do its work: out of memory, loading, a replica, no cluster.
    #[error("Redis cannot serve: {0}")]
    Unable(String),
    /// Redis does not know the script, or has forgotten it; the client then sends it in full.
    #[error("Redis does not know the script")]
    UnknownScript,
    /// Redis rejected this call: a permission is missing, or the call is wrong. A retry does not
    /// help.
    #[error("Redis refused the call: {0}")]
    Rejected(String),
}

impl RedisFailure {
    /// The kind as a metric label.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Connection(_) => "connection",
            Self::Refused => "refused",
            Self::Unable(_) => "unable",
            Self::UnknownScript | Self::Rejected(_) => "rejected",
        }
    }

    /// Whether Redis as a whole is at fault, so that another call would likely fail too.
    pub fn is_infrastructure(&self) -> bool {
        match self {
            Self::Timeout | Self::Connection(_) | Self::Unable(_) => true,
            Self::Refused | Self::UnknownScript | Self::Rejected(_) => false,
        }
    }

    /// A reply that does not have the expected form, which only a bug can cause.
    pub(super) fn unexpected(what: &str) -> Self {
        Self::Rejected(format!("unexpected reply: {what}"))
    }
}

impl From<RedisError> for RedisFailure {
    fn from(error: RedisError) -> Self {
        if error.is_timeout() {
            return Self::Timeout;
        }
        let kind = match error.kind() {
            ErrorKind::Server(kind) => Some(kind),
            ErrorKind::Extension => None,
            ErrorKind::Parse | ErrorKind::UnexpectedReturnType => {
                return Self::Rejected(error.to_string());
            }
            _ => return Self::Connection(error.to_string()),
        };
        classify(kind, error.code().unwrap_or_default(), error.to_string())
    }
}

impl From<ServerError> for RedisFailure {
    fn from(error: ServerError) -> Self {
        classify(error.kind(), error.code(), error.to_string())
    }
}

fn classify(kind: Option<ServerErrorKind>, code: &str, text: String) -> RedisFailure {
    use ServerErrorKind::{Ask, BusyLoading, ClusterDown, MasterDown, Moved, ReadOnly, TryAgain};
    if kind == Some(ServerErrorKind::NoScript) {
        return RedisFailure::UnknownScript;
    }
    let is_unable = match kind {
        Some(Ask | BusyLoading | ClusterDown | MasterDown | Moved | ReadOnly | TryAgain) => true,
        // A script that fails for full memory or on a replica has that error inside its own.
        Some(_) => ["OOM ", "READONLY ", "MISCONF "].iter().any(|inner| text.contains(inner)),
        None => ["OOM", "BUSY", "MISCONF", "NOREPLICAS", "NOAUTH", "UNBLOCKED"].contains(&code),
    };
    if is_unable { RedisFailure::Unable(text) } else { RedisFailure::Rejected(text) }
}
