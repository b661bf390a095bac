//! The processes of an engine, from `/proc`.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// The child processes that still exist.
pub(crate) fn children_of(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    children.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// Sends a signal to each process; ignores those that have ended.
pub(crate) fn signal(pids: &[u32], signal: Signal) {
    for pid in pids {
        let pid = i32::try_from(*pid).ok().and_then(Pid::from_raw);
        // The call fails if the process has ended meanwhile.
        let _ = pid.map(|pid| kill_process(pid, signal));
    }
}

/// Whether a process exists and is not a zombie.
pub(crate) fn is_running(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The state follows the name, which is in parentheses and may contain any character.
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
    !matches!(state, Some('Z' | 'X'))
}
