//! Contacts, visibility settings, relations between users, and the users who share an active chat.

use std::time::Duration;

use heartline_durability::contacts::CONTACTS_MAX;
use heartline_durability::{ContactsFull, Relation, Sight};
use heartline_fanout::audiences::COMPANIONS_MAX;
use heartline_protocol::UserId;
use heartline_protocol::rest::Visibility;
use tokio_postgres::Row;

use super::failure::Failure;
use super::pooled_connection::PooledConnection;
use super::rows::{self, duration_ms, get, number, row_limit, some_timestamp, visibility_number};

/// Chats of one user that are searched for companions, the newest first.
const CHATS_MAX: usize = 2000;

/// The visibility that a user has set; none if the user has set nothing.
pub(super) async fn visibility(
    mut connection: PooledConnection<'_>,
    user_id: &UserId,
) -> Result<Option<Visibility>, Failure> {
    const VISIBILITY: &str = "SELECT visibility FROM users WHERE user_id = $1";
    let rows = connection.query(VISIBILITY, &[&user_id.as_str()]).await?;
    rows.first().map_or(Ok(None), |row| rows::visibility(row, 0))
}

/// Sets who may see a user's presence. Returns whether that changed anything.
pub(super) async fn set_visibility(
    mut connection: PooledConnection<'_>,
    user_id: &UserId,
    visibility: Visibility,
) -> Result<bool, Failure> {
    const SET: &str = "INSERT INTO users (user_id, visibility) VALUES ($1, $2)
        ON CONFLICT (user_id) DO UPDATE SET visibility = excluded.visibility
            WHERE users.visibility IS DISTINCT FROM excluded.visibility
        RETURNING 1";
    let changed =
        connection.write(SET, &[&user_id.as_str(), &visibility_number(visibility)]).await?;
    Ok(!changed.is_empty())
}

/// The contacts that a user has added, in the order of their ids.
pub(super) async fn of_user(
    mut connection: PooledConnection<'_>,
    user_id: &UserId,
    after: Option<&UserId>,
    limit: usize,
) -> Result<Vec<UserId>, Failure> {
    const OF_USER: &str = "SELECT k.user_id FROM users u
        CROSS JOIN LATERAL (
            SELECT c.contact_key FROM contacts c WHERE c.user_key = u.user_key OFFSET 0
        ) c
        CROSS JOIN LATERAL (
            SELECT k.user_id FROM users k WHERE k.user_key = c.contact_key LIMIT 1
        ) k
        WHERE u.user_id = $1 AND k.user_id > $2 ORDER BY k.user_id LIMIT $3";
    let after = after.map_or("", UserId::as_str);
    let rows = connection.query(OF_USER, &[&user_id.as_str(), &after, &row_limit(limit)]).await?;
    rows.iter().map(|row| rows::user_id(row, 0)).collect()
}

/// Adds a contact. Returns whether that changed anything.
pub(super) async fn put(
    mut connection: PooledConnection<'_>,
    user_id: &UserId,
    contact_id: &UserId,
) -> Result<Result<bool, ContactsFull>, Failure> {
    const PUT: &str = "SELECT put_contact($1, $2, $3)";
    let (user, contact) = (user_id.as_str(), contact_id.as_str());
    let rows = connection.write(PUT, &[&user, &contact, &row_limit(CONTACTS_MAX)]).await?;
    match rows.first().map(|row| get::<i16>(row, 0)).transpose()? {
        Some(0) => Ok(Ok(false)),
        Some(1) => Ok(Ok(true)),
        _ => Ok(Err(ContactsFull)),
    }
}

/// Removes a contact. Returns whether that changed anything.
pub(super) async fn remove(
    mut connection: PooledConnection<'_>,
    user_id: &UserId,
    contact_id: &UserId,
) -> Result<bool, Failure> {
    const REMOVE: &str = "DELETE FROM contacts
        WHERE user_key = (SELECT user_key FROM users WHERE user_id = $1)
            AND contact_key = (SELECT user_key FROM users WHERE user_id = $2)
        RETURNING 1";
    let removed = connection.write(REMOVE, &[&user_id.as_str(), &contact_id.as_str()]).await?;
    Ok(!removed.is_empty())
}

