//! Writes sessions to the archive: the newest state of each, once it has not changed for a while,
//! and at the latest a minute after it changed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use heartline_runtime::Clock;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::room::archive::{Archived, PartyArchive};
use crate::room::metrics::PartyMetrics;
use crate::room::store::Revision;
use crate::value::session::PartySession;

/// The longest delay of a session that keeps changing.
const BUSY_MAX: Duration = Duration::from_secs(60);

/// The interval between checks for due sessions.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Sessions of one write.
const BATCH: usize = 64;

/// The most sessions in the queue. Beyond it, a changed session is not queued until it changes
/// again; so many wait only if the archive fails for long.
const PENDING_MAX: usize = 100_000;

/// The pause after a failed write: the first, and the longest.
const BACK_OFF: Duration = Duration::from_secs(1);
const BACK_OFF_MAX: Duration = Duration::from_secs(30);

/// How soon a session must be archived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// Once it has not changed for a while.
    Soon,
    /// At once: it is new, has lost its last member, or has ended.
    Now,
}

/// The queue of sessions to archive, and the task that writes them.
#[derive(Debug)]
pub(crate) struct Archivist {
    archive: Arc<dyn PartyArchive>,
    debounce: Duration,
    clock: Clock,
    metrics: PartyMetrics,
    pending: Mutex<BTreeMap<String, Pending>>,
    wake: Notify,
}

#[derive(Debug, Clone)]
struct Pending {
    session: Arc<PartySession>,
    active_at_ms: u64,
    changed_at: Instant,
    waits_since: Instant,
    urgency: Urgency,
}

impl Archivist {
    pub(crate) fn new(
        archive: Arc<dyn PartyArchive>,
        debounce: Duration,
        clock: Clock,
        metrics: PartyMetrics,
    ) -> Self {
        let (pending, wake) = (Mutex::default(), Notify::new());
        Self { archive, debounce, clock, metrics, pending, wake }
    }

    /// Adds a session that has changed to the queue.
    pub(crate) fn enqueue(&self, session: &Arc<PartySession>, active_at_ms: u64, urgency: Urgency) {
        let now = self.clock.now();
        let pending = Pending {
            session: Arc::clone(session),
            active_at_ms,
            changed_at: now,
            waits_since: now,
            urgency,
        };
        self.insert(pending);
        if urgency == Urgency::Now {
            self.wake.notify_one();
        }
    }

    /// Writes due sessions, for ever.
    pub(crate) async fn run(&self) {
        let mut back_off = BACK_OFF;
        loop {
            tokio::select! {
                // An urgent session first: both branches lead to the same write.
                biased;
                () = self.wake.notified() => {}
                () = sleep(CHECK_INTERVAL) => {}
            }
            let due = self.due(|pending, now| {
                pending.urgency == Urgency::Now
                    || now - pending.changed_at >= self.debounce
                    || now - pending.waits_since >= BUSY_MAX
            });
            if self.write(due).await {
                back_off = BACK_OFF;
            } else {
                sleep(back_off).await;
                back_off = (back_off * 2).min(BACK_OFF_MAX);
            }
            self.metrics.archive_age(self.age());
        }
    }

    /// Writes all queued sessions now; returns whether all writes succeeded.
    pub(crate) async fn flush(&self) -> bool {
        let all = self.due(|_, _| true);
        let count = all.len();
        let is_written = self.write(all).await;
        info!(count, is_written, "party archive flushed");
        is_written
    }

    /// Writes sessions, and removes from the queue only those that were written: a write that is
    /// cancelled leaves its sessions to the last flush.
    async fn write(&self, due: Vec<Pending>) -> bool {
        let begun = self.clock.now();
        let mut is_written = true;
        for batch in due.chunks(BATCH) {
            let archived = |it: &Pending| Archived::of(&it.session, it.active_at_ms);
            match self.archive.put(batch.iter().map(archived).collect()).await {
                Ok(()) => {
                    self.metrics.archived.inc_by(batch.len() as u64);
                    batch.iter().for_each(|written| self.remove_written(written, begun));
                }
                Err(error) => {
                    self.metrics.archive_failures.inc();
                    warn!(%error, count = batch.len(), "writing to the party archive failed");
                    is_written = false;
                }
            }
        }
        is_written
    }

    /// Adds the newest state of a session to the queue, with the time since which the archive is
    /// behind.
    fn insert(&self, pending: Pending) {
        let mut all = self.lock();
        if all.len() >= PENDING_MAX && !all.contains_key(&pending.session.id) {
            self.metrics.archive_overflows.inc();
            return warn!(session_id = %pending.session.id, "party archive queue is full, session not queued");
        }
        let held = all.remove(&pending.session.id);
        let kept = match held {
            None => pending,
            Some(held) => {
                let waits_since = held.waits_since.min(pending.waits_since);
                let urgency = held.urgency.max(pending.urgency);
                let is_newer = Revision::of(&pending.session) >= Revision::of(&held.session);
                let newest = if is_newer { pending } else { held };
                Pending { waits_since, urgency, ..newest }
            }
        };
        all.insert(kept.session.id.clone(), kept);
    }

    /// Removes a written session from the queue, unless it has changed since the write began.
    fn remove_written(&self, written: &Pending, begun: Instant) {
        let mut all = self.lock();
        let Some(held) = all.get_mut(&written.session.id) else { return };
        if Revision::of(&held.session) > Revision::of(&written.session) {
            held.waits_since = held.waits_since.max(begun);
        } else {
            all.remove(&written.session.id);
        }
    }

    fn due(&self, is_due: impl Fn(&Pending, Instant) -> bool) -> Vec<Pending> {
        let now = self.clock.now();
        self.lock().values().filter(|pending| is_due(pending, now)).cloned().collect()
    }

