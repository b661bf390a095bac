//! Processes of an engine, as Linux shows them.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// The processes that this one has started and that are still there.
pub(crate) fn children_of(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    children.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// Sends a signal to each, passing over those that are gone.
pub(crate) fn signal(pids: &[u32], signal: Signal) {
    for pid in pids {
        let pid = i32::try_from(*pid).ok().and_then(Pid::from_raw);
        // One that has ended meanwhile needs no signal.
        let _ = pid.map(|pid| kill_process(pid, signal));
    }
}

/// Whether a process is there and not merely waiting for its parent to notice its end.
pub(crate) fn is_running(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The state follows the name, which is in parentheses and may hold anything.
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
    !matches!(state, Some('Z' | 'X'))
}
