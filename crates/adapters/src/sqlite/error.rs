//! Failures of the database, as store errors.

use std::error::Error;
use std::fmt;

use heartline_durability::StoreError;
use rusqlite::ErrorCode;

/// A step that the database failed.
#[derive(Debug)]
struct SqliteFailure {
    step: &'static str,
    error: rusqlite::Error,
}

impl fmt::Display for SqliteFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} failed", self.step)?;
        // The number names the exact kind: a failed write, a failed sync, …
        match self.error.sqlite_error() {
            Some(code) => write!(formatter, " (SQLite code {})", code.extended_code),
            None => Ok(()),
        }
    }
}

impl Error for SqliteFailure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

/// A failure that wrote nothing.
pub(super) fn rejected(step: &'static str, error: rusqlite::Error) -> StoreError {
    StoreError::rejected(SqliteFailure { step, error })
}

/// A failure that may have written something.
pub(super) fn unknown(step: &'static str, error: rusqlite::Error) -> StoreError {
    StoreError::unknown(SqliteFailure { step, error })
}

/// Whether an error concerns the rows that the statement used, and not the whole database: a
/// constraint, or a value that cannot be read.
pub(super) fn concerns_rows(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => {
            matches!(failure.code, ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch)
        }
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::Utf8Error(..) => true,
        _ => false,
    }
}
