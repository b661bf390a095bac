//! The lock file beside the database: one server at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// How often the lock is tried, and how long to wait in between: a process that was killed a moment
/// ago may not have ended yet, nor a child that it was starting.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// The lock of the store, held until it is dropped. The system releases it also if the process is
/// killed.
#[derive(Debug)]
pub(super) struct StoreLock {
    _file: File,
}

/// Why the lock was not acquired.
#[derive(Debug)]
pub(super) enum LockError {
    /// Another process holds the lock; the text is its own description in the lock file.
    Held(String),
    /// The system returned an error.
    Io(io::Error),
}

/// The path of the lock file of a database.
pub(super) fn lock_path(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

impl StoreLock {
    /// Acquires the lock, or returns its holder.
    pub(super) fn acquire(database: &Path) -> Result<Self, LockError> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(lock_path(database))
            .map_err(LockError::Io)?;
        match try_for_a_while(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                // The description only helps the operator; the lock works without it.
                let is_known = file.read_to_string(&mut owner).is_ok() && !owner.trim().is_empty();
                let owner = if is_known { owner.trim() } else { "an unknown process" };
                return Err(LockError::Held(owner.to_owned()));
            }
            Err(TryLockError::Error(error)) => return Err(LockError::Io(error)),
        }
        let record = |file: &mut File| {
            file.set_len(0)?;
            writeln!(file, "process {}", std::process::id())
        };
        record(&mut file).map_err(LockError::Io)?;
        Ok(Self { _file: file })
    }
}

fn try_for_a_while(file: &File) -> Result<(), TryLockError> {
    for _ in 1..ATTEMPTS {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => sleep(PAUSE),
            decided => return decided,
        }
    }
    file.try_lock()
}
