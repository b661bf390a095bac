//! The configuration of the SQLite store.

use std::path::{Path, PathBuf};

/// The default name of the database file in the data directory.
pub const DATABASE_FILE: &str = "heartline.db";

/// The default reserve of free space on the disk.
pub const DISK_RESERVE_BYTES: u64 = 64 * 1024 * 1024;

const EXPECTED: &str = "expected sqlite:PATH, or sqlite:PATH?synchronous=full";

/// The configuration of a SQLite store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqliteConfig {
    /// The database file; its directory must exist.
    pub path: PathBuf,
    /// Whether every commit is synced to the disk. False loses acknowledged messages when the power
    /// fails, and is rejected unless `allow_unsafe`.
    pub synchronous_full: bool,
    /// Whether the operator accepts that acknowledged messages may be lost.
    pub allow_unsafe: bool,
    /// Writes are rejected while the disk has less free space than this.
    pub disk_reserve_bytes: u64,
    /// The number of reading threads.
    pub readers: usize,
    /// The threads on which the store runs.
    pub execution: Execution,
}

/// The threads on which a store runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Execution {
    /// Threads of the store, so that no task blocks on the disk.
    Threads,
    /// The calling task. For simulated time, which would jump ahead while a thread of the store
    /// works; this blocks the runtime, so no server uses it.
    Inline,
}

/// An invalid URL of a SQLite store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{url:?} is not the URL of a SQLite store: {problem}")]
pub struct UrlError {
    /// The URL.
    pub url: String,
    /// The problem, and what is expected.
    pub problem: String,
}

impl SqliteConfig {
    /// A store at this path with the safe defaults.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            synchronous_full: true,
            allow_unsafe: false,
            disk_reserve_bytes: DISK_RESERVE_BYTES,
            readers: 3,
            execution: Execution::Threads,
        }
    }

    /// The store of a data directory.
    pub fn in_directory(data_dir: &Path) -> Self {
        Self::new(data_dir.join(DATABASE_FILE))
    }

    /// Reads `sqlite:PATH?synchronous=full|normal`. A relative path lies in the data directory.
    ///
    /// # Errors The URL has another scheme, no path, or an unknown parameter.
    pub fn from_url(url: &str, data_dir: &Path) -> Result<Self, UrlError> {
        let wrong = |problem: String| UrlError { url: url.to_owned(), problem };
        let rest = url.strip_prefix("sqlite:").ok_or_else(|| wrong(EXPECTED.to_owned()))?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        // Three slashes are an empty host and an absolute path; two would name a host.
        let path = match path.strip_prefix("//") {
            Some(absolute) if absolute.starts_with('/') => absolute,
            Some(_) => return Err(wrong(format!("a file has no host; {EXPECTED}"))),
            None => path,
        };
        match path {
            "" => return Err(wrong(format!("it names no file; {EXPECTED}"))),
            ":memory:" => return Err(wrong("a store in memory keeps nothing".to_owned())),
            _ => {}
        }
        let mut config = Self::new(data_dir.join(path));
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("synchronous", "full")) => config.synchronous_full = true,
                Some(("synchronous", "normal")) => config.synchronous_full = false,
                Some(("synchronous", _)) => {
                    return Err(wrong("synchronous must be full or normal".to_owned()));
                }
                _ => {
                    let sentence = format!("it has no parameter {parameter:?}; {EXPECTED}");
                    return Err(wrong(sentence));
                }
            }
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<SqliteConfig, String> {
        SqliteConfig::from_url(url, Path::new("/data")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_relative_path_lies_in_the_data_directory() {
        assert_eq!(read("sqlite:heartline.db"), Ok(SqliteConfig::new("/data/heartline.db")));
        assert_eq!(read("sqlite:/var/chat.db"), Ok(SqliteConfig::new("/var/chat.db")));
        assert_eq!(read("sqlite:///var/chat.db"), Ok(SqliteConfig::new("/var/chat.db")));
    }

    #[test]
    fn synchronous_can_be_set() {
        assert!(read("sqlite:a.db?synchronous=full").unwrap().synchronous_full);
        assert!(!read("sqlite:a.db?synchronous=normal").unwrap().synchronous_full);
    }

    #[test]
    fn an_invalid_url_is_explained() {
        let table = [
            ("postgres://x", "expected sqlite:PATH"),
            ("sqlite:", "it names no file"),
            ("sqlite:?synchronous=full", "it names no file"),
            ("sqlite://host/x", "a file has no host"),
            ("sqlite::memory:", "keeps nothing"),
            ("sqlite:a.db?synchronous=off", "synchronous must be full or normal"),
            ("sqlite:a.db?mode=ro", "it has no parameter \"mode=ro\""),
        ];
        for (url, expected) in table {
            let refusal = read(url).unwrap_err();
            assert!(refusal.contains(expected) && refusal.contains(url), "{refusal}");
        }
    }
}
