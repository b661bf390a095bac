//! Engines that fail on demand.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use heartline_durability::{Relation, Sight};
use heartline_protocol::rest::Visibility;
use heartline_protocol::{Timestamp, UserId};
use heartline_routing::{
    Answering, Change, DirectoryError, MemoryDirectory, PresenceState, PresenceStates,
};
use heartline_runtime::{Map, Set};
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep_until};

use super::fixtures::user;
use crate::ports::{Relations, RelationsError};

/// A store of relations that the test fills, and that can fail.
#[derive(Debug, Default)]
pub(super) struct ScriptedRelations {
    visibilities: Mutex<Map<UserId, Visibility>>,
    contacts: Mutex<Set<(UserId, UserId)>>,
    last_seen: Mutex<Map<UserId, Timestamp>>,
    /// Whether every call fails.
    pub(super) is_down: AtomicBool,
    /// Whether no call returns.
    pub(super) hangs: AtomicBool,
    /// The number of calls.
    pub(super) calls: AtomicUsize,
}

impl ScriptedRelations {
    pub(super) fn choose(&self, name: &str, visibility: Visibility) {
        self.visibilities.lock().unwrap().insert(user(name), visibility);
    }

    /// Makes two users each other's contacts.
    pub(super) fn befriend(&self, one: &str, other: &str) {
        let mut contacts = self.contacts.lock().unwrap();
        contacts.extend([(user(one), user(other)), (user(other), user(one))]);
    }

    /// Removes one of two contacts.
    pub(super) fn part(&self, one: &str, other: &str) {
        self.contacts.lock().unwrap().remove(&(user(one), user(other)));
    }

    pub(super) fn was_seen(&self, name: &str, unix_ms: u64) {
        self.last_seen.lock().unwrap().insert(user(name), Timestamp { unix_ms });
    }
}

#[async_trait]
impl Relations for ScriptedRelations {
    async fn relations(
        &self,
        sights: Vec<Sight>,
        deadline: Instant,
    ) -> Result<Vec<Relation>, RelationsError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.hangs.load(Ordering::Relaxed) {
            sleep_until(deadline).await;
            return Err(RelationsError::Deadline);
        }
        if self.is_down.load(Ordering::Relaxed) {
            return Err(RelationsError::Failed("it fails on demand".into()));
        }
        let contacts = self.contacts.lock().unwrap();
        let has_put =
            |one: &UserId, other: &UserId| contacts.contains(&(one.clone(), other.clone()));
        let relation = |Sight { observer_id, user_id }: &Sight| Relation {
            visibility: self.visibilities.lock().unwrap().get(user_id).copied(),
            are_contacts: has_put(observer_id, user_id) && has_put(user_id, observer_id),
            last_seen: self.last_seen.lock().unwrap().get(user_id).copied(),
        };
        Ok(sights.iter().map(relation).collect())
    }
}

/// The directory of a single node, which can be made silent like one on a network.
#[derive(Debug)]
pub(super) struct MutableStates {
    pub(super) directory: MemoryDirectory,
    /// For how many seconds it has not answered.
    silence_seconds: AtomicU64,
    /// Whether the directory is rebuilding after a loss of its data.
    pub(super) is_rebuilding: AtomicBool,
    /// Whether every call fails.
    pub(super) is_down: AtomicBool,
}

impl MutableStates {
    pub(super) fn new(directory: MemoryDirectory) -> Self {
        let [is_rebuilding, is_down] = [const { AtomicBool::new(false) }; 2];
        Self { directory, silence_seconds: AtomicU64::new(0), is_rebuilding, is_down }
    }

    pub(super) fn is_silent_for(&self, seconds: u64) {
        self.silence_seconds.store(seconds, Ordering::Relaxed);
    }
}

#[async_trait]
impl PresenceStates for MutableStates {
    async fn presence(&self, user_ids: &[UserId]) -> Result<Vec<PresenceState>, DirectoryError> {
        if self.is_down.load(Ordering::Relaxed) {
            return Err(DirectoryError("it fails on demand".into()));
        }
        if self.is_rebuilding.load(Ordering::Relaxed) {
            return Ok(vec![PresenceState::Stale; user_ids.len()]);
        }
        self.directory.presence(user_ids).await
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.directory.changes()
    }
}

impl Answering for MutableStates {
    fn silence(&self) -> Duration {
        Duration::from_secs(self.silence_seconds.load(Ordering::Relaxed))
    }
}
