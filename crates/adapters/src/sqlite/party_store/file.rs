//! Party sessions in the file, which orders commits.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use heartline_party::{Commit, Committed, Revision};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::session_cache::CachedSession;
use crate::sqlite::rows::{signed, unsigned};

/// The contents of a file when it is opened.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Sessions with members, and the time of their last activity.
    pub(super) active: BTreeMap<String, u64>,
    /// The newest recorded time, below which the clock must not fall.
    pub(super) newest_ms: u64,
}

/// Deletes logs that are older than the time for which sessions stay in memory.
pub(super) fn clear_logs(
    connection: &Connection,
    now_ms: u64,
    ttl: Duration,
) -> rusqlite::Result<()> {
    let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    let sql = "DELETE FROM party_entries WHERE session_key IN (
        SELECT session_key FROM party_sessions WHERE alive_at < ?1)";
    connection.execute(sql, [signed(now_ms.saturating_sub(ttl_ms))]).map(drop)
}

/// Reads the contents with which the cache begins.
pub(super) fn found(connection: &Connection) -> rusqlite::Result<Found> {
    let sql = "SELECT coalesce(max(alive_at), 0) FROM party_sessions";
    let newest_ms = unsigned(connection.query_row(sql, [], |row| row.get(0))?);
    let sql = "SELECT session_id, alive_at FROM party_sessions INDEXED BY party_sessions_active
        WHERE is_active = 1";
    let mut statement = connection.prepare(sql)?;
    let active = statement.query_map([], |row| Ok((row.get(0)?, unsigned(row.get(1)?))))?;
    Ok(Found { active: active.collect::<rusqlite::Result<_>>()?, newest_ms })
}

/// The key of a session in the file, and its revision.
fn find(connection: &Connection, session_id: &str) -> rusqlite::Result<Option<(i64, Revision)>> {
    let sql = "SELECT session_key, incarnation, version FROM party_sessions WHERE session_id = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_row([session_id], |row| Ok((row.get(0)?, revision(row, 1)?))).optional()
}

fn revision(row: &Row<'_>, first: usize) -> rusqlite::Result<Revision> {
    let (incarnation, version) = (unsigned(row.get(first)?), unsigned(row.get(first + 1)?));
    Ok(Revision { incarnation, version })
}

/// A whole session with its log.
pub(super) fn load(
    connection: &Connection,
    session_id: &str,
) -> rusqlite::Result<Option<Arc<CachedSession>>> {
    let Some((key, present)) = find(connection, session_id)? else { return Ok(None) };
    let sql = "SELECT name, value FROM party_fields WHERE session_key = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let bytes = |row: &Row<'_>, column| row.get::<_, Vec<u8>>(column).map(Bytes::from);
    let fields = statement.query_map([key], |row| Ok((row.get(0)?, bytes(row, 1)?)))?;
    let fields = fields.collect::<rusqlite::Result<_>>()?;
    let sql = "SELECT incarnation, version, entry FROM party_entries
        WHERE session_key = ?1 ORDER BY version";
    let mut statement = connection.prepare_cached(sql)?;
    let entries = statement.query_map([key], |row| Ok((revision(row, 0)?, bytes(row, 2)?)))?;
    let entries = entries.collect::<rusqlite::Result<VecDeque<_>>>()?;
    Ok(Some(Arc::new(CachedSession { revision: present, fields, entries })))
}

/// The revisions of sessions, in the order of the ids.
pub(super) fn revisions(
    connection: &Connection,
    session_ids: &[String],
) -> rusqlite::Result<Vec<Option<Revision>>> {
    let revision =
        |session_id: &String| Ok(find(connection, session_id)?.map(|(_, revision)| revision));
    session_ids.iter().map(revision).collect()
}

