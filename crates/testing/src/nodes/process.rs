//! A server as the operating system knows it.

use crate::Server;

impl Server {
    /// How many sockets the process has open.
    pub fn open_sockets(&self) -> usize {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap();
        let is_socket = |file: &std::fs::DirEntry| {
            std::fs::read_link(file.path())
                .is_ok_and(|link| link.to_string_lossy().starts_with("socket:"))
        };
        files.filter_map(Result::ok).filter(is_socket).count()
    }

    /// How much memory the process has in use.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
        kib * 1024
    }
}

/// Whether every thread of a process stands still: a signal that was sent has not always arrived.
pub fn is_stopped(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads.filter_map(Result::ok).all(|thread| {
        let state = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The state follows the name, which is in brackets and may hold anything.
        state.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
    })
}
