//! The archive of party sessions, shared by all nodes.

use std::collections::BTreeMap;

use async_trait::async_trait;
use heartline_durability::StoreError;
use heartline_party::{
    Archived, Details, Discovered, PartyArchive, PartyArchiveError, Revision, SearchArea, Status,
    Stored,
};
use heartline_protocol::UserId;
use tokio_postgres::Row;

use super::PostgresStore;
use super::failure::Failure;
use super::pool::Purpose;
use super::pooled_connection::PooledConnection;
use super::rows::{get, number, row_limit, signed, user_ids};
use crate::document;
use crate::geography::Rectangle;

#[async_trait]
impl PartyArchive for PostgresStore {
    async fn put(&self, sessions: Vec<Archived>) -> Result<(), PartyArchiveError> {
        for chunk in document::chunks(sessions) {
            let columns = Columns::of(newest(&chunk), &chunk);
            archive_result(
                self.0.pool.call(Purpose::Note, |connection| put(connection, &columns)).await,
            )?;
        }
        Ok(())
    }

    async fn get(&self, session_id: &str) -> Result<Option<Archived>, PartyArchiveError> {
        let read = |connection| find(connection, session_id);
        archive_result(self.0.pool.call(Purpose::Read, read).await)
    }

    async fn nearby(
        &self,
        area: SearchArea,
        limit: usize,
    ) -> Result<Vec<Discovered>, PartyArchiveError> {
        let read = |connection| nearby(connection, &area, limit);
        archive_result(self.0.pool.call(Purpose::Read, read).await)
    }

    async fn of_account(
        &self,
        account: &UserId,
        limit: usize,
    ) -> Result<Vec<Discovered>, PartyArchiveError> {
        let read = |connection| of_account(connection, account, limit);
        archive_result(self.0.pool.call(Purpose::Read, read).await)
    }

    async fn idle(&self, before_ms: u64, limit: usize) -> Result<Vec<String>, PartyArchiveError> {
        let read = |connection| idle(connection, before_ms, limit);
        archive_result(self.0.pool.call(Purpose::Read, read).await)
    }
}

fn archive_result<T>(result: Result<T, StoreError>) -> Result<T, PartyArchiveError> {
    result.map_err(PartyArchiveError::new)
}

/// The newest state of each session of a chunk, in the order of their ids: every transaction writes
/// the rows of several sessions in this order.
fn newest(chunk: &[Archived]) -> impl Iterator<Item = &Archived> {
    let mut newest: BTreeMap<&str, &Archived> = BTreeMap::new();
    for session in chunk {
        let held = newest.entry(&session.session_id).or_insert(session);
        if held.stored.revision < session.stored.revision {
            *held = session;
        }
    }
    newest.into_values()
}

/// Sessions as one array per column.
#[derive(Default)]
struct Columns<'chunk> {
    session_ids: Vec<&'chunk str>,
    incarnations: Vec<i64>,
    versions: Vec<i64>,
    statuses: Vec<i16>,
    members: Vec<i32>,
    active_at: Vec<i64>,
    creators: Vec<Option<&'chunk str>>,
    discoverable: Vec<bool>,
    latitudes: Vec<Option<f64>>,
    longitudes: Vec<Option<f64>>,
    permanent: Vec<bool>,
    details: Vec<Vec<u8>>,
    documents: Vec<Vec<u8>>,
    /// The accounts that have taken part, each with its session.
    accounts: Vec<&'chunk str>,
    taken_part_in: Vec<&'chunk str>,
}

impl<'chunk> Columns<'chunk> {
    /// The columns of sessions. Participants are recorded whatever the revision.
    fn of(sessions: impl Iterator<Item = &'chunk Archived>, all: &'chunk [Archived]) -> Self {
        let mut columns = Self::default();
        for Archived { session_id, stored, status, details, active_at_ms, members, .. } in sessions
        {
            columns.session_ids.push(session_id);
            columns.incarnations.push(signed(stored.revision.incarnation));
            columns.versions.push(signed(stored.revision.version));
            columns.statuses.push(status_number(*status));
            columns.members.push(i32::try_from(*members).unwrap_or(i32::MAX));
            columns.active_at.push(signed(*active_at_ms));
            columns.creators.push(details.creator.as_ref().map(UserId::as_str));
            columns.discoverable.push(details.discoverable);
            columns.latitudes.push(details.latitude);
            columns.longitudes.push(details.longitude);
            columns.permanent.push(details.is_permanent);
            let json = serde_json::to_vec(details).expect("details have no key that is not text");
            columns.details.push(json);
            columns.documents.push(document::write(&stored.fields));
        }
        for session in all {
            for account in &session.participants {
                columns.accounts.push(account.as_str());
                columns.taken_part_in.push(&session.session_id);
            }
        }
        columns
    }
}

const PUT: &str = "WITH kept AS (
        INSERT INTO party_archive AS a (session_id, incarnation, version, status, members,
            active_at, creator, discoverable, latitude, longitude, is_permanent, details, document)
        SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::smallint[], $5::integer[],
            $6::bigint[], $7::text[], $8::boolean[], $9::double precision[],
            $10::double precision[], $11::boolean[], $12::bytea[], $13::bytea[])
        ON CONFLICT (session_id) DO UPDATE SET incarnation = excluded.incarnation,
            version = excluded.version, status = excluded.status, members = excluded.members,
            active_at = excluded.active_at, creator = excluded.creator,
            discoverable = excluded.discoverable, latitude = excluded.latitude,
            longitude = excluded.longitude, is_permanent = excluded.is_permanent,
            details = excluded.details, document = excluded.document
        WHERE (a.incarnation, a.version) < (excluded.incarnation, excluded.version)
    )
    INSERT INTO party_participants (account, session_id)
    SELECT DISTINCT n.account, n.session_id
    FROM unnest($14::text[], $15::text[]) AS n (account, session_id)
    ORDER BY n.account, n.session_id
    ON CONFLICT (account, session_id) DO NOTHING";

