//! The archive of party sessions, in the same file as the chats.

use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;
use heartline_durability::StoreError;
use heartline_party::{
    Archived, Details, Discovered, PartyArchive, PartyArchiveError, Revision, SearchArea, Status,
    Stored,
};
use heartline_protocol::UserId;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use tokio::time::timeout;

use super::SqliteStore;
use super::rows::{row_limit, signed, unsigned, user_id};
use super::write_transaction::WriteTransaction;
use crate::document;
use crate::geography::{Rectangle, distance_metres};

/// How long a call may take, including the wait for the writer.
const DEADLINE: Duration = Duration::from_secs(5);

#[async_trait]
impl PartyArchive for SqliteStore {
    async fn put(&self, sessions: Vec<Archived>) -> Result<(), PartyArchiveError> {
        for chunk in document::chunks(sessions) {
            let put = move |transaction: &mut WriteTransaction<'_>| {
                chunk.iter().try_for_each(|archived| put(transaction.connection, archived))
            };
            within(self.0.writer.write(put)).await?;
        }
        Ok(())
    }

    async fn get(&self, session_id: &str) -> Result<Option<Archived>, PartyArchiveError> {
        let session_id = session_id.to_owned();
        within(self.0.readers.read(move |connection| get(connection, &session_id))).await
    }

    async fn nearby(
        &self,
        area: SearchArea,
        limit: usize,
    ) -> Result<Vec<Discovered>, PartyArchiveError> {
        within(self.0.readers.read(move |connection| nearby(connection, &area, limit))).await
    }

    async fn of_account(
        &self,
        account: &UserId,
        limit: usize,
    ) -> Result<Vec<Discovered>, PartyArchiveError> {
        let account = account.clone();
        within(self.0.readers.read(move |connection| of_account(connection, &account, limit))).await
    }

    async fn idle(&self, before_ms: u64, limit: usize) -> Result<Vec<String>, PartyArchiveError> {
        within(self.0.readers.read(move |connection| idle(connection, before_ms, limit))).await
    }
}

/// Waits for a call to the store, at most until the deadline.
async fn within<T>(
    answer: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, PartyArchiveError> {
    let answer = timeout(DEADLINE, answer).await.map_err(PartyArchiveError::new)?;
    answer.map_err(PartyArchiveError::new)
}

/// Stores a session that is newer than the archived one, and records its participants in any case.
fn put(connection: &Connection, archived: &Archived) -> rusqlite::Result<()> {
    let sql = "INSERT INTO party_archive AS a (session_id, incarnation, version, status, members,
            active_at, creator, discoverable, latitude, longitude, is_permanent, details, document)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
        ON CONFLICT (session_id) DO UPDATE SET incarnation = excluded.incarnation,
            version = excluded.version, status = excluded.status, members = excluded.members,
            active_at = excluded.active_at, creator = excluded.creator,
            discoverable = excluded.discoverable, latitude = excluded.latitude,
            longitude = excluded.longitude, is_permanent = excluded.is_permanent,
            details = excluded.details, document = excluded.document
        WHERE (excluded.incarnation, excluded.version) > (a.incarnation, a.version)";
    let Archived { session_id, stored, details, .. } = archived;
    let row = params![
        session_id,
        signed(stored.revision.incarnation),
        signed(stored.revision.version),
        status_number(archived.status),
        row_limit(archived.members),
        signed(archived.active_at_ms),
        details.creator.as_ref().map(UserId::as_str),
        details.discoverable,
        details.latitude,
        details.longitude,
        details.is_permanent,
        serde_json::to_vec(details).expect("details have no key that is not text"),
        document::write(&stored.fields),
    ];
    connection.prepare_cached(sql)?.execute(row)?;
    let sql = "INSERT OR IGNORE INTO party_participants (account, archive_key)
        SELECT ?1, archive_key FROM party_archive WHERE session_id = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    for account in &archived.participants {
        statement.execute(params![account.as_str(), session_id])?;
    }
    Ok(())
}