    /// The age of the oldest change that is not archived.
    fn age(&self) -> Duration {
        let now = self.clock.now();
        let all = self.lock();
        all.values().map(|pending| now - pending.waits_since).max().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use tokio::sync::Semaphore;
    use tokio::time::timeout;

    use super::*;
    use crate::room::archive::{Discovered, PartyArchiveError, SearchArea};

    const PATIENCE: Duration = Duration::from_secs(20);

    /// An archive that completes a write only when it gets a permit.
    #[derive(Debug)]
    struct Gate {
        begun: Semaphore,
        permits: Semaphore,
        /// The number of writes that still fail.
        failures: AtomicUsize,
        written: Mutex<Vec<Revision>>,
    }

    impl Gate {
        fn closed() -> Arc<Self> {
            let (begun, permits) = (Semaphore::new(0), Semaphore::new(0));
            let failures = AtomicUsize::new(0);
            Arc::new(Self { begun, permits, failures, written: Mutex::default() })
        }

        async fn write_begins(&self) {
            timeout(PATIENCE, self.begun.acquire()).await.unwrap().unwrap().forget();
        }
    }

    #[async_trait]
    impl PartyArchive for Gate {
        async fn put(&self, sessions: Vec<Archived>) -> Result<(), PartyArchiveError> {
            self.begun.add_permits(1);
            self.permits.acquire().await.unwrap().forget();
            let next = |left: usize| left.checked_sub(1);
            if self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).is_ok() {
                return Err(PartyArchiveError::new("the archive is away"));
            }
            self.written.lock().unwrap().extend(sessions.iter().map(|it| it.stored.revision));
            Ok(())
        }

        async fn get(&self, _: &str) -> Result<Option<Archived>, PartyArchiveError> {
            Ok(None)
        }

        async fn nearby(
            &self,
            _: SearchArea,
            _: usize,
        ) -> Result<Vec<Discovered>, PartyArchiveError> {
            Ok(Vec::new())
        }

        async fn of_account(
            &self,
            _: &heartline_protocol::UserId,
            _: usize,
        ) -> Result<Vec<Discovered>, PartyArchiveError> {
            Ok(Vec::new())
        }

        async fn idle(&self, _: u64, _: usize) -> Result<Vec<String>, PartyArchiveError> {
            Ok(Vec::new())
        }
    }

    fn archivist(gate: &Arc<Gate>) -> Archivist {
        let archive = Arc::clone(gate) as Arc<dyn PartyArchive>;
        Archivist::new(archive, Duration::from_secs(30), Clock::system(), PartyMetrics::default())
    }

    fn session(version: u64) -> Arc<PartySession> {
        Arc::new(PartySession { version, ..PartySession::new("wall") })
    }

    #[tokio::test]
    async fn a_write_that_is_cancelled_is_left_to_the_last_flush() {
        let gate = Gate::closed();
        let archivist = archivist(&gate);
        archivist.enqueue(&session(1), 1, Urgency::Now);
        tokio::select! {
            // The archivist begins its write before the gate is observed.
            biased;
            () = archivist.run() => {}
            () = gate.write_begins() => {}
        }
        assert!(gate.written.lock().unwrap().is_empty(), "the write was cancelled");
        gate.permits.add_permits(1);
        assert!(timeout(PATIENCE, archivist.flush()).await.unwrap());
        assert_eq!(gate.written.lock().unwrap().len(), 1);
        assert!(archivist.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_changes_all_the_time_is_archived_within_a_minute() {
        let gate = Gate::closed();
        let archivist = archivist(&gate);
        let start = archivist.clock.now();
        // Much more often than the debounce.
        let changes = async {
            for version in 1.. {
                archivist.enqueue(&session(version), version, Urgency::Soon);
                sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::select! {
            () = archivist.run() => {}
            () = changes => {}
            begun = gate.begun.acquire() => begun.unwrap().forget(),
        }
        let waited = archivist.clock.now() - start;
        assert!(BUSY_MAX <= waited && waited <= BUSY_MAX + 2 * CHECK_INTERVAL, "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_fails_is_retried_until_it_succeeds() {
        const FAILURES: usize = 10;
        let gate = Gate::closed();
        gate.failures.store(FAILURES, Ordering::SeqCst);
        gate.permits.add_permits(FAILURES + 1);
        let archivist = archivist(&gate);
        archivist.enqueue(&session(1), 1, Urgency::Now);
        let written = async {
            while gate.written.lock().unwrap().is_empty() {
                sleep(CHECK_INTERVAL).await;
            }
        };
        tokio::select! {
            () = archivist.run() => {}
            done = timeout(FAILURES as u32 * BACK_OFF_MAX * 2, written) => done.unwrap(),
        }
        assert_eq!(gate.begun.available_permits(), FAILURES + 1);
        assert!(archivist.lock().is_empty());
    }

    #[tokio::test]
    async fn a_session_that_changes_during_its_write_is_written_again() {
        let gate = Gate::closed();
        let archivist = archivist(&gate);
        archivist.enqueue(&session(1), 1, Urgency::Now);
        let change = async {
            gate.write_begins().await;
            archivist.enqueue(&session(2), 2, Urgency::Now);
            gate.permits.add_permits(2);
            gate.write_begins().await;
            while gate.written.lock().unwrap().len() < 2 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            // The archivist writes before the change that follows its write.
            biased;
            () = archivist.run() => {}
            done = timeout(PATIENCE, change) => done.unwrap(),
        }
        let versions: Vec<u64> = gate.written.lock().unwrap().iter().map(|it| it.version).collect();
        assert_eq!(versions, [1, 2]);
    }
}
