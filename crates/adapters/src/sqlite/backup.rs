//! Backup of the store, also while a server uses it, and restore, while no server does.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::check::{self, Thoroughness};
use super::open::{OpenError, acquire_lock, open_reader};
use super::schema::{self, Origin, VERSION};

/// Why a backup failed, for the operator.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The file exists already.
    #[error("{} exists already; choose another name, or replace it with --force", .0.display())]
    Exists(PathBuf),
    /// The copy could not be written.
    #[error("the copy could not be written to {}: {source}", path.display())]
    Copy {
        /// The file.
        path: PathBuf,
        /// The error of the database.
        source: rusqlite::Error,
    },
    /// The copy could not be synced or renamed.
    #[error("the copy could not be written to {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The copy is damaged, and was removed.
    #[error(
        "the copy is damaged, and so may be the store: {0}; run `heartline store check --full`"
    )]
    Damaged(String),
}

/// Why a restore failed, for the operator.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// A server uses the store, or its directory cannot be written to.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// A store exists already.
    #[error(
        "there is a store at {} already; move it away, or replace it with --force", .0.display()
    )]
    Exists(PathBuf),
    /// The file is not a backup of a store.
    #[error("{} cannot be restored: {problem}", path.display())]
    Unusable {
        /// The backup.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// The store could not be written.
    #[error("the store could not be written to {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// The path to which a copy is written before it is complete.
pub fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".incomplete");
    name.into()
}

/// Copies a snapshot of the store, while a server may be writing. The copy gets its name only when
/// it is complete, checked and synced.
///
/// # Errors The store cannot be read, the file exists already, or the copy is damaged.
pub fn back_up(store: &Path, file: &Path, may_replace: bool) -> Result<(), BackupError> {
    let failed = |source| BackupError::Io { path: file.to_owned(), source };
    if file.exists() && !may_replace {
        return Err(BackupError::Exists(file.to_owned()));
    }
    let connection = open_reader(store)?;
    let partial = unfinished(file);
    remove(&partial).map_err(failed)?;
    let name = partial.to_string_lossy();
    connection
        .execute("VACUUM INTO ?1", [name.as_ref()])
        .map_err(|source| BackupError::Copy { path: file.to_owned(), source })?;
    let faults = faults_of(&partial);
    if !faults.is_empty() {
        remove(&partial).map_err(failed)?;
        return Err(BackupError::Damaged(faults.join("; ")));
    }
    keep(&partial, file).map_err(failed)
}

/// Replaces the store with a backup, while no server uses it. The backup is only read, and the
/// store gets its name when it is complete, so an interrupted restore can be repeated.
///
/// # Errors A server uses the store, a store exists already, or the file is not a backup.
pub fn restore(store: &Path, file: &Path, may_replace: bool) -> Result<(), RestoreError> {
    let failed = |source| RestoreError::Io { path: store.to_owned(), source };
    let unusable = |problem: String| RestoreError::Unusable { path: file.to_owned(), problem };
    if !file.exists() {
        return Err(unusable("there is no such file".to_owned()));
    }
    let _lock = acquire_lock(store)?;
    if store.exists() && !may_replace {
        return Err(RestoreError::Exists(store.to_owned()));
    }
    let partial = unfinished(store);
    copy(file, &partial).map_err(failed)?;
    let faults = faults_of(&partial);
    if !faults.is_empty() {
        remove(&partial).map_err(failed)?;
        return Err(unusable(faults.join("; ")));
    }
    // The old write-ahead log must be removed first: SQLite would apply it to the new database.
    for suffix in ["-wal", "-shm"] {
        let mut name = store.as_os_str().to_owned();
        name.push(suffix);
        remove(Path::new(&name)).map_err(failed)?;
    }
    keep(&partial, store).map_err(failed)
}

/// The problems of a copy: not a store, of another version, or damaged.
fn faults_of(path: &Path) -> Vec<String> {
    let look = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        match schema::origin(&connection)? {
            Origin::Heartline(version) if version > VERSION => {
                let sentence = format!("it has schema {version}, newer than this Heartline");
                return Ok(vec![sentence]);
            }
            Origin::Heartline(_) => {}
            Origin::Empty | Origin::Foreign => {
                return Ok(vec!["it is not a Heartline store".to_owned()]);
            }
        }
        check::faults(&connection, Thoroughness::Quick)
    };
    look().unwrap_or_else(|error: rusqlite::Error| vec![error.to_string()])
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    remove(to)?;
    let mut source = File::open(from)?;
    let mut target = OpenOptions::new().write(true).create_new(true).open(to)?;
    io::copy(&mut source, &mut target).map(|_| ())
}

/// Syncs a file and its new name to the disk.
fn keep(partial: &Path, path: &Path) -> io::Result<()> {
    File::open(partial)?.sync_all()?;
    fs::rename(partial, path)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
