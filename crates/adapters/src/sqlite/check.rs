//! Checking the file for damage: in the background after an unclean stop, and on demand.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use rusqlite::{Connection, ErrorCode, InterruptHandle, OptionalExtension};

use super::open::{OpenError, explain, open_reader};

/// Faults that are reported at most.
const FAULTS_MAX: usize = 20;

/// How thorough a check is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thoroughness {
    /// Checks the structure of every table, which an unclean stop or a bad disk may damage.
    Quick,
    /// Also checks that every index agrees with its table.
    Full,
}

/// Checks a store, also while a server uses it. Returns the faults.
///
/// # Errors
/// There is no store, or it cannot be read at all.
pub fn check_store(path: &Path, thoroughness: Thoroughness) -> Result<Vec<String>, OpenError> {
    let connection = open_reader(path)?;
    faults(&connection, thoroughness).map_err(|error| explain(path, error))
}

/// The faults of the file of a connection.
pub(super) fn faults(
    connection: &Connection,
    thoroughness: Thoroughness,
) -> rusqlite::Result<Vec<String>> {
    let pragma = match thoroughness {
        Thoroughness::Quick => "quick_check",
        Thoroughness::Full => "integrity_check",
    };
    let ask = || {
        let mut statement = connection.prepare(&format!("PRAGMA {pragma}({FAULTS_MAX})"))?;
        let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
        lines.collect::<rusqlite::Result<Vec<_>>>()
    };
    match ask() {
        Ok(lines) => Ok(lines.into_iter().filter(|line| line != "ok").collect()),
        // Some damage makes the check itself fail.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
            Ok(vec![error.to_string()])
        }
        Err(error) => Err(error),
    }
}

/// The result of the check, shared with the writer.
#[derive(Debug, Default)]
pub(super) struct Health {
    damage: OnceLock<String>,
    is_unchecked: AtomicBool,
}

impl Health {
    /// The health of a file that must be checked, or need not be.
    pub(super) fn new(is_unchecked: bool) -> Self {
        Self { damage: OnceLock::new(), is_unchecked: AtomicBool::new(is_unchecked) }
    }

    /// The damage that was found, if any.
    pub(super) fn damage(&self) -> Option<&str> {
        self.damage.get().map(String::as_str)
    }

    /// Whether the next start needs no check.
    pub(super) fn is_trusted(&self) -> bool {
        self.damage.get().is_none() && !self.is_unchecked.load(Ordering::Acquire)
    }
}

/// Marks the store as in use. Returns whether it was not closed cleanly before.
pub(super) fn mark_open(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT value FROM meta WHERE name = 'is_open'";
    let was_open: Option<bool> = connection.query_row(sql, [], |row| row.get(0)).optional()?;
    connection.execute_batch("INSERT OR REPLACE INTO meta (name, value) VALUES ('is_open', 1)")?;
    Ok(was_open.unwrap_or(false))
}

/// A check in the background. Dropping it interrupts the check.
pub(super) struct BackgroundCheck {
    interrupt: InterruptHandle,
    thread: Option<JoinHandle<()>>,
}

impl BackgroundCheck {
    /// Starts the check. If it finds damage, the store rejects writes.
    pub(super) fn start(connection: Connection, health: Arc<Health>) -> io::Result<Self> {
        let interrupt = connection.get_interrupt_handle();
        let thread = thread::Builder::new()
            .name("sqlite-check".to_owned())
            .spawn(move || look(&connection, &health))?;
        Ok(Self { interrupt, thread: Some(thread) })
    }

    /// Checks on the caller's thread.
    pub(super) fn finish(connection: &Connection, health: &Health) {
        look(connection, health);
    }
}

impl Drop for BackgroundCheck {
    fn drop(&mut self) {
        self.interrupt.interrupt();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed where it happened.
            let _ = thread.join();
        }
    }
}

fn look(connection: &Connection, health: &Health) {
    tracing::info!("store was not closed cleanly: checking it in the background");
    let found = match faults(connection, Thoroughness::Quick) {
        Ok(faults) if faults.is_empty() => {
            tracing::info!("store checked: no damage found");
            health.is_unchecked.store(false, Ordering::Release);
            return;
        }
        Ok(faults) => faults.join("; "),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
            return;
        }
        Err(error) => error.to_string(),
    };
    tracing::error!(found, "the store is damaged: writes stop; restore a backup");
    // The first finding is kept.
    let _ = health.damage.set(format!("the store is damaged: {found}"));
}
