//! The database's keys for users.

use std::collections::BTreeMap;

use heartline_protocol::UserId;

use super::failure::Failure;
use super::lease::Lease;
use super::rows::{self, get};

/// Names users who were never named. In the order of their ids, so that two who name the same
/// users do not wait for each other.
const NAME: &str = "INSERT INTO users (user_id)
    SELECT n.user_id FROM unnest($1::text[]) AS n (user_id)
    WHERE NOT EXISTS (SELECT 1 FROM users u WHERE u.user_id = n.user_id)
    ORDER BY n.user_id COLLATE \"C\" ON CONFLICT (user_id) DO NOTHING";

const KEYS: &str = "SELECT u.user_id, u.user_key FROM unnest($1::text[]) AS n (user_id)
    CROSS JOIN LATERAL (
        SELECT k.user_id, k.user_key FROM users k WHERE k.user_id = n.user_id LIMIT 1
    ) u";

/// The keys of users, who are named now if not before. Many are best named before a transaction
/// begins, because whoever names one of them too waits for its end.
pub(super) async fn named(
    lease: &mut Lease<'_>,
    user_ids: &[&UserId],
) -> Result<BTreeMap<UserId, i64>, Failure> {
    let texts: Vec<&str> = user_ids.iter().map(|user_id| user_id.as_str()).collect();
    let known = keys(lease, &texts).await?;
    if user_ids.iter().all(|user_id| known.contains_key(*user_id)) {
        return Ok(known);
    }
    lease.write(NAME, &[&texts]).await?;
    keys(lease, &texts).await
}

/// The keys of those users who were ever named.
async fn keys(lease: &mut Lease<'_>, texts: &[&str]) -> Result<BTreeMap<UserId, i64>, Failure> {
    let rows = lease.query(KEYS, &[&texts]).await?;
    rows.iter().map(|row| Ok((rows::user_id(row, 0)?, get(row, 1)?))).collect()
}

/// The key of a user; none when nobody ever named them.
pub(super) async fn key(lease: &mut Lease<'_>, user_id: &UserId) -> Result<Option<i64>, Failure> {
    Ok(keys(lease, &[user_id.as_str()]).await?.into_values().next())
}
