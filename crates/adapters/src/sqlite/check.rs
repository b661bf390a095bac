//! Whether the file is whole: looked at beside serving after an unclean stop, and on demand.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use rusqlite::{Connection, ErrorCode, InterruptHandle, OptionalExtension};

use super::open::{OpenError, explain, open_reader};

/// Faults that are told; more of them say nothing new.
const FAULTS_MAX: usize = 20;

/// How thorough a check is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thoroughness {
    /// The structure of every table: what an unclean stop or a bad disk breaks.
    Quick,
    /// Also that every index agrees with its table.
    Full,
}

/// Looks at a whole store, also while a server uses it. Answers what is wrong, or nothing.
///
/// # Errors
/// There is no store, or it cannot be read at all.
pub fn check_store(path: &Path, thoroughness: Thoroughness) -> Result<Vec<String>, OpenError> {
    let connection = open_reader(path)?;
    faults(&connection, thoroughness).map_err(|error| explain(path, error))
}

/// What is wrong with the file behind a connection.
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
        // Some damage ends the look itself.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
            Ok(vec![error.to_string()])
        }
        Err(error) => Err(error),
    }
}

/// What is known of the file's soundness, shared by the check and the writer.
#[derive(Debug, Default)]
pub(super) struct Health {
    damage: OnceLock<String>,
    is_unchecked: AtomicBool,
}

impl Health {
    /// Of a file that must be checked before it is trusted, or need not.
    pub(super) fn new(is_unchecked: bool) -> Self {
        Self { damage: OnceLock::new(), is_unchecked: AtomicBool::new(is_unchecked) }
    }

    /// What was found to be wrong, if anything.
    pub(super) fn damage(&self) -> Option<&str> {
        self.damage.get().map(String::as_str)
    }

    /// Whether the next start can do without a check.
    pub(super) fn is_trusted(&self) -> bool {
        self.damage.get().is_none() && !self.is_unchecked.load(Ordering::Acquire)
    }
}

/// Marks the store as in use. Answers whether its last use did not end in order.
pub(super) fn mark_open(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT value FROM meta WHERE name = 'is_open'";
    let was_open: Option<bool> = connection.query_row(sql, [], |row| row.get(0)).optional()?;
    connection.execute_batch("INSERT OR REPLACE INTO meta (name, value) VALUES ('is_open', 1)")?;
    Ok(was_open.unwrap_or(false))
}

/// A check that runs beside serving. Dropping it breaks it off.
pub(super) struct BackgroundCheck {
    interrupt: InterruptHandle,
    thread: Option<JoinHandle<()>>,
}

impl BackgroundCheck {
    /// Starts it. If something is found, nothing is written any more.
    pub(super) fn start(connection: Connection, health: Arc<Health>) -> io::Result<Self> {
        let interrupt = connection.get_interrupt_handle();
        let thread = thread::Builder::new()
            .name("sqlite-check".to_owned())
            .spawn(move || look(&connection, &health))?;
        Ok(Self { interrupt, thread: Some(thread) })
    }

    /// Checks on the caller's thread, before anything is served.
    pub(super) fn finish(connection: &Connection, health: &Health) {
        look(connection, health);
    }
}

impl Drop for BackgroundCheck {
    fn drop(&mut self) {
        self.interrupt.interrupt();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was told where it happened.
            let _ = thread.join();
        }
    }
}

fn look(connection: &Connection, health: &Health) {
    tracing::info!("the store did not close in order: it is checked while it serves");
    let found = match faults(connection, Thoroughness::Quick) {
        Ok(faults) if faults.is_empty() => {
            tracing::info!("the store is whole");
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
    // Whoever was first has said enough.
    let _ = health.damage.set(format!("the store is damaged: {found}"));
}
