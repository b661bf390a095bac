//! The schema of the database and its migrations.

use heartline_protocol::Timestamp;
use heartline_runtime::Random;
use tokio::time::Instant;

use super::config::PostgresConfig;
use super::connection::{Connection, MIGRATING};
use super::failure::Failure;
use super::open::OpenError;
use super::pooled_connection::PooledConnection;
use super::rows::{get, number};
use super::tls::Tls;

/// One script per version, in order. A script that was released is never changed.
const MIGRATIONS: [&str; 3] = [
    include_str!("migrations/0001_chats_messages_people.sql"),
    include_str!("migrations/0002_calls.sql"),
    include_str!("migrations/0003_party.sql"),
];

/// The version that this binary reads and writes.
pub(super) const VERSION: usize = MIGRATIONS.len();

/// The advisory lock under which a node migrates the schema: "HLCL" in ASCII.
const LOCK: &str = "SELECT pg_advisory_xact_lock(1212957516)";

/// Reads the rows of the catalogue, because the name cache of a database session may miss a table
/// that another one has just created.
const EXISTS: &str = "SELECT EXISTS (
        SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'heartline' AND c.relname = 'schema_versions'
    )";

const FOUND: &str = "SELECT coalesce(max(version), 0) FROM heartline.schema_versions";

/// A role without the right to create the schema can use an existing one.
const PREPARE: &str = "DO $$ BEGIN
        IF NOT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = 'heartline') THEN
            CREATE SCHEMA heartline;
        END IF;
    END $$;
    CREATE TABLE heartline.schema_versions (
        version integer PRIMARY KEY,
        migrated_at timestamptz NOT NULL DEFAULT now()
    );";

/// Migrates the database to the version of this binary. Each step is one transaction together with
/// its version number, under a lock, so any number of nodes may start at once, and a kill leaves
/// either the older or the newer schema.
pub(super) async fn migrate(
    config: &PostgresConfig,
    tls: &Tls,
    deadline: Instant,
    random: Random,
) -> Result<(), OpenError> {
    let mut connection = Connection::open(config, tls, MIGRATING, deadline, random).await?;
    let late = || OpenError::Late { address: config.address() };
    let steps = steps(config, &mut connection, &MIGRATIONS);
    tokio::time::timeout_at(deadline, steps).await.unwrap_or_else(|_| Err(late()))?;
    connection.close().await;
    Ok(())
}

async fn steps(
    config: &PostgresConfig,
    connection: &mut Connection,
    migrations: &[&str],
) -> Result<(), OpenError> {
    loop {
        let found = match step(connection, migrations).await {
            Ok(found) => found,
            Err(error) => return Err(OpenError::database(config, &error)),
        };
        match usize::try_from(found) {
            Ok(found) if found < migrations.len() => {}
            Ok(found) if found == migrations.len() => return Ok(()),
            _ => return Err(OpenError::Newer { address: config.address(), found }),
        }
    }
}

/// Runs the next migration, if there is one. Returns the version afterwards.
async fn step(
    connection: &mut Connection,
    migrations: &[&str],
) -> Result<i32, tokio_postgres::Error> {
    if is_there(connection).await? {
        let found = version(connection).await?;
        if usize::try_from(found).is_ok_and(|found| found >= migrations.len()) {
            return Ok(found);
        }
    }
    connection.batch(&format!("BEGIN; {LOCK};")).await?;
    // Another node may have migrated while this one waited for the lock.
    if !is_there(connection).await? {
        connection.batch(PREPARE).await?;
    }
    let mut found = version(connection).await?;
    let script = usize::try_from(found).ok().and_then(|found| migrations.get(found));
    if let Some(script) = script {
        found += 1;
        connection.batch(script).await?;
        let note = format!("INSERT INTO heartline.schema_versions (version) VALUES ({found})");
        connection.batch(&note).await?;
    }
    connection.batch("COMMIT").await?;
    Ok(found)
}

async fn is_there(connection: &mut Connection) -> Result<bool, tokio_postgres::Error> {
    connection.prepare(EXISTS).await?;
    let rows = connection.query(EXISTS, &[]).await?;
    Ok(rows.first().is_some_and(|row| get(row, 0).unwrap_or(false)))
}

async fn version(connection: &mut Connection) -> Result<i32, tokio_postgres::Error> {
    connection.prepare(FOUND).await?;
    let rows = connection.query(FOUND, &[]).await?;
    Ok(rows.first().map_or(0, |row| get(row, 0).unwrap_or(0)))
}

/// The time by the server's own clock.
pub(super) async fn now(mut connection: PooledConnection<'_>) -> Result<Timestamp, Failure> {
    let rows = connection.query("SELECT now_ms()", &[]).await?;
    let row = rows.first().ok_or_else(|| Failure::again("the server did not tell the time"))?;
    Ok(Timestamp { unix_ms: number(row, 0)? })
}
