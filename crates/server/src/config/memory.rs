//! The memory that this process may use: the limit of its control groups, else the machine's
//! memory.

use std::path::Path;

/// The memory that is assumed if nothing can be read.
const MEMORY_BYTES_FALLBACK: u64 = 1024 * 1024 * 1024;

/// The bytes of memory that this process may use.
pub fn process_memory() -> u64 {
    memory(&|path| std::fs::read_to_string(path).ok())
}

/// The smallest of the machine's memory and the limits of all control groups around the process.
/// `read` returns the text of a file.
fn memory(read: &dyn Fn(&str) -> Option<String>) -> u64 {
    let machine = read("/proc/meminfo").and_then(|text| parse_machine(&text));
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    let files = groups.lines().flat_map(limit_files);
    let limits = files.filter_map(|file| read(&file)).filter_map(|text| parse_limit(&text));
    limits.chain(machine).min().unwrap_or(MEMORY_BYTES_FALLBACK)
}

/// The files that may hold the limits of one line of `/proc/self/cgroup`: the group's own and
/// those of the groups around it. In a container only the outermost may be visible.
fn limit_files(line: &str) -> Vec<String> {
    let mut parts = line.splitn(3, ':');
    let (root, file) = match (parts.next(), parts.next()) {
        (Some("0"), Some("")) => ("/sys/fs/cgroup", "memory.max"),
        (Some(_), Some(controllers)) if controllers.split(',').any(|name| name == "memory") => {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    let group = Path::new(parts.next().unwrap_or("/").trim());
    group
        .ancestors()
        .map(|ancestor| {
            format!("{root}{}/{file}", ancestor.display().to_string().trim_end_matches('/'))
        })
        .collect()
}

/// A limit in bytes; version 2 writes `max` and version 1 a huge number where there is none.
fn parse_limit(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// The total in `/proc/meminfo`, which counts in KiB.
fn parse_machine(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: (&str, &str) = ("/proc/meminfo", "MemTotal:   8192 kB\nMemFree:   1 kB\n");

    fn memory_of(files: &[(&str, &str)]) -> u64 {
        memory(&|path| {
            files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn without_control_groups_it_is_the_machines_memory() {
        assert_eq!(memory_of(&[MEMINFO]), 8192 * 1024);
    }

    #[test]
    fn the_tightest_group_around_the_process_decides() {
        let files = [
            MEMINFO,
            ("/proc/self/cgroup", "0::/system.slice/heartline.service\n"),
            ("/sys/fs/cgroup/system.slice/heartline.service/memory.max", "max\n"),
            ("/sys/fs/cgroup/system.slice/memory.max", "4194304\n"),
        ];
        assert_eq!(memory_of(&files), 4_194_304);
    }

    #[test]
    fn a_container_sees_its_limit_at_the_root() {
        let files =
            [MEMINFO, ("/proc/self/cgroup", "0::/\n"), ("/sys/fs/cgroup/memory.max", "2097152\n")];
        assert_eq!(memory_of(&files), 2_097_152);
    }

    #[test]
    fn version_one_is_read_and_its_no_limit_is_none() {
        let group = ("/proc/self/cgroup", "5:cpu,memory:/docker/abc\n1:name=systemd:/x\n");
        let file = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
        assert_eq!(memory_of(&[MEMINFO, group, (file, "1048576\n")]), 1_048_576);
        assert_eq!(memory_of(&[MEMINFO, group, (file, "9223372036854771712\n")]), 8192 * 1024);
    }

    #[test]
    fn where_nothing_can_be_read_a_gibibyte_is_assumed() {
        assert_eq!(memory_of(&[]), MEMORY_BYTES_FALLBACK);
    }
}
