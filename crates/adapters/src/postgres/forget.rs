//! Deleting the messages of deleted chats, the content of deleted users, and messages older than
//! the retention, in small transactions, so that sends never wait long.

use std::time::Duration;

use tokio_postgres::Row;

use super::failure::Failure;
use super::pooled_connection::PooledConnection;
use super::rows::{get, row_limit};

/// Messages that one transaction deletes, or examines.
const BITE_MESSAGES: usize = 500;

/// The result of one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Forgotten {
    /// Messages that were deleted, or whose content was.
    pub(super) changed: usize,
    /// Whether nothing is left to delete.
    pub(super) is_last: bool,
}

/// Deletes at most `limit` messages, in one short transaction.
pub(super) async fn forget(
    mut connection: PooledConnection<'_>,
    retention: Option<Duration>,
    limit: usize,
) -> Result<Forgotten, Failure> {
    // Messages have times of the database server, so its clock decides how old they are.
    const BEFORE: &str = "SELECT forget_before(now_ms() - $1::bigint, $2)";
    let limit = row_limit(limit.min(BITE_MESSAGES));
    let mut rows = connection.write("SELECT forget_deleted_chat($1)", &[&limit]).await?;
    if changed(&rows)?.is_none() {
        rows = connection.write("SELECT forget_content($1)", &[&limit]).await?;
    }
    if let (None, Some(retention)) = (changed(&rows)?, retention) {
        let retention = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
        rows = connection.write(BEFORE, &[&retention, &limit]).await?;
    }
    let changed = changed(&rows)?;
    let count = changed.and_then(|changed| usize::try_from(changed).ok()).unwrap_or(0);
    Ok(Forgotten { changed: count, is_last: changed.is_none() })
}

/// How many messages a function changed; none if it found nothing to do.
fn changed(rows: &[Row]) -> Result<Option<i64>, Failure> {
    rows.first().map_or(Ok(None), |row| get(row, 0))
}
