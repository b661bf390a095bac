//! Shared secrets, and the one that a development server creates.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rand::RngCore;
use serde::Deserialize;

/// The default data directory of `heartline dev`, and of the commands that use its secret.
pub const DATA_DIRECTORY: &str = ".heartline";
/// Bytes of randomness in a development secret; it is written as twice as many hexadecimal digits.
const DEV_SECRET_BYTES: usize = 32;
const DEV_SECRET_FILE: &str = "dev_secret";

/// A text that is never shown: its `Debug` form hides it.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Hides a text. Its length is checked when keys are loaded.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

/// Why the development secret cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DevSecretError {
    /// No server has created a secret in this directory.
    #[error("there is no dev secret in {}", .0.display())]
    Missing(PathBuf),
    /// The file does not contain a secret.
    #[error(
        "{} does not hold a secret; remove it, and `heartline dev` makes a new one", .0.display()
    )]
    Damaged(PathBuf),
    /// The file system failed.
    #[error(
        "cannot use {}; check that the disk is writable and the owner is right", path.display()
    )]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// Reads the secret that `heartline dev` created in a data directory.
///
/// # Errors
/// The file is missing, is damaged or cannot be read.
pub fn read_dev_secret(directory: &Path) -> Result<Secret, DevSecretError> {
    let path = directory.join(DEV_SECRET_FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(DevSecretError::Missing(directory.to_owned()));
        }
        Err(source) => return Err(DevSecretError::Io { path, source }),
    };
    let digits = text.trim_end();
    let is_whole = digits.len() == 2 * DEV_SECRET_BYTES;
    if is_whole && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(Secret::new(digits))
    } else {
        Err(DevSecretError::Damaged(path))
    }
}

/// Creates a secret in a data directory, readable by this user alone. The file is written under
/// another name and renamed, so that a crash leaves no half-written secret.
///
/// # Errors
/// The file cannot be written.
pub fn make_dev_secret(
    directory: &Path,
    random: &mut impl RngCore,
) -> Result<Secret, DevSecretError> {
    let path = directory.join(DEV_SECRET_FILE);
    let aside = directory.join(format!("{DEV_SECRET_FILE}.new"));
    let mut bytes = [0; DEV_SECRET_BYTES];
    random.fill_bytes(&mut bytes);
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let write = || {
        let _ = fs::remove_file(&aside);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
        writeln!(file, "{digits}")?;
        file.sync_all()?;
        fs::rename(&aside, &path)
    };
    match write() {
        Ok(()) => Ok(Secret::new(digits)),
        Err(source) => Err(DevSecretError::Io { path, source }),
    }
}