/// An archived session with all its fields.
fn get(connection: &Connection, session_id: &str) -> rusqlite::Result<Option<Archived>> {
    let sql = "SELECT archive_key, incarnation, version, document, active_at,
            session_id, status, details, members
        FROM party_archive WHERE session_id = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row([session_id], |row| {
        let (incarnation, version) = (unsigned(row.get(1)?), unsigned(row.get(2)?));
        let fields = document::read(row.get_ref(3)?.as_blob()?);
        let fields = fields.map_err(|error| unreadable(3, error))?;
        let stored = Stored { revision: Revision { incarnation, version }, fields };
        let found = discovered(row, 5, None)?;
        let archived = Archived {
            session_id: found.session_id,
            stored,
            status: found.status,
            details: found.details,
            active_at_ms: unsigned(row.get(4)?),
            members: found.members,
            participants: Vec::new(),
        };
        Ok((row.get::<_, i64>(0)?, archived))
    });
    let Some((key, mut archived)) = found.optional()? else { return Ok(None) };
    let sql = "SELECT account FROM party_participants WHERE archive_key = ?1 ORDER BY account";
    let mut statement = connection.prepare_cached(sql)?;
    let participants = statement.query_map([key], |row| user_id(row, 0))?;
    archived.participants = participants.collect::<rusqlite::Result<_>>()?;
    Ok(Some(archived))
}

/// Reads the sessions in a rectangle and keeps the nearest.
fn nearby(
    connection: &Connection,
    area: &SearchArea,
    limit: usize,
) -> rusqlite::Result<Vec<Discovered>> {
    let rectangle = Rectangle::around(area);
    let sql = "SELECT archive_key, latitude, longitude
        FROM party_archive INDEXED BY party_archive_place
        WHERE discoverable = 1 AND status <> 2 AND latitude BETWEEN ?1 AND ?2
            AND longitude IS NOT NULL";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![rectangle.south, rectangle.north])?;
    let mut nearest: Vec<(f64, i64)> = Vec::new();
    while let Some(row) = rows.next()? {
        let (latitude, longitude) = (row.get(1)?, row.get(2)?);
        if !rectangle.holds_longitude(longitude) {
            continue;
        }
        let distance = distance_metres(area, latitude, longitude);
        if distance <= area.radius_metres {
            nearest.push((distance, row.get(0)?));
        }
        // Only a few candidates are held at a time, however many there are.
        if nearest.len() > limit.saturating_mul(2).max(1024) {
            keep_nearest(&mut nearest, limit);
        }
    }
    keep_nearest(&mut nearest, limit);
    let sql = "SELECT session_id, status, details, members FROM party_archive
        WHERE archive_key = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let found = nearest.into_iter().map(|(distance, key)| {
        statement.query_row([key], |row| discovered(row, 0, Some(distance)))
    });
    found.collect()
}

fn keep_nearest(nearest: &mut Vec<(f64, i64)>, limit: usize) {
    nearest.sort_unstable_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    nearest.truncate(limit);
}

fn of_account(
    connection: &Connection,
    account: &UserId,
    limit: usize,
) -> rusqlite::Result<Vec<Discovered>> {
    let sql = "SELECT session_id, status, details, members FROM party_archive
        WHERE archive_key IN (
                SELECT archive_key FROM party_participants WHERE account = ?1
                UNION SELECT archive_key FROM party_archive WHERE creator = ?1
            ) AND status <> 2
        ORDER BY active_at DESC, archive_key DESC LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement
        .query_map(params![account.as_str(), row_limit(limit)], |row| discovered(row, 0, None))?;
    found.collect()
}

fn idle(connection: &Connection, before_ms: u64, limit: usize) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT session_id FROM party_archive INDEXED BY party_archive_idle
        WHERE members = 0 AND status <> 2 AND is_permanent = 0 AND active_at < ?1
        ORDER BY active_at LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let ids =
        statement.query_map(params![signed(before_ms), row_limit(limit)], |row| row.get(0))?;
    ids.collect()
}

/// A session from four columns: id, status, details, members.
fn discovered(
    row: &Row<'_>,
    first: usize,
    distance_metres: Option<f64>,
) -> rusqlite::Result<Discovered> {
    let details: Details = serde_json::from_slice(row.get_ref(first + 2)?.as_blob()?)
        .map_err(|error| unreadable(first + 2, error))?;
    Ok(Discovered {
        session_id: row.get(first)?,
        status: status(row, first + 1)?,
        details,
        members: usize::try_from(row.get::<_, i64>(first + 3)?).unwrap_or(0),
        distance_metres,
    })
}

fn unreadable(
    column: usize,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Blob, Box::new(error))
}

/// A status as a number.
fn status_number(status: Status) -> i64 {
    match status {
        Status::Active => 0,
        Status::Inactive => 1,
        Status::Ended => 2,
    }
}

/// A status from the file.
fn status(row: &Row<'_>, column: usize) -> rusqlite::Result<Status> {
    match row.get(column)? {
        0_i64 => Ok(Status::Active),
        1 => Ok(Status::Inactive),
        2 => Ok(Status::Ended),
        other => Err(rusqlite::Error::IntegralValueOutOfRange(column, other)),
    }
}
