//! A node's own directory: its lock, and the secret that `heartline dev` makes for itself.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rand::TryRngCore;
use rand::rngs::OsRng;

use crate::config::{Layer, Secret};

/// Where `heartline dev`, `token` and `connect` look unless told otherwise.
pub const DATA_DIRECTORY: &str = ".heartline";
/// Bytes of randomness in the secret; it is written as twice as many hexadecimal digits.
const SECRET_BYTES: usize = 32;
const SECRET_FILE: &str = "dev_secret";
const LOCK_FILE: &str = "lock";

/// A directory that could not be taken, in a sentence for the operator.
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
        /// Who holds it, as it wrote itself into the lock file.
        owner: String,
    },
    /// The secret is not what `dev` wrote.
    #[error(
        "{} does not hold a secret; remove it, and `heartline dev` makes a new one", .0.display()
    )]
    BadSecret(PathBuf),
    /// There is no secret yet.
    #[error("there is no dev secret in {}", .0.display())]
    NoSecret(PathBuf),
    /// The machine refused.
    #[error(
        "cannot use {}; check that the disk is writable and the owner is right", path.display()
    )]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A node's own directory, locked for as long as this value lives.
#[derive(Debug)]
pub struct DataDirectory {
    path: PathBuf,
    /// Closing the file releases the lock, also when the process is killed.
    _lock: File,
}

impl DataDirectory {
    /// Takes a directory: makes it for this user alone if it is missing, and locks it.
    ///
    /// # Errors
    /// Another process has it, or the disk refuses.
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
                // Who it is only helps; the lock itself is what counts.
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

    /// The secret for development; the first call makes it.
    ///
    /// # Errors
    /// The file holds something else, or the disk refuses.
    pub fn dev_secret(&self) -> Result<Secret, DirectoryError> {
        match read_dev_secret(&self.path) {
            Err(DirectoryError::NoSecret(_)) => self.make_secret(),
            other => other,
        }
    }

    /// Written aside and renamed, so that a crash leaves no half of a secret.
    fn make_secret(&self) -> Result<Secret, DirectoryError> {
        let path = self.path.join(SECRET_FILE);
        let aside = self.path.join(format!("{SECRET_FILE}.new"));
        let make = || {
            let mut bytes = [0; SECRET_BYTES];
            OsRng.try_fill_bytes(&mut bytes).map_err(io::Error::other)?;
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let _ = fs::remove_file(&aside);
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
            writeln!(file, "{digits}")?;
            file.sync_all()?;
            fs::rename(&aside, &path)?;
            Ok(Secret::new(digits))
        };
        make().map_err(|source| DirectoryError::Io { path: path.clone(), source })
    }
}

/// The secret that `heartline dev` made in a directory, for commands that speak to it.
///
/// # Errors
/// There is none, it is not one, or it cannot be read.
pub fn read_dev_secret(directory: &Path) -> Result<Secret, DirectoryError> {
    let path = directory.join(SECRET_FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(DirectoryError::NoSecret(directory.to_owned()));
        }
        Err(source) => return Err(DirectoryError::Io { path, source }),
    };
    let digits = text.trim_end();
    let is_whole = digits.len() == 2 * SECRET_BYTES;
    if is_whole && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(Secret::new(digits.to_owned()))
    } else {
        Err(DirectoryError::BadSecret(path))
    }
}

/// What `heartline dev` sets before the file and the environment are asked.
pub fn dev_preset(directory: &DataDirectory, secret: &Secret) -> Layer {
    let path = directory.path().display().to_string();
    Layer::default()
        .with("dev", "server", "data_dir", &path)
        .with("dev", "auth", "hmac_secret", secret.expose())
        .with("dev", "presence", "default_visibility", "everyone")
        .with("dev", "metrics", "listen", "main")
        .with("dev", "log", "format", "text")
        // Who develops an application wants to know why its token was refused.
        .with("dev", "log", "level", "info,heartline_gateway::accept=debug")
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::PermissionsExt;

    use heartline_protocol::rest::Visibility;

    use super::*;
    use crate::config::{Disk, MetricsListen, Sources, load};

    /// An empty directory of one test's own, removed with it.
    pub(crate) struct Scratch(PathBuf);

    impl Scratch {
        pub(crate) fn new() -> Self {
            let name = format!("heartline-test-{:032x}", rand::random::<u128>());
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
        assert_eq!((mode(&path), mode(&path.join(SECRET_FILE))), (0o700, 0o600));
    }

    #[test]
    fn a_second_server_is_told_who_has_the_directory() {
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
        fs::write(scratch.path().join(SECRET_FILE), "short").unwrap();
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
