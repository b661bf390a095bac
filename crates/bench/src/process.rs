//! CPU time and resident memory of a process, from `/proc`.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// The kernel's unit of CPU time in `/proc`, the same on every Linux architecture.
const TICK: Duration = Duration::from_millis(10);

/// The resource usage of a process so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// User and system time of all its threads, including those that have ended.
    pub(super) cpu: Duration,
    /// Resident memory, in bytes.
    pub(super) rss_bytes: u64,
}

impl Usage {
    /// Reads the usage of a process on this machine.
    pub(super) fn of(pid: u32) -> Result<Self> {
        let read = |name: &str| {
            let path = format!("/proc/{pid}/{name}");
            fs::read_to_string(&path).with_context(|| {
                format!("cannot read {path}: the server has ended, or this is not Linux")
            })
        };
        Ok(Self {
            cpu: parse_cpu(&read("stat")?).context("/proc/PID/stat has an unknown format")?,
            rss_bytes: parse_rss(&read("status")?).context("the server has ended")?,
        })
    }
}

/// The sum of `utime` and `stime`. The command name is in parentheses and may contain any
/// character, so fields are counted from the last closing parenthesis.
fn parse_cpu(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    Some(TICK * user.checked_add(system)?)
}

fn parse_rss(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_read_past_a_name_with_spaces_and_parentheses() {
        let stat = "12 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20 0";
        assert_eq!(parse_cpu(stat), Some(Duration::from_millis(1750)));
        assert_eq!(parse_cpu("garbage"), None);
    }

    #[test]
    fn resident_memory_is_read_in_bytes() {
        assert_eq!(parse_rss("VmHWM:\t  9 kB\nVmRSS:\t    2048 kB\n"), Some(2 * 1024 * 1024));
        assert_eq!(parse_rss("VmHWM:\t  9 kB\n"), None);
    }

    #[test]
    fn the_usage_of_this_process_is_read() {
        assert!(Usage::of(std::process::id()).unwrap().rss_bytes > 0);
    }
}
