//! How the database's failures are told to the plane: was something written, and is it worth
//! another attempt?

use std::error::Error;
use std::io;

use heartline_durability::StoreError;
use heartline_protocol::Outcome;
use tokio_postgres::error::{Severity, SqlState};

/// What a statement leaves behind when its answer does not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing: it reads, or it is part of a transaction whose commit was not asked for yet.
    Nothing,
    /// Perhaps a commit: it commits by itself, or is the commit.
    Commit,
}

/// What another attempt could do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Nothing that the first one could not.
    None,
    /// Succeed: two transactions were in each other's way, and this one gave way.
    Again,
    /// Succeed on another connection, if doing it twice is harmless: this one was lost.
    AnotherConnection,
}

/// A call that the database did not answer as it should.
#[derive(Debug)]
pub(super) struct Failure {
    /// Whether something may have been written.
    pub(super) outcome: Outcome,
    /// What another attempt could do.
    pub(super) remedy: Remedy,
    /// Whether the connection is of no use any more.
    pub(super) is_broken: bool,
    /// Why, for the operator's log.
    pub(super) reason: String,
}

impl Failure {
    /// Nothing was written, and nothing is wrong with the connection.
    pub(super) fn rejected(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { outcome: Outcome::Rejected, remedy: Remedy::None, is_broken: false, reason }
    }

    /// Nothing was written, because somebody else was faster; another attempt sees what they did.
    pub(super) fn again(reason: impl Into<String>) -> Self {
        Self { remedy: Remedy::Again, ..Self::rejected(reason) }
    }

    /// No answer came in time.
    pub(super) fn late(effect: Effect) -> Self {
        let reason = "the database did not answer in time".to_owned();
        Self { outcome: effect.unanswered(), remedy: Remedy::None, is_broken: true, reason }
    }

    /// What an error of a statement with this effect means.
    pub(super) fn of(error: &tokio_postgres::Error, effect: Effect) -> Self {
        let reason = describe(error);
        let Some(database) = error.as_db_error() else {
            let is_broken = is_lost(error);
            let remedy = if is_broken { Remedy::AnotherConnection } else { Remedy::None };
            return Self { outcome: effect.unanswered(), remedy, is_broken, reason };
        };
        let code = database.code();
        if *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED
        {
            let (outcome, remedy) = (Outcome::Rejected, Remedy::Again);
            return Self { outcome, remedy, is_broken: false, reason };
        }
        let is_error = database.parsed_severity() == Some(Severity::Error);
        if is_error && *code != SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN {
            // A statement that the session remembers may be void after a change of the schema.
            let is_broken = *code == SqlState::FEATURE_NOT_SUPPORTED
                || *code == SqlState::INVALID_SQL_STATEMENT_NAME;
            let (outcome, remedy) = (Outcome::Rejected, Remedy::None);
            return Self { outcome, remedy, is_broken, reason };
        }
        let (outcome, remedy) = (effect.unanswered(), Remedy::AnotherConnection);
        Self { outcome, remedy, is_broken: true, reason }
    }

    /// What the plane is told; `was_uncertain` when an earlier attempt may have written.
    pub(super) fn into_store_error(self, was_uncertain: bool) -> StoreError {
        match self.outcome {
            Outcome::Rejected if !was_uncertain => StoreError::rejected(self.reason),
            Outcome::Rejected | Outcome::Unknown => StoreError::unknown(self.reason),
        }
    }
}

impl Effect {
    fn unanswered(self) -> Outcome {
        match self {
            Self::Nothing => Outcome::Rejected,
            Self::Commit => Outcome::Unknown,
        }
    }
}

fn is_lost(error: &tokio_postgres::Error) -> bool {
    let is_io = error.source().is_some_and(|source| source.is::<io::Error>());
    error.is_closed() || is_io
}

/// An error in words. What the database says beyond its message may quote what people wrote, so
/// only the message and its code are taken.
pub(super) fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(database) = error.as_db_error() {
        return format!("{} (SQLSTATE {})", database.message(), database.code().code());
    }
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
