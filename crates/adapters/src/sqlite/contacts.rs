//! Contacts, visibility settings and relations between users.

use heartline_durability::contacts::CONTACTS_MAX;
use heartline_durability::{ContactsFull, Relation, Sight};
use heartline_protocol::rest::Visibility;
use heartline_protocol::{Timestamp, UserId};
use rusqlite::{Connection, OptionalExtension, params};

use super::rows::{self, row_limit, unsigned, visibility_number};
use super::write_transaction::{WriteTransaction, user_key};

/// The contacts that a user has added. The CROSS JOIN makes SQLite begin with the contacts, which
/// are few.
pub(super) const OF_USER: &str = "SELECT u.user_id
    FROM contacts c CROSS JOIN users u ON u.user_key = c.contact_key
    WHERE c.user_key = ?1 AND u.user_id > ?2 ORDER BY u.user_id LIMIT ?3";

/// The relation of an observer `o` to a user `u`.
pub(super) const RELATION: &str = "SELECT u.visibility, u.last_seen,
        EXISTS (SELECT 1 FROM contacts WHERE user_key = u.user_key AND contact_key = o.user_key)
        AND EXISTS (SELECT 1 FROM contacts WHERE user_key = o.user_key AND contact_key = u.user_key)
    FROM users u LEFT JOIN users o ON o.user_id = ?1 WHERE u.user_id = ?2";

/// The visibility that a user has set; none if the user has set nothing.
pub(super) fn visibility(
    connection: &Connection,
    user_id: &UserId,
) -> rusqlite::Result<Option<Visibility>> {
    let sql = "SELECT visibility FROM users WHERE user_id = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row([user_id.as_str()], |row| rows::visibility(row, 0));
    Ok(found.optional()?.flatten())
}

/// Sets who may see a user's presence. Returns whether that changed anything.
pub(super) fn set_visibility(
    transaction: &mut WriteTransaction<'_>,
    user_id: &UserId,
    visibility: Visibility,
) -> rusqlite::Result<bool> {
    let user_key = transaction.named_user(user_id)?;
    let sql = "UPDATE users SET visibility = ?2 WHERE user_key = ?1 AND visibility IS NOT ?2";
    let mut statement = transaction.connection.prepare_cached(sql)?;
    Ok(statement.execute([user_key, visibility_number(visibility)])? > 0)
}

/// The contacts that a user has added, in the order of their ids.
pub(super) fn of_user(
    connection: &Connection,
    user_id: &UserId,
    after: Option<&UserId>,
    limit: usize,
) -> rusqlite::Result<Vec<UserId>> {
    let Some(user_key) = user_key(connection, user_id)? else { return Ok(Vec::new()) };
    let mut statement = connection.prepare_cached(OF_USER)?;
    let after = after.map_or("", UserId::as_str);
    let contacts = statement
        .query_map(params![user_key, after, row_limit(limit)], |row| rows::user_id(row, 0))?;
    contacts.collect()
}

/// Adds a contact. Returns whether that changed anything.
pub(super) fn put(
    transaction: &mut WriteTransaction<'_>,
    user_id: &UserId,
    contact_id: &UserId,
) -> rusqlite::Result<Result<bool, ContactsFull>> {
    // A refused request creates no rows of users.
    if let Some(user_key) = transaction.user(user_id)? {
        if let Some(contact_key) = transaction.user(contact_id)?
            && is_contact(transaction.connection, user_key, contact_key)?
        {
            return Ok(Ok(false));
        }
        if is_full(transaction.connection, user_key)? {
            return Ok(Err(ContactsFull));
        }
    }
    let row = [transaction.named_user(user_id)?, transaction.named_user(contact_id)?];
    let sql = "INSERT INTO contacts (user_key, contact_key) VALUES (?1, ?2)";
    transaction.connection.prepare_cached(sql)?.execute(row)?;
    Ok(Ok(true))
}

fn is_contact(connection: &Connection, user_key: i64, contact_key: i64) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM contacts WHERE user_key = ?1 AND contact_key = ?2";
    connection.prepare_cached(sql)?.exists([user_key, contact_key])
}

fn is_full(connection: &Connection, user_key: i64) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM contacts WHERE user_key = ?1 LIMIT 1 OFFSET ?2";
    connection.prepare_cached(sql)?.exists([user_key, row_limit(CONTACTS_MAX - 1)])
}

/// Removes a contact. Returns whether that changed anything.
pub(super) fn remove(
    transaction: &mut WriteTransaction<'_>,
    user_id: &UserId,
    contact_id: &UserId,
) -> rusqlite::Result<bool> {
    let Some(user_key) = transaction.user(user_id)? else { return Ok(false) };
    let Some(contact_key) = transaction.user(contact_id)? else { return Ok(false) };
    let sql = "DELETE FROM contacts WHERE user_key = ?1 AND contact_key = ?2";
    Ok(transaction.connection.prepare_cached(sql)?.execute([user_key, contact_key])? > 0)
}

/// The relation of each pair of users, in order.
pub(super) fn relations(
    connection: &Connection,
    sights: &[Sight],
) -> rusqlite::Result<Vec<Relation>> {
    let mut statement = connection.prepare_cached(RELATION)?;
    let between = |Sight { observer_id, user_id }: &Sight| {
        let found = statement.query_row([observer_id.as_str(), user_id.as_str()], |row| {
            let last_seen: Option<i64> = row.get(1)?;
            Ok(Relation {
                visibility: rows::visibility(row, 0)?,
                are_contacts: row.get(2)?,
                last_seen: last_seen.map(|unix_ms| Timestamp { unix_ms: unsigned(unix_ms) }),
            })
        });
        Ok(found.optional()?.unwrap_or_default())
    };
    sights.iter().map(between).collect()
}
