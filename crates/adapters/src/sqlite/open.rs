//! Opening the file: applies and verifies the settings that durability depends on.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::config::SqliteConfig;
use super::lock::{LockError, StoreLock};
use super::schema::{self, Origin, VERSION};

/// How long a commit waits for another process that is writing, such as a `sqlite3` shell. Below
/// the deadline of a send, so that the send fails with the error of the store.
const BUSY_TIMEOUT: Duration = Duration::from_secs(4);

/// Pages of the write-ahead log after which a commit also runs a checkpoint: 32 MiB. A smaller
/// limit means more checkpoints, a larger one means a longer pause each time.
const CHECKPOINT_PAGES: u32 = 8000;

/// Bytes of a page of a new store. A commit writes every page that it touches to the log, and a
/// message touches a few, so smaller pages write less.
const PAGE_BYTES: u32 = 2048;

/// The size to which a larger write-ahead log is truncated.
const LOG_BYTES_KEPT: u32 = 64 * 1024 * 1024;

/// Why a store cannot be opened, for the operator.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another server uses the store.
    #[error(
        "the store {} is in use by another Heartline ({owner}); stop it first", path.display()
    )]
    Locked {
        /// The database.
        path: PathBuf,
        /// The description of that server in the lock file.
        owner: String,
    },
    /// The directory is missing, or not writable for this user.
    #[error(
        "cannot write beside the store {}: {source}; check that its directory exists, belongs to \
         this user, and is on a disk that is not read-only", path.display()
    )]
    Directory {
        /// The database.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The store does not exist, and must not be created.
    #[error("there is no store at {}", .0.display())]
    Missing(PathBuf),
    /// The file is not a store.
    #[error("{} is not a Heartline store; name another file", .0.display())]
    Foreign(PathBuf),
    /// The schema is of a newer Heartline.
    #[error(
        "the store {} has schema {found}, and this version of Heartline knows schemas up to \
         {VERSION}; run the newer version, or restore a backup", path.display()
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its schema.
        found: usize,
    },
    /// The store would not be durable, and the configuration does not allow that.
    #[error(
        "the store {} would not be durable: {problem}; acknowledged messages could be lost, so \
         this needs store.allow_unsafe = true", path.display()
    )]
    Unsafe {
        /// The database.
        path: PathBuf,
        /// The setting.
        problem: String,
    },
    /// The database returned an error.
    #[error("the store {} cannot be opened: {source}", path.display())]
    Database {
        /// The database.
        path: PathBuf,
        /// The error of the database.
        source: rusqlite::Error,
    },
}

/// Acquires the lock, opens the database for writing, verifies its settings and migrates its
/// schema.
pub(super) fn open_writer(config: &SqliteConfig) -> Result<(StoreLock, Connection), OpenError> {
    let path = &config.path;
    if !config.synchronous_full && !config.allow_unsafe {
        return Err(OpenError::Unsafe {
            path: path.clone(),
            problem: "synchronous=normal does not force commits to the disk".to_owned(),
        });
    }
    let lock = acquire_lock(path)?;
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_CREATE)?;
    let from = match schema::origin(&connection).map_err(|error| explain(path, error))? {
        Origin::Empty => 0,
        Origin::Heartline(found) if found > VERSION => {
            return Err(OpenError::Newer { path: path.clone(), found });
        }
        Origin::Heartline(found) => found,
        Origin::Foreign => return Err(OpenError::Foreign(path.clone())),
    };
    configure(&connection, config)?;
    schema::migrate(&mut connection, from).map_err(|error| explain(path, error))?;
    Ok((lock, connection))
}

/// Acquires the lock of a database.
pub(super) fn acquire_lock(path: &Path) -> Result<StoreLock, OpenError> {
    StoreLock::acquire(path).map_err(|error| match error {
        LockError::Held(owner) => OpenError::Locked { path: path.to_owned(), owner },
        LockError::Io(source) => OpenError::Directory { path: path.to_owned(), source },
    })
}

/// Opens an existing store for reading, also while another process writes.
pub(super) fn open_reader(path: &Path) -> Result<Connection, OpenError> {
    if !path.exists() {
        return Err(OpenError::Missing(path.to_owned()));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.execute_batch("PRAGMA cache_size = -8192; PRAGMA temp_store = MEMORY;")?;
        connection.set_prepared_statement_cache_capacity(64);
        let origin = schema::origin(&connection)?;
        Ok((connection, origin))
    };
    match open().map_err(|error| explain(path, error))? {
        // A store with an older schema can be copied and checked.
        (connection, Origin::Heartline(found)) if found <= VERSION => Ok(connection),
        (_, Origin::Heartline(found)) => Err(OpenError::Newer { path: path.to_owned(), found }),
        (_, Origin::Empty | Origin::Foreign) => Err(OpenError::Foreign(path.to_owned())),
    }
}

/// A second connection that may write, for the owner of the lock.
pub(super) fn open_beside(path: &Path) -> Result<Connection, OpenError> {
    let connection = connect(path, OpenFlags::empty())?;
    // Pages that it moves into the database must be synced before SQLite overwrites the log.
    let set = connection.pragma_update(None, "synchronous", 2_i64);
    set.map_err(|error| explain(path, error))?;
    Ok(connection)
}

fn connect(path: &Path, create: OpenFlags) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | create;
    let open = || {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(128);
        Ok(connection)
    };
    open().map_err(|error| explain(path, error))
}

/// Applies the settings that durability and speed depend on, and verifies those that durability
/// depends on. Files are not mapped into memory: a bad disk must cause an error, and a mapping
/// would cause a signal. The cache is small, because every commit that splits a page walks the
/// whole cache: 64 MiB cost half a millisecond each, and other pages are in the cache of the
/// system.
fn configure(connection: &Connection, config: &SqliteConfig) -> Result<(), OpenError> {
    let path = &config.path;
    let level = if config.synchronous_full { 2_i64 } else { 1 };
    let set = || {
        connection.pragma_update(None, "page_size", PAGE_BYTES)?;
        let journal: String =
            connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
        connection.pragma_update(None, "synchronous", level)?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        connection.pragma_update(None, "journal_size_limit", LOG_BYTES_KEPT)?;
        connection.execute_batch(
            "PRAGMA cache_size = -16384; PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = OFF;
             PRAGMA secure_delete = FAST;",
        )?;
        let proved: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0))?;
        Ok((journal, proved))
    };
    let (journal, proved) = set().map_err(|error| explain(path, error))?;
    let problem = if journal != "wal" {
        format!("journal_mode is {journal} where wal was asked for")
    } else if proved != level {
        format!("synchronous is {proved} where {level} was asked for")
    } else {
        return Ok(());
    };
    Err(OpenError::Unsafe { path: path.clone(), problem })
}

/// The error of the database, for the operator.
pub(super) fn explain(path: &Path, source: rusqlite::Error) -> OpenError {
    let path = path.to_owned();
    match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenError::Foreign(path),
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            let source = io::Error::new(io::ErrorKind::PermissionDenied, source);
            OpenError::Directory { path, source }
        }
        _ => OpenError::Database { path, source },
    }
}
