//! Opening a database session: applies and verifies the settings that durability and speed depend
//! on.

use tokio_postgres::error::SqlState;
use tracing::warn;

use super::config::{PostgresConfig, SynchronousCommit};
use super::connection::{Connection, Timeouts};
use super::failure::describe;
use super::rows::get;
use super::schema::VERSION;

/// The oldest server that is supported, as `server_version_num` counts.
const OLDEST_SERVER: i32 = 130_000;

/// Why a store cannot be opened, for the operator.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The server cannot be reached, or rejects the connection.
    #[error("the store {address} cannot be reached: {reason}")]
    Unreachable {
        /// The address of the store.
        address: String,
        /// The error of the connection.
        reason: String,
    },
    /// The server did not answer in time.
    #[error("the store {address} did not answer in time")]
    Late {
        /// The address of the store.
        address: String,
    },
    /// The file of trusted certificates cannot be read.
    #[error("the certificates of sslrootcert={path} cannot be read: {reason}")]
    Roots {
        /// The file.
        path: String,
        /// The problem of the file.
        reason: String,
    },
    /// The server is too old.
    #[error(
        "the store {address} is PostgreSQL {found}, and Heartline needs {} or newer",
        OLDEST_SERVER / 10_000
    )]
    TooOld {
        /// The address of the store.
        address: String,
        /// Its version.
        found: i32,
    },
    /// The server is a standby, which is read-only.
    #[error("the store {address} is a standby, which takes no writes; name the primary")]
    Standby {
        /// The address of the store.
        address: String,
    },
    /// The encoding of the database is not UTF-8.
    #[error(
        "the database {address} has the encoding {found}, and Heartline needs UTF8; make another \
         one with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
    )]
    Encoding {
        /// The address of the store.
        address: String,
        /// Its encoding.
        found: String,
    },
    /// The schema is of a newer Heartline.
    #[error(
        "the store {address} has schema {found}, and this version of Heartline knows schemas up \
         to {VERSION}; run the newer version, or restore a backup"
    )]
    Newer {
        /// The address of the store.
        address: String,
        /// Its schema.
        found: i32,
    },
    /// The store would not be durable, and the configuration does not allow that.
    #[error(
        "the store {address} would not be durable: {problem}; acknowledged messages could be \
         lost, so this needs store.allow_unsafe = true"
    )]
    Unsafe {
        /// The address of the store.
        address: String,
        /// The setting, and what to change.
        problem: String,
    },
    /// The database returned an error.
    #[error("the store {address} cannot be made ready: {reason}")]
    Database {
        /// The address of the store.
        address: String,
        /// The error of the database.
        reason: String,
    },
}

impl OpenError {
    /// The error of a connection that cannot be made.
    pub(super) fn unreachable(config: &PostgresConfig, error: &tokio_postgres::Error) -> Self {
        let mut reason = describe(error);
        if reason.contains("server does not support TLS") {
            reason.push_str("; switch it on there, or say sslmode=disable on a trusted network");
        }
        Self::Unreachable { address: config.address(), reason }
    }

    /// The error of a statement that the database rejects.
    pub(super) fn database(config: &PostgresConfig, error: &tokio_postgres::Error) -> Self {
        let mut reason = describe(error);
        if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
            reason.push_str("; let its administrator run CREATE SCHEMA heartline AUTHORIZATION ");
            reason.push_str(config.server.get_user().unwrap_or_default());
        }
        Self::Database { address: config.address(), reason }
    }
}

