//! Writes sessions to the archive by and by: the newest state of each, soon after it rests, and
//! never later than a minute after it changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use heartline_routing::Clock;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::archive::{Archived, PartyArchive};
use crate::metrics::PartyMetrics;
use crate::session::Session;
use crate::store::Revision;

/// How long a busy session may wait.
const BUSY_MAX: Duration = Duration::from_secs(60);

/// How often it is looked which sessions are due.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Sessions of one write.
const BATCH: usize = 64;

/// Sessions that may wait. Beyond, one that changes is not noted until it changes again: only an
/// archive that is away for long lets so many pile up.
const PENDING_MAX: usize = 100_000;

/// How long to wait after a failure, at first and at most.
const BACK_OFF: Duration = Duration::from_secs(1);
const BACK_OFF_MAX: Duration = Duration::from_secs(30);

/// How soon a session must be archived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Haste {
    /// Once it rests.
    Soon,
    /// At once: it is new, nobody is in it any more, or it has ended.
    Now,
}

/// What is still to be archived.
#[derive(Debug)]
pub(crate) struct Archivist {
    archive: Arc<dyn PartyArchive>,
    debounce: Duration,
    clock: Clock,
    metrics: PartyMetrics,
    pending: Mutex<HashMap<String, Pending>>,
    hurry: Notify,
}

#[derive(Debug, Clone)]
struct Pending {
    session: Arc<Session>,
    active_at_ms: u64,
    changed_at: Instant,
    waits_since: Instant,
    haste: Haste,
}

impl Archivist {
    pub(crate) fn new(
        archive: Arc<dyn PartyArchive>,
        debounce: Duration,
        clock: Clock,
        metrics: PartyMetrics,
    ) -> Self {
        let (pending, hurry) = (Mutex::default(), Notify::new());
        Self { archive, debounce, clock, metrics, pending, hurry }
    }

    /// Remembers a session that has changed.
    pub(crate) fn note(&self, session: &Arc<Session>, active_at_ms: u64, haste: Haste) {
        let now = self.clock.now();
        let noted = Pending {
            session: Arc::clone(session),
            active_at_ms,
            changed_at: now,
            waits_since: now,
            haste,
        };
        self.put_back(noted);
        if haste == Haste::Now {
            self.hurry.notify_one();
        }
    }

    /// Archives for ever.
    pub(crate) async fn run(&self) {
        let mut back_off = BACK_OFF;
        loop {
            tokio::select! {
                () = sleep(LOOK_INTERVAL) => {}
                () = self.hurry.notified() => {}
            }
            let due = self.take(|pending, now| {
                pending.haste == Haste::Now
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

    /// Archives everything now; answers whether that went well.
    pub(crate) async fn flush(&self) -> bool {
        let all = self.take(|_, _| true);
        let count = all.len();
        let is_written = self.write(all).await;
        info!(count, is_written, "sessions were archived");
        is_written
    }

    async fn write(&self, due: Vec<Pending>) -> bool {
        let mut is_written = true;
        for batch in due.chunks(BATCH) {
            let archived = |it: &Pending| Archived::of(&it.session, it.active_at_ms);
            match self.archive.put(batch.iter().map(archived).collect()).await {
                Ok(()) => drop(self.metrics.archived.inc_by(batch.len() as u64)),
                Err(error) => {
                    self.metrics.archive_failures.inc();
                    warn!(%error, count = batch.len(), "sessions were not archived");
                    batch.iter().cloned().for_each(|pending| self.put_back(pending));
                    is_written = false;
                }
            }
        }
        is_written
    }

    /// Keeps the newest state of a session, and since when the archive lacks something of it.
    fn put_back(&self, pending: Pending) {
        let mut all = self.lock();
        if all.len() >= PENDING_MAX && !all.contains_key(&pending.session.id) {
            self.metrics.archive_overflows.inc();
            return warn!(session_id = %pending.session.id, "too many sessions wait for the archive");
        }
        let held = all.remove(&pending.session.id);
        let kept = match held {
            None => pending,
            Some(held) => {
                let waits_since = held.waits_since.min(pending.waits_since);
                let haste = held.haste.max(pending.haste);
                let is_newer = Revision::of(&pending.session) >= Revision::of(&held.session);
                let newest = if is_newer { pending } else { held };
                Pending { waits_since, haste, ..newest }
            }
        };
        all.insert(kept.session.id.clone(), kept);
    }

    fn take(&self, is_due: impl Fn(&Pending, Instant) -> bool) -> Vec<Pending> {
        let now = self.clock.now();
        let mut all = self.lock();
        let due = all.values().filter(|pending| is_due(pending, now));
        let due: Vec<String> = due.map(|pending| pending.session.id.clone()).collect();
        due.iter().filter_map(|session_id| all.remove(session_id)).collect()
    }

    /// How long the archive has lacked something.
    fn age(&self) -> Duration {
        let now = self.clock.now();
        let all = self.lock();
        all.values().map(|pending| now - pending.waits_since).max().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
