//! The embedded store: one SQLite file, one thread that writes it, a few that read beside it.
//!
//! Every commit is synced to the disk before its callers get their results. Writes that wait at the
//! same time are committed together, so that one sync serves many of them.

mod append;
mod backup;
mod chats;
mod check;
mod checkpoint;
mod companions;
mod config;
mod contacts;
mod counters;
mod create;
mod disk;
mod edit;
mod error;
mod forget;
mod job;
mod keys;
mod lock;
mod open;
mod pages;
mod party_archive;
mod party_store;
mod people;
mod ports;
mod publish;
mod readers;
mod repair;
mod rows;
mod schema;
mod write_transaction;
mod writer;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, OnceLock};

use heartline_runtime::{Clock, Random};

pub use backup::{BackupError, RestoreError, back_up, restore, unfinished};
pub use check::{Thoroughness, check_store};
pub use config::{DATABASE_FILE, DISK_RESERVE_BYTES, Execution, SqliteConfig, UrlError};
pub use counters::SqliteCounters;
pub use open::OpenError;
pub use party_store::{SESSION_TTL, SqlitePartyStore};

use check::{BackgroundCheck, Health};
use checkpoint::Checkpointer;
use disk::DiskGuard;
use lock::StoreLock;
use party_store::LiveSessions;
use readers::Readers;
use writer::{Writer, WriterParts};

/// The embedded store. Clones share it; dropping the last one finishes the waiting writes and
/// closes the file cleanly.
#[derive(Clone)]
pub struct SqliteStore(Arc<Inner>);

/// The fields are dropped in this order: reads end, the check is interrupted, the waiting writes
/// are finished, and only then is the lock released.
struct Inner {
    readers: Readers,
    _check: Option<BackgroundCheck>,
    writer: Writer,
    clock: Clock,
    counters: SqliteCounters,
    health: Arc<Health>,
    /// The live party sessions, shared by the nodes of this process; set on first use.
    party: OnceLock<Arc<LiveSessions>>,
    _lock: StoreLock,
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SqliteStore")
            .field("health", &self.0.health)
            .finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the store, and creates it if there is none.
    ///
    /// # Errors The store cannot be opened; the error says why, and what to do.
    pub fn open(config: &SqliteConfig, clock: Clock, random: Random) -> Result<Self, OpenError> {
        let path = &config.path;
        let (lock, connection) = open::open_writer(config)?;
        let was_open = check::mark_open(&connection).map_err(|error| open::explain(path, error))?;
        let counters = SqliteCounters::default();
        let health = Arc::new(Health::new(was_open));
        let no_thread = |source| OpenError::Directory { path: path.clone(), source };
        let is_inline = config.execution == Execution::Inline;
        let check = match was_open {
            true if is_inline => {
                BackgroundCheck::finish(&open::open_reader(path)?, &health);
                None
            }
            true => {
                let connection = open::open_reader(path)?;
                let check = BackgroundCheck::start(connection, Arc::clone(&health));
                Some(check.map_err(no_thread)?)
            }
            false => None,
        };
        let readers = if is_inline {
            Readers::inline(open::open_reader(path)?)
        } else {
            let readers = (0..config.readers.max(1)).map(|_| open::open_reader(path));
            Readers::start(readers.collect::<Result<_, _>>()?).map_err(no_thread)?
        };
        let disk = DiskGuard::new(path, config.disk_reserve_bytes);
        let beside = open::open_beside(path)?;
        let checkpointer = if is_inline {
            Checkpointer::inline(beside)
        } else {
            Checkpointer::start(beside).map_err(no_thread)?
        };
        let parts = WriterParts {
            checkpointer,
            connection,
            clock,
            random,
            disk,
            counters: counters.clone(),
            health: Arc::clone(&health),
        };
        let writer = if is_inline {
            Writer::inline(parts)
        } else {
            Writer::start(parts).map_err(no_thread)?
        };
        let party = OnceLock::new();
        let inner =
            Inner { readers, _check: check, writer, clock, counters, health, party, _lock: lock };
        Ok(Self(Arc::new(inner)))
    }

    /// Finishes the waiting writes and closes the file cleanly. Later writes are rejected.
    pub async fn close(&self) {
        self.0.writer.close().await;
    }

    /// The counters of the store; clones share them.
    pub fn counters(&self) -> SqliteCounters {
        self.0.counters.clone()
    }

    /// The damage that the check after an unclean stop has found, if any. A damaged store rejects
    /// writes.
    pub fn damage(&self) -> Option<&str> {
        self.0.health.damage()
    }
}
