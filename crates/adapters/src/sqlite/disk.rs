//! The reserve of free space on the disk.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use heartline_durability::{Chain, StoreError};
use heartline_runtime::Clock;
use tokio::time::Instant;

/// How long a measurement of the free space is used.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Keeps a reserve free, so that writes are rejected before the disk is full.
#[derive(Debug)]
pub(super) struct DiskGuard {
    directory: PathBuf,
    reserve_bytes: u64,
    free_bytes: fn(&Path) -> io::Result<u64>,
    looked_at: Option<Instant>,
    refusal: Option<StoreError>,
}

impl DiskGuard {
    /// A guard of the disk of this database.
    pub(super) fn new(database: &Path, reserve_bytes: u64) -> Self {
        Self::with(database, reserve_bytes, free_bytes)
    }

    fn with(database: &Path, reserve_bytes: u64, free_bytes: fn(&Path) -> io::Result<u64>) -> Self {
        let parent = database.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = parent.unwrap_or(Path::new(".")).to_owned();
        Self { directory, reserve_bytes, free_bytes, looked_at: None, refusal: None }
    }

    /// Why writes are rejected now, if they are. If the free space cannot be measured, writes are
    /// allowed.
    pub(super) fn refusal(&mut self, clock: Clock) -> Option<StoreError> {
        let now = clock.now();
        let is_fresh = self.looked_at.is_some_and(|at| now.duration_since(at) < LOOK_INTERVAL);
        if !is_fresh {
            self.looked_at = Some(now);
            self.look();
        }
        self.refusal.clone()
    }

    fn look(&mut self) {
        let free = (self.free_bytes)(&self.directory).unwrap_or(u64::MAX);
        let was_refusing = self.refusal.is_some();
        self.refusal = (free < self.reserve_bytes).then(|| {
            let (directory, reserve) = (self.directory.display(), self.reserve_bytes);
            StoreError::rejected(format!(
                "the disk of {directory} has {free} bytes left, less than the reserve of {reserve}"
            ))
        });
        match (&self.refusal, was_refusing) {
            (Some(refusal), false) => {
                tracing::error!(error = %Chain(refusal), "store writes refused: disk reserve reached");
            }
            (None, true) => tracing::info!(free, "store writes resumed: disk reserve free again"),
            (Some(_), true) | (None, false) => {}
        }
    }
}

fn free_bytes(directory: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(directory)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn writes_are_rejected_until_the_reserve_is_free_again() {
        let database = Path::new("/data/heartline.db");
        let mut guard = DiskGuard::with(database, 100, |_| Ok(99));
        let refusal = guard.refusal(Clock::system()).unwrap();
        let cause = Chain(&refusal).to_string();
        assert!(cause.contains("the disk of /data has 99 bytes left"), "{cause}");

        guard.free_bytes = |_| Ok(100);
        assert!(guard.refusal(Clock::system()).is_some(), "a look counts for a while");
        tokio::time::advance(LOOK_INTERVAL).await;
        assert!(guard.refusal(Clock::system()).is_none());
    }

    #[test]
    fn the_free_space_of_this_disk_can_be_measured() {
        let mut guard = DiskGuard::new(Path::new("heartline.db"), 0);
        assert!(guard.refusal(Clock::system()).is_none());
        assert!(free_bytes(Path::new(".")).unwrap() > 0);
    }
}