/// The settings of a database session. Every statement of the store uses an index, so other plans
/// are switched off: a plan that was made while a table was small would be kept when it is large. A
/// statement then has the same plan on every connection.
pub(super) fn settings(config: &PostgresConfig, timeouts: Timeouts) -> String {
    let Timeouts { statement, lock, idle_in_transaction } = timeouts;
    format!(
        "SET search_path = heartline;
         SET synchronous_commit = {};
         SET default_transaction_isolation = 'read committed';
         SET default_transaction_read_only = off;
         SET statement_timeout = {};
         SET lock_timeout = {};
         SET idle_in_transaction_session_timeout = {};
         SET tcp_keepalives_idle = 10;
         SET tcp_keepalives_interval = 3;
         SET tcp_keepalives_count = 3;
         SET plan_cache_mode = force_generic_plan;
         SET enable_seqscan = off;
         SET enable_bitmapscan = off;
         SET enable_hashjoin = off;
         SET enable_mergejoin = off;
         SET jit = off;",
        config.synchronous_commit.as_str(),
        statement.as_millis(),
        lock.as_millis(),
        idle_in_transaction.as_millis(),
    )
}

/// The settings of a database session and its server.
#[derive(Debug)]
struct Facts {
    version: i32,
    fsync: String,
    full_page_writes: String,
    synchronous_commit: String,
    standby_names: String,
    encoding: String,
    is_standby: bool,
}

const FACTS: &str = "SELECT current_setting('server_version_num')::integer,
    current_setting('fsync'), current_setting('full_page_writes'),
    current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
    current_setting('server_encoding'), pg_is_in_recovery()";

/// Verifies the settings of a database session. Every connection does so, because the configuration
/// of the server may have changed, or another server may have replaced it.
pub(super) async fn verify(
    config: &PostgresConfig,
    connection: &mut Connection,
) -> Result<(), OpenError> {
    let refused = |error| OpenError::database(config, &error);
    connection.prepare(FACTS).await.map_err(refused)?;
    let rows = connection.query(FACTS, &[]).await.map_err(refused)?;
    let row = rows.first().expect("a SELECT of constants has a row");
    let facts = (|| {
        Ok(Facts {
            version: get(row, 0)?,
            fsync: get(row, 1)?,
            full_page_writes: get(row, 2)?,
            synchronous_commit: get(row, 3)?,
            standby_names: get(row, 4)?,
            encoding: get(row, 5)?,
            is_standby: get(row, 6)?,
        })
    })();
    let address = config.address();
    let facts = facts.map_err(|failure: super::failure::Failure| OpenError::Database {
        address: address.clone(),
        reason: failure.reason,
    })?;
    if facts.version < OLDEST_SERVER {
        return Err(OpenError::TooOld { address, found: facts.version / 10_000 });
    }
    if facts.is_standby {
        return Err(OpenError::Standby { address });
    }
    if facts.encoding != "UTF8" {
        return Err(OpenError::Encoding { address, found: facts.encoding });
    }
    match danger(config, &facts) {
        None => Ok(()),
        Some(problem) if config.allow_unsafe => {
            warn!(%address, problem, "the store is not durable, and store.allow_unsafe allows it");
            Ok(())
        }
        Some(problem) => Err(OpenError::Unsafe { address, problem: problem.to_owned() }),
    }
}

/// How acknowledged messages could be lost, if they could, and what to change.
fn danger(config: &PostgresConfig, facts: &Facts) -> Option<&'static str> {
    if facts.fsync != "on" {
        return Some(
            "the server runs with fsync=off, so a power cut destroys it; set fsync=on in its \
             configuration and restart it",
        );
    }
    if facts.full_page_writes != "on" {
        return Some(
            "the server runs with full_page_writes=off, so a power cut may tear its pages; set \
             full_page_writes=on in its configuration",
        );
    }
    if config.synchronous_commit == SynchronousCommit::Off {
        return Some(
            "synchronous_commit=off answers before the disk has it; take the parameter out of \
             store.url",
        );
    }
    if config.synchronous_commit == SynchronousCommit::Local && !facts.standby_names.is_empty() {
        return Some(
            "synchronous_commit=local does not wait for the server's synchronous standbys; take \
             the parameter out of store.url",
        );
    }
    if facts.synchronous_commit != config.synchronous_commit.as_str() {
        return Some(
            "synchronous_commit cannot be set for this session; ask the database's administrator",
        );
    }
    None
}
