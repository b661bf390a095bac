//! A description of the machine, and the check of its limit of open files.

use std::fs;
use std::thread;

use anyhow::{Result, bail};
use serde::Serialize;

/// The machine on which the figures were measured.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    /// Cores that this process may use.
    pub(super) cores: usize,
    /// The processor's name.
    pub(super) processor: String,
    /// Memory in bytes.
    pub(super) memory_bytes: u64,
    /// The kernel's release.
    pub(super) kernel: String,
}

impl Machine {
    /// Describes this machine. Values that cannot be read are empty.
    pub(super) fn this() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let memory = value_of(&read("/proc/meminfo"), "MemTotal");
        let kibibytes = memory.split_whitespace().next().and_then(|digits| digits.parse().ok());
        Self {
            cores: thread::available_parallelism().map_or(1, usize::from),
            processor: value_of(&read("/proc/cpuinfo"), "model name"),
            memory_bytes: kibibytes.unwrap_or(0_u64) * 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

fn value_of(text: &str, key: &str) -> String {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let mut values = lines.filter(|(name, _)| name.trim() == key);
    values.next().map_or_else(String::new, |(_, value)| value.trim().to_owned())
}

/// Fails if this process may not open enough files for the sockets.
pub(super) fn require_open_files(sockets: usize) -> Result<()> {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let needed = sockets as u64 + 100;
    match soft_open_files(&limits) {
        Some(limit) if limit < needed => bail!(
            "{sockets} sockets need {needed} open files, but this process may have {limit}: \
             run `ulimit -n {needed}` first, or lower -n"
        ),
        _ => Ok(()),
    }
}

fn soft_open_files(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_the_first_number() {
        let limits =
            "Limit  Soft Limit  Hard Limit  Units\nMax open files    1024   4096   files\n";
        assert_eq!(soft_open_files(limits), Some(1024));
        assert_eq!(soft_open_files("Max open files  unlimited unlimited files"), None);
    }

    #[test]
    fn the_error_of_a_run_beyond_the_limit_names_ulimit() {
        let error = require_open_files(usize::MAX / 4).unwrap_err().to_string();
        assert!(error.contains("ulimit -n"), "{error}");
        require_open_files(1).unwrap();
    }

    #[test]
    fn values_are_found_by_their_whole_key() {
        assert_eq!(value_of("MemTotalX: 1\nMemTotal:   7 kB\n", "MemTotal"), "7 kB");
        assert_eq!(value_of("", "MemTotal"), "");
    }
}
