//! Failures of the database: whether something may have been written, whether another attempt can
//! help, and whether one chat alone caused the failure.

use std::error::Error;
use std::io;

use heartline_durability::StoreError;
use heartline_protocol::Outcome;
use tokio_postgres::error::{Severity, SqlState};

/// The effect that a statement may have had if its result is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// None: the statement reads, or is part of a transaction that was not committed yet.
    Nothing,
    /// A commit: the statement commits by itself, or is the commit.
    Commit,
}

/// The kind of retry that can succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    /// No retry helps.
    None,
    /// A retry on any connection: the transaction lost a conflict with another one.
    Again,
    /// A retry on another connection, if the call is idempotent: this connection was lost.
    AnotherConnection,
}

/// The part of the database that a failure concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// The whole database, or the connection.
    Store,
    /// Rows that another transaction has locked for longer than `lock_timeout`.
    LockedRows,
    /// Rows whose content cannot be read or written: a constraint, an invalid or a damaged value.
    Rows,
}

/// A failed call to the database.
#[derive(Debug)]
pub(super) struct Failure {
    /// Whether something may have been written.
    pub(super) outcome: Outcome,
    /// The kind of retry that can succeed.
    pub(super) remedy: Remedy,
    /// The part of the database that the failure concerns.
    pub(super) scope: Scope,
    /// Whether the connection must be closed.
    pub(super) is_broken: bool,
    /// The cause, for the operator's log.
    pub(super) reason: String,
}

impl Failure {
    /// Nothing was written, and the connection is sound.
    pub(super) fn rejected(reason: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Rejected,
            remedy: Remedy::None,
            scope: Scope::Store,
            is_broken: false,
            reason: reason.into(),
        }
    }

    /// Nothing was written, because another transaction committed first; a retry reads its result.
    pub(super) fn again(reason: impl Into<String>) -> Self {
        Self { remedy: Remedy::Again, ..Self::rejected(reason) }
    }

    /// The deadline passed without a result.
    pub(super) fn late(effect: Effect) -> Self {
        let failure = Self::rejected("the database did not answer in time");
        Self { outcome: effect.unanswered(), is_broken: true, ..failure }
    }

    /// Classifies the error of a statement with this effect.
    pub(super) fn of(error: &tokio_postgres::Error, effect: Effect) -> Self {
        let failure = Self::rejected(describe(error));
        let Some(database) = error.as_db_error() else {
            let is_broken = is_lost(error);
            let remedy = if is_broken { Remedy::AnotherConnection } else { Remedy::None };
            return Self { outcome: effect.unanswered(), remedy, is_broken, ..failure };
        };
        let code = database.code();
        if *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED
        {
            return Self { remedy: Remedy::Again, ..failure };
        }
        let is_error = database.parsed_severity() == Some(Severity::Error);
        if is_error && *code != SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN {
            // A prepared statement may be invalid after a change of the schema.
            let is_broken = *code == SqlState::FEATURE_NOT_SUPPORTED
                || *code == SqlState::INVALID_SQL_STATEMENT_NAME;
            return Self { scope: scope(code), is_broken, ..failure };
        }
        let (outcome, remedy) = (effect.unanswered(), Remedy::AnotherConnection);
        Self { outcome, remedy, is_broken: true, ..failure }
    }

    /// The failure of a call whose earlier attempt may have written, if `was_uncertain`.
    pub(super) fn after(self, was_uncertain: bool) -> Self {
        let outcome = if was_uncertain { Outcome::Unknown } else { self.outcome };
        Self { outcome, ..self }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure.outcome {
            Outcome::Rejected => Self::rejected(failure.reason),
            Outcome::Unknown => Self::unknown(failure.reason),
        }
    }
}

/// The part of the database that an error concerns. Classes of codes: 22 data exceptions, 23
/// integrity constraints, P0 exceptions raised by functions, XX damaged rows and indexes.
fn scope(code: &SqlState) -> Scope {
    if *code == SqlState::LOCK_NOT_AVAILABLE {
        return Scope::LockedRows;
    }
    match code.code().get(..2) {
        Some("22" | "23" | "P0" | "XX") => Scope::Rows,
        _ => Scope::Store,
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

/// The message and the code of an error. Its detail is left out, because it may quote the content of
/// messages.
pub(super) fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(database) = error.as_db_error() {
        return format!("{} (SQLSTATE {})", database.message(), database.code().code());
    }
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
