//! A node's own data directory and its lock; the preset of `heartline dev`.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use heartline_auth::{DevSecretError, Secret, make_dev_secret, read_dev_secret};
use heartline_runtime::Random;

use crate::config::Layer;

const LOCK_FILE: &str = "lock";

/// The data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// Another process holds the lock.
    #[error(
        "another Heartline ({owner}) already runs on the data directory {}; stop it, or choose \
         another directory with server.data_dir (--data-dir of `heartline dev`)", path.display()
    )]
    Locked {
        /// The directory.
        path: PathBuf,
        /// The process that holds the lock, as recorded in the lock file.
        owner: String,
    },
    /// The secret cannot be used.
    #[error(transparent)]
    Secret(#[from] DevSecretError),
    /// The file or directory cannot be read or written.
    #[error(
        "cannot use {}; check that the disk is writable and the owner is right", path.display()
    )]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// The data directory of a node, locked until this value is dropped.
#[derive(Debug)]
pub struct DataDirectory {
    path: PathBuf,
    /// Closing the file releases the lock, also when the process is killed.
    _lock: File,
}

impl DataDirectory {
    /// Opens a directory and locks it; creates it with access for this user only if it is missing.
    ///
    /// # Errors
    /// Another process has locked the directory, or the disk refuses.
    pub fn open(path: &Path) -> Result<Self, DirectoryError> {
        let failed = |source| DirectoryError::Io { path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join(LOCK_FILE))
            .map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                // The name of the owner is only for the message; the lock decides.
                let is_known = lock.read_to_string(&mut owner).is_ok() && !owner.trim().is_empty();
                let owner = if is_known { owner.trim() } else { "unknown process" }.to_owned();
                return Err(DirectoryError::Locked { path: path.to_owned(), owner });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let record = |lock: &mut File| {
            lock.set_len(0)?;
            writeln!(lock, "process {}", std::process::id())
        };
        record(&mut lock).map_err(failed)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// The directory's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The secret for development; the first call creates it.
    ///
    /// # Errors
    /// The file holds something else, or the disk refuses.
    pub fn dev_secret(&self) -> Result<Secret, DirectoryError> {
        match read_dev_secret(&self.path) {
            Err(DevSecretError::Missing(_)) => {
                Ok(make_dev_secret(&self.path, &mut Random::system())?)
            }
            other => Ok(other?),
        }
    }
}

/// The settings of `heartline dev`, below those of the file and the environment.
pub fn dev_preset(directory: &DataDirectory, secret: &Secret) -> Layer {
    let path = directory.path().display().to_string();
    Layer::default()
        .with("dev", "server", "data_dir", &path)
        .with("dev", "auth", "hmac_secret", secret.expose())
        .with("dev", "presence", "default_visibility", "everyone")
        .with("dev", "metrics", "listen", "main")
        .with("dev", "log", "format", "text")
        // Developers of an application need the reason when a token is refused.
        .with("dev", "log", "level", "info,heartline_gateway::accept=debug")
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use heartline_protocol::rest::Visibility;

    use super::*;
    use crate::config::{Disk, MetricsListen, Sources, load};

    /// An empty directory for one test, removed on drop.
    pub(crate) struct Scratch(PathBuf);

    impl Scratch {
        pub(crate) fn new() -> Self {
            let name = format!("heartline-test-{:032x}", Random::system().draw::<u128>());
            let path = std::env::temp_dir().join(name);
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        pub(crate) fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_secret_is_made_once_and_for_this_user_alone() {
        let scratch = Scratch::new();
        let path = scratch.path().join("deep/.heartline");
        let directory = DataDirectory::open(&path).unwrap();
        let secret = directory.dev_secret().unwrap();
        assert_eq!(secret.expose().len(), 64);
        assert_eq!(directory.dev_secret().unwrap(), secret);
        assert_eq!(read_dev_secret(&path).unwrap(), secret);
        assert_eq!((mode(&path), mode(&path.join("dev_secret"))), (0o700, 0o600));
    }

    #[test]
    fn a_second_server_names_the_owner_of_the_directory() {
        let scratch = Scratch::new();
        let path = scratch.path().join("data");
        let first = DataDirectory::open(&path).unwrap();
        let refusal = DataDirectory::open(&path).unwrap_err().to_string();
        assert!(refusal.contains(&path.display().to_string()), "{refusal}");
        assert!(refusal.contains(&format!("process {}", std::process::id())), "{refusal}");
        drop(first);
        DataDirectory::open(&path).unwrap();
    }

    #[test]
    fn a_damaged_secret_is_not_used() {
        let scratch = Scratch::new();
        let directory = DataDirectory::open(scratch.path()).unwrap();
        fs::write(scratch.path().join("dev_secret"), "short").unwrap();
        let refusal = directory.dev_secret().unwrap_err().to_string();
        assert!(refusal.contains("remove it"), "{refusal}");
        assert!(!refusal.contains("short"), "{refusal}");
    }

    #[test]
    fn a_file_in_the_directorys_place_is_refused_with_a_sentence() {
        let scratch = Scratch::new();
        let path = scratch.path().join("file");
        fs::write(&path, "").unwrap();
        let refusal = DataDirectory::open(&path).unwrap_err().to_string();
        assert!(refusal.starts_with(&format!("cannot use {}", path.display())), "{refusal}");
    }

    #[test]
    fn the_preset_is_a_whole_configuration() {
        let scratch = Scratch::new();
        let directory = DataDirectory::open(scratch.path()).unwrap();
        let secret = directory.dev_secret().unwrap();
        let loaded = load(&Sources {
            preset: dev_preset(&directory, &secret),
            file: None,
            environment: Vec::new(),
            arguments: Layer::default(),
            files: &Disk,
        })
        .unwrap();
        assert_eq!(loaded.auth_keys.hmac_secrets, [secret.expose()]);
        assert_eq!(loaded.config.metrics.listen, MetricsListen::Main);
        assert_eq!(loaded.config.presence.default_visibility, Visibility::Everyone);
        assert_eq!(loaded.config.server.data_dir, scratch.path());
        assert!(loaded.warnings.is_empty());
    }
}
