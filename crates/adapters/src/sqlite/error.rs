//! How the database's failures are told to the plane.

use heartline_durability::StoreError;

/// Nothing was written.
pub(super) fn rejected(doing: &str, error: &rusqlite::Error) -> StoreError {
    StoreError::rejected(format!("{doing} failed: {}", detailed(error)))
}

/// Something may have been written.
pub(super) fn unknown(doing: &str, error: &rusqlite::Error) -> StoreError {
    StoreError::unknown(format!("{doing} failed: {}", detailed(error)))
}

/// The sentence with the number, which names the exact kind (a failed write, a failed sync, …).
fn detailed(error: &rusqlite::Error) -> String {
    match error.sqlite_error() {
        Some(code) => format!("{error} (SQLite code {})", code.extended_code),
        None => error.to_string(),
    }
}
