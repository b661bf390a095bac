//! Forgetting: the messages of deleted chats, the content of deleted people, and what is older
//! than the retention. In small bites, so that sends never wait long.

use std::time::Duration;

use tokio_postgres::Row;

use super::failure::Failure;
use super::lease::Lease;
use super::rows::{get, row_limit};

/// Messages that one transaction removes, or looks at.
const BITE_MESSAGES: usize = 500;

/// What one bite came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bite {
    /// Messages that were removed or emptied.
    pub(super) changed: usize,
    /// Whether nothing is left.
    pub(super) is_last: bool,
}

/// Takes one bite of at most `limit` messages, in one short transaction.
pub(super) async fn forget(
    mut lease: Lease<'_>,
    retention: Option<Duration>,
    limit: usize,
) -> Result<Bite, Failure> {
    // Messages have the server's times, so its clock decides how old they are.
    const BEFORE: &str = "SELECT forget_before(now_ms() - $1::bigint, $2)";
    let limit = row_limit(limit.min(BITE_MESSAGES));
    let mut rows = lease.write("SELECT forget_deleted_chat($1)", &[&limit]).await?;
    if changed(&rows)?.is_none() {
        rows = lease.write("SELECT forget_content($1)", &[&limit]).await?;
    }
    if let (None, Some(retention)) = (changed(&rows)?, retention) {
        let retention = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
        rows = lease.write(BEFORE, &[&retention, &limit]).await?;
    }
    let changed = changed(&rows)?;
    let count = changed.and_then(|changed| usize::try_from(changed).ok()).unwrap_or(0);
    Ok(Bite { changed: count, is_last: changed.is_none() })
}

/// How many messages a bite changed; none if there was nothing to bite.
fn changed(rows: &[Row]) -> Result<Option<i64>, Failure> {
    rows.first().map_or(Ok(None), |row| get(row, 0))
}