/// Writes a commit if the session is at the expected revision.
pub(super) fn commit(
    connection: &Connection,
    commit: &Commit,
    now_ms: u64,
) -> rusqlite::Result<Committed> {
    let found = find(connection, &commit.session_id)?;
    let present = found.map(|(_, revision)| revision);
    if present != commit.expected {
        return Ok(Committed::Conflict(present));
    }
    let (incarnation, version) =
        (signed(commit.revision.incarnation), signed(commit.revision.version));
    let (is_active, alive_at) = (i64::from(commit.is_active), signed(now_ms));
    let key = match found {
        Some((key, _)) => {
            let sql = "UPDATE party_sessions
                SET incarnation = ?2, version = ?3, is_active = ?4, alive_at = ?5
                WHERE session_key = ?1";
            let row = params![key, incarnation, version, is_active, alive_at];
            connection.prepare_cached(sql)?.execute(row)?;
            key
        }
        None => {
            let sql = "INSERT INTO party_sessions
                (session_id, incarnation, version, is_active, alive_at)
                VALUES (?1, ?2, ?3, ?4, ?5)";
            let row = params![commit.session_id, incarnation, version, is_active, alive_at];
            connection.prepare_cached(sql)?.execute(row)?;
            connection.last_insert_rowid()
        }
    };
    write_fields(connection, key, commit)?;
    write_entry(connection, key, commit)?;
    Ok(Committed::Done)
}

fn write_fields(connection: &Connection, key: i64, commit: &Commit) -> rusqlite::Result<()> {
    let sql = "DELETE FROM party_fields WHERE session_key = ?1 AND name = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    for name in &commit.changes.remove {
        statement.execute(params![key, name])?;
    }
    let sql = "INSERT INTO party_fields (session_key, name, value) VALUES (?1, ?2, ?3)
        ON CONFLICT (session_key, name) DO UPDATE SET value = excluded.value";
    let mut statement = connection.prepare_cached(sql)?;
    for (name, value) in &commit.changes.set {
        statement.execute(params![key, name, value])?;
    }
    Ok(())
}

fn write_entry(connection: &Connection, key: i64, commit: &Commit) -> rusqlite::Result<()> {
    let Revision { incarnation, version } = commit.revision;
    let sql = "INSERT INTO party_entries (session_key, version, incarnation, entry)
        VALUES (?1, ?2, ?3, ?4)";
    let row = params![key, signed(version), signed(incarnation), &commit.entry[..]];
    connection.prepare_cached(sql)?.execute(row)?;
    let kept = u64::try_from(commit.entries_kept).unwrap_or(u64::MAX);
    let sql = "DELETE FROM party_entries WHERE session_key = ?1 AND version <= ?2";
    let beyond = signed(version.saturating_sub(kept));
    connection.prepare_cached(sql)?.execute(params![key, beyond])?;
    Ok(())
}

/// Removes a session that is at this revision; returns whether it was.
pub(super) fn remove(
    connection: &Connection,
    session_id: &str,
    revision: Revision,
) -> rusqlite::Result<bool> {
    let Some((key, present)) = find(connection, session_id)? else { return Ok(false) };
    if present != revision {
        return Ok(false);
    }
    for sql in [
        "DELETE FROM party_entries WHERE session_key = ?1",
        "DELETE FROM party_fields WHERE session_key = ?1",
        "DELETE FROM party_sessions WHERE session_key = ?1",
    ] {
        connection.prepare_cached(sql)?.execute([key])?;
    }
    Ok(true)
}

/// Marks sessions as having members; returns those that exist.
pub(super) fn keep(
    connection: &Connection,
    session_ids: &[String],
    now_ms: u64,
) -> rusqlite::Result<Vec<String>> {
    let sql = "UPDATE party_sessions SET is_active = 1, alive_at = ?2 WHERE session_id = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let mut kept = Vec::new();
    for session_id in session_ids {
        if statement.execute(params![session_id, signed(now_ms)])? > 0 {
            kept.push(session_id.clone());
        }
    }
    Ok(kept)
}

/// Marks a session as having no members.
pub(super) fn inactive(connection: &Connection, session_id: &str) -> rusqlite::Result<()> {
    let sql = "UPDATE party_sessions SET is_active = 0 WHERE session_id = ?1 AND is_active = 1";
    connection.prepare_cached(sql)?.execute([session_id]).map(drop)
}

/// Deletes the logs of sessions.
pub(super) fn forget_entries(
    connection: &Connection,
    session_ids: &[String],
) -> rusqlite::Result<()> {
    let sql = "DELETE FROM party_entries WHERE session_key IN (
        SELECT session_key FROM party_sessions WHERE session_id = ?1)";
    let mut statement = connection.prepare_cached(sql)?;
    for session_id in session_ids {
        statement.execute([session_id])?;
    }
    Ok(())
}
