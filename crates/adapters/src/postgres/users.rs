//! The keys of users in the database.

use std::collections::BTreeMap;

use heartline_protocol::UserId;

use super::failure::Failure;
use super::pooled_connection::PooledConnection;
use super::rows::{self, get};

/// Inserts the rows of new users, in the order of their ids, so that two transactions that insert
/// the same users do not deadlock.
const NAME: &str = "INSERT INTO users (user_id)
    SELECT n.user_id FROM unnest($1::text[]) AS n (user_id)
    WHERE NOT EXISTS (SELECT 1 FROM users u WHERE u.user_id = n.user_id)
    ORDER BY n.user_id COLLATE \"C\" ON CONFLICT (user_id) DO NOTHING";

const KEYS: &str = "SELECT u.user_id, u.user_key FROM unnest($1::text[]) AS n (user_id)
    CROSS JOIN LATERAL (
        SELECT k.user_id, k.user_key FROM users k WHERE k.user_id = n.user_id LIMIT 1
    ) u";

/// The keys of users, whose rows are inserted if they are missing. Many users are best inserted
/// before a transaction begins, because another transaction that inserts one of them waits for its
/// end.
pub(super) async fn named(
    connection: &mut PooledConnection<'_>,
    user_ids: &[&UserId],
) -> Result<BTreeMap<UserId, i64>, Failure> {
    let texts: Vec<&str> = user_ids.iter().map(|user_id| user_id.as_str()).collect();
    let known = keys(connection, &texts).await?;
    if user_ids.iter().all(|user_id| known.contains_key(*user_id)) {
        return Ok(known);
    }
    connection.write(NAME, &[&texts]).await?;
    keys(connection, &texts).await
}

/// The keys of those users who have rows.
async fn keys(
    connection: &mut PooledConnection<'_>,
    texts: &[&str],
) -> Result<BTreeMap<UserId, i64>, Failure> {
    let rows = connection.query(KEYS, &[&texts]).await?;
    rows.iter().map(|row| Ok((rows::user_id(row, 0)?, get(row, 1)?))).collect()
}

/// The key of a user; none if the user has no row.
pub(super) async fn key(
    connection: &mut PooledConnection<'_>,
    user_id: &UserId,
) -> Result<Option<i64>, Failure> {
    Ok(keys(connection, &[user_id.as_str()]).await?.into_values().next())
}
