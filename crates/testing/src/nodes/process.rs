//! The sockets, memory and state of a server's process, from `/proc`.

use crate::Server;

impl Server {
    /// The number of open sockets of the process.
    pub fn open_sockets(&self) -> usize {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap();
        let is_socket = |file: &std::fs::DirEntry| {
            std::fs::read_link(file.path())
                .is_ok_and(|link| link.to_string_lossy().starts_with("socket:"))
        };
        files.filter_map(Result::ok).filter(is_socket).count()
    }

    /// The resident memory of the process.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
        kib * 1024
    }
}

/// Whether every thread of a process is stopped; the effect of a signal may be delayed.
pub fn is_stopped(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads.filter_map(Result::ok).all(|thread| {
        let state = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The state follows the name, which is in parentheses and may contain any character.
        state.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
    })
}