/// The relation of each pair of users, in order.
pub(super) async fn relations(
    mut connection: PooledConnection<'_>,
    sights: &[Sight],
) -> Result<Vec<Relation>, Failure> {
    const RELATIONS: &str = "SELECT n.place, u.visibility, u.last_seen,
            EXISTS (SELECT 1 FROM contacts c
                WHERE c.user_key = u.user_key AND c.contact_key = o.user_key)
            AND EXISTS (SELECT 1 FROM contacts c
                WHERE c.user_key = o.user_key AND c.contact_key = u.user_key)
        FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS n (observer_id, user_id, place)
        CROSS JOIN LATERAL (
            SELECT k.user_key, k.visibility, k.last_seen FROM users k
            WHERE k.user_id = n.user_id LIMIT 1
        ) u
        LEFT JOIN LATERAL (
            SELECT k.user_key FROM users k WHERE k.user_id = n.observer_id LIMIT 1
        ) o ON true";
    let observers: Vec<&str> = sights.iter().map(|sight| sight.observer_id.as_str()).collect();
    let users: Vec<&str> = sights.iter().map(|sight| sight.user_id.as_str()).collect();
    let rows = connection.query(RELATIONS, &[&observers, &users]).await?;
    let mut relations = vec![Relation::default(); sights.len()];
    for row in &rows {
        let relation = Relation {
            visibility: rows::visibility(row, 1)?,
            are_contacts: get(row, 3)?,
            last_seen: some_timestamp(row, 2)?,
        };
        *slot(&mut relations, row)? = relation;
    }
    Ok(relations)
}

/// The conditions under which a chat is active.
#[derive(Debug, Clone, Copy)]
pub(super) struct Active {
    /// The newest message is not older than this.
    pub(super) within: Duration,
    /// The chat has no more members than this.
    pub(super) members_max: usize,
}

/// The users who share an active chat with each of these users. One member more than the limit is
/// read, to find out whether a chat has too many.
pub(super) async fn companions(
    mut connection: PooledConnection<'_>,
    user_ids: &[UserId],
    active: Active,
) -> Result<Vec<Vec<UserId>>, Failure> {
    const COMPANIONS: &str = "SELECT n.place, k.user_id
        FROM unnest($1::text[]) WITH ORDINALITY AS n (user_id, place)
        CROSS JOIN LATERAL (
            SELECT k.user_key FROM users k WHERE k.user_id = n.user_id LIMIT 1
        ) u
        CROSS JOIN LATERAL (
            SELECT DISTINCT m.user_key
            FROM (
                SELECT k.chat_key FROM members k WHERE k.user_key = u.user_key
                ORDER BY k.chat_key DESC LIMIT $4
            ) own
            CROSS JOIN LATERAL (
                SELECT 1 FROM chats c
                WHERE c.chat_key = own.chat_key AND c.newest_at >= now_ms() - $2::bigint LIMIT 1
            ) c
            CROSS JOIN LATERAL (
                SELECT counted.user_key FROM (
                    SELECT k.user_key, count(*) OVER () AS members FROM (
                        SELECT k.user_key FROM members k WHERE k.chat_key = own.chat_key
                        LIMIT $3::bigint + 1
                    ) k
                ) counted WHERE counted.members <= $3::bigint
            ) m
            WHERE m.user_key <> u.user_key LIMIT $5
        ) m
        CROSS JOIN LATERAL (
            SELECT k.user_id FROM users k WHERE k.user_key = m.user_key LIMIT 1
        ) k";
    let names: Vec<&str> = user_ids.iter().map(UserId::as_str).collect();
    let members_max = row_limit(active.members_max).min(i64::MAX - 1);
    let (chats, most) = (row_limit(CHATS_MAX), row_limit(COMPANIONS_MAX));
    let within = duration_ms(active.within);
    let rows =
        connection.query(COMPANIONS, &[&names, &within, &members_max, &chats, &most]).await?;
    let mut companions = vec![Vec::new(); user_ids.len()];
    for row in &rows {
        slot(&mut companions, row)?.push(rows::user_id(row, 1)?);
    }
    Ok(companions)
}

/// The slot of a row; its first column is the index of the slot, counted from one.
fn slot<'slots, T>(slots: &'slots mut [T], row: &Row) -> Result<&'slots mut T, Failure> {
    let place = usize::try_from(number(row, 0)?).ok().and_then(|place| place.checked_sub(1));
    let slot = place.and_then(|place| slots.get_mut(place));
    slot.ok_or_else(|| Failure::rejected("the database returned a row with an index out of range"))
}