/// Stores the sessions that are newer than the archived ones.
async fn put(mut connection: PooledConnection<'_>, columns: &Columns<'_>) -> Result<(), Failure> {
    let parameters: super::connection::Parameters<'_> = &[
        &columns.session_ids,
        &columns.incarnations,
        &columns.versions,
        &columns.statuses,
        &columns.members,
        &columns.active_at,
        &columns.creators,
        &columns.discoverable,
        &columns.latitudes,
        &columns.longitudes,
        &columns.permanent,
        &columns.details,
        &columns.documents,
        &columns.accounts,
        &columns.taken_part_in,
    ];
    connection.write(PUT, parameters).await.map(drop)
}

const GET: &str = "SELECT session_id, status, details, members, incarnation, version, document,
        active_at, ARRAY(
            SELECT p.account FROM party_participants p WHERE p.session_id = $1 ORDER BY p.account
        )
    FROM party_archive WHERE session_id = $1";

/// An archived session with all its fields.
async fn find(
    mut connection: PooledConnection<'_>,
    session_id: &str,
) -> Result<Option<Archived>, Failure> {
    let rows = connection.query(GET, &[&session_id]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let found = discovered(row, None)?;
    let revision = Revision { incarnation: number(row, 4)?, version: number(row, 5)? };
    let fields = document::read(get(row, 6)?);
    let fields = fields.map_err(|error| Failure::rejected(error.to_string()))?;
    Ok(Some(Archived {
        session_id: found.session_id,
        stored: Stored { revision, fields },
        status: found.status,
        details: found.details,
        active_at_ms: number(row, 7)?,
        members: found.members,
        participants: user_ids(row, 8)?,
    }))
}

pub(super) const NEARBY: &str = "SELECT f.session_id, f.status, f.details, f.members, f.distance
    FROM (
        SELECT a.*, distance_metres($1, $2, a.latitude, a.longitude) AS distance
        FROM party_archive a
        WHERE a.discoverable AND a.status <> 2 AND a.latitude BETWEEN $3 AND $4
            AND CASE
                WHEN $5::double precision <= $6::double precision
                    THEN a.longitude BETWEEN $5 AND $6
                ELSE a.longitude >= $5 OR a.longitude <= $6
            END
    ) f
    WHERE f.distance <= $7 ORDER BY f.distance, f.session_id LIMIT $8";

/// The nearest sessions in an area, of those in the rectangle around it.
async fn nearby(
    mut connection: PooledConnection<'_>,
    area: &SearchArea,
    limit: usize,
) -> Result<Vec<Discovered>, Failure> {
    let Rectangle { south, north, west, east } = Rectangle::around(area);
    let SearchArea { latitude, longitude, radius_metres } = area;
    let limit = row_limit(limit);
    let rows = connection
        .query(NEARBY, &[latitude, longitude, &south, &north, &west, &east, radius_metres, &limit])
        .await?;
    rows.iter().map(|row| discovered(row, Some(get(row, 4)?))).collect()
}

pub(super) const OF_ACCOUNT: &str = "SELECT a.session_id, a.status, a.details, a.members
    FROM party_archive a
    WHERE a.session_id IN (
            SELECT p.session_id FROM party_participants p WHERE p.account = $1
            UNION SELECT c.session_id FROM party_archive c WHERE c.creator = $1
        ) AND a.status <> 2
    ORDER BY a.active_at DESC, a.session_id DESC LIMIT $2";

async fn of_account(
    mut connection: PooledConnection<'_>,
    account: &UserId,
    limit: usize,
) -> Result<Vec<Discovered>, Failure> {
    let rows = connection.query(OF_ACCOUNT, &[&account.as_str(), &row_limit(limit)]).await?;
    rows.iter().map(|row| discovered(row, None)).collect()
}

pub(super) const IDLE: &str = "SELECT session_id FROM party_archive
    WHERE members = 0 AND status <> 2 AND NOT is_permanent AND active_at < $1
    ORDER BY active_at LIMIT $2";

async fn idle(
    mut connection: PooledConnection<'_>,
    before_ms: u64,
    limit: usize,
) -> Result<Vec<String>, Failure> {
    let rows = connection.query(IDLE, &[&signed(before_ms), &row_limit(limit)]).await?;
    rows.iter().map(|row| get(row, 0)).collect()
}

/// A session from the first four columns: id, status, details, members.
fn discovered(row: &Row, distance_metres: Option<f64>) -> Result<Discovered, Failure> {
    let details: Details = serde_json::from_slice(get(row, 2)?)
        .map_err(|error| Failure::rejected(format!("details cannot be read: {error}")))?;
    Ok(Discovered {
        session_id: get(row, 0)?,
        status: status(row)?,
        details,
        members: usize::try_from(get::<i32>(row, 3)?).unwrap_or(0),
        distance_metres,
    })
}

/// A status as a number.
fn status_number(status: Status) -> i16 {
    match status {
        Status::Active => 0,
        Status::Inactive => 1,
        Status::Ended => 2,
    }
}

fn status(row: &Row) -> Result<Status, Failure> {
    match get::<i16>(row, 1)? {
        0 => Ok(Status::Active),
        1 => Ok(Status::Inactive),
        2 => Ok(Status::Ended),
        other => Err(Failure::rejected(format!("there is no status {other}"))),
    }
}
