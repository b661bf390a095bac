//! The users that connections of this node observe, and the state last pushed to each connection.

use std::collections::VecDeque;
use std::sync::Arc;

use heartline_protocol::limits::PRESENCE_USERS_PER_CONNECTION_MAX;
use heartline_protocol::server_frame::{Presence, PresenceStatus};
use heartline_protocol::{ConnectionId, Timestamp, UserId};
use heartline_runtime::{Map, Set};

use crate::handle::Handle;

/// Users that a connection observes without having subscribed. Beyond, the oldest are removed.
const UNASKED_MAX: usize = 1000;

/// The observed users of each connection.
#[derive(Debug, Default)]
pub(super) struct Watches {
    /// The observing connections of each user, with the state last pushed to each, if any.
    by_user: Map<UserId, Map<ConnectionId, Option<Pushed>>>,
    by_connection: Map<ConnectionId, Watcher>,
}

/// The part of a presence that decides whether it is pushed again. The version is left out: the
/// directory gives a user it has forgotten a new one with every read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pushed {
    status: PresenceStatus,
    last_seen: Option<Timestamp>,
    stale: bool,
}

#[derive(Debug)]
struct Watcher {
    handle: Arc<Handle>,
    observer_id: UserId,
    subscribed: Set<UserId>,
    /// Users observed without a subscription, oldest first.
    unasked: VecDeque<UserId>,
}

/// A connection would observe more users than allowed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMany;

impl From<&Presence> for Pushed {
    fn from(presence: &Presence) -> Self {
        let Presence { status, last_seen, stale, .. } = *presence;
        Self { status, last_seen, stale }
    }
}

impl Watches {
    /// Subscribes a connection to users, all or none.
    pub(super) fn subscribe(
        &mut self,
        handle: &Arc<Handle>,
        user_ids: &[UserId],
    ) -> Result<(), TooMany> {
        let Some(identity) = handle.identity() else { return Ok(()) };
        let connection_id = identity.key.connection_id;
        let watcher = self.by_connection.entry(connection_id).or_insert_with(|| Watcher {
            handle: Arc::clone(handle),
            observer_id: identity.key.user_id.clone(),
            subscribed: Set::default(),
            unasked: VecDeque::new(),
        });
        let named: Set<&UserId> = user_ids.iter().collect();
        let new = named.iter().filter(|user_id| !watcher.subscribed.contains(**user_id)).count();
        if watcher.subscribed.len() + new > PRESENCE_USERS_PER_CONNECTION_MAX {
            return Err(TooMany);
        }
        for user_id in named {
            watcher.subscribed.insert(user_id.clone());
            let watches = self.by_user.entry(user_id.clone()).or_default();
            watches.entry(connection_id).or_default();
        }
        Ok(())
    }

    /// Unsubscribes a connection from users.
    pub(super) fn unsubscribe(&mut self, connection_id: ConnectionId, user_ids: &[UserId]) {
        let Some(watcher) = self.by_connection.get_mut(&connection_id) else { return };
        for user_id in user_ids {
            watcher.subscribed.remove(user_id);
            watcher.unasked.retain(|unasked| unasked != user_id);
        }
        for user_id in user_ids {
            self.remove(connection_id, user_id);
        }
    }

    /// Removes a connection.
    pub(super) fn leave(&mut self, connection_id: ConnectionId) {
        let Some(watcher) = self.by_connection.remove(&connection_id) else { return };
        for user_id in watcher.subscribed.iter().chain(&watcher.unasked) {
            self.remove(connection_id, user_id);
        }
    }

    fn remove(&mut self, connection_id: ConnectionId, user_id: &UserId) {
        if let Some(watches) = self.by_user.get_mut(user_id) {
            watches.remove(&connection_id);
            if watches.is_empty() {
                self.by_user.remove(user_id);
            }
        }
    }

    /// Every observed user.
    pub(super) fn users(&self) -> Vec<UserId> {
        self.by_user.keys().cloned().collect()
    }

    /// The users that observe this one through a connection of this node, each once.
    pub(super) fn observers(&self, user_id: &UserId) -> Set<UserId> {
        let watches = self.by_user.get(user_id).into_iter().flat_map(Map::keys);
        let observer = |id: &ConnectionId| self.by_connection.get(id);
        watches.filter_map(observer).map(|watcher| watcher.observer_id.clone()).collect()
    }

    /// Records a state as pushed if it differs from the last one, and returns whether it does. To a
    /// connection without an earlier state `unknown` is not pushed: the event itself would show
    /// that a hidden user has connected or left.
    pub(super) fn record_change(&mut self, connection_id: ConnectionId, seen: &Presence) -> bool {
        let watches = self.by_user.get_mut(&seen.user_id);
        let Some(last) = watches.and_then(|watches| watches.get_mut(&connection_id)) else {
            return false;
        };
        let pushed = Pushed::from(seen);
        let is_new = match last {
            Some(last) => *last != pushed,
            None => pushed.status != PresenceStatus::Unknown,
        };
        if is_new {
            *last = Some(pushed);
        }
        is_new
    }

    /// Records the state in a connection's snapshot as pushed.
    pub(super) fn record_snapshot(&mut self, connection_id: ConnectionId, seen: &Presence) {
        let watches = self.by_user.get_mut(&seen.user_id);
        if let Some(last) = watches.and_then(|watches| watches.get_mut(&connection_id)) {
            *last = Some(Pushed::from(seen));
        }
    }

    /// Lets a connection observe a user without a subscription. False if it does already.
    pub(super) fn observe(&mut self, handle: &Arc<Handle>, user_id: &UserId) -> bool {
        let Some(identity) = handle.identity() else { return false };
        let connection_id = identity.key.connection_id;
        let watches = self.by_user.entry(user_id.clone()).or_default();
        if watches.contains_key(&connection_id) {
            return false;
        }
        watches.insert(connection_id, None);
        let watcher = self.by_connection.entry(connection_id).or_insert_with(|| Watcher {
            handle: Arc::clone(handle),
            observer_id: identity.key.user_id.clone(),
            subscribed: Set::default(),
            unasked: VecDeque::new(),
        });
        watcher.unasked.push_back(user_id.clone());
        if watcher.unasked.len() > UNASKED_MAX
            && let Some(oldest) = watcher.unasked.pop_front()
            && !watcher.subscribed.contains(&oldest)
        {
            self.remove(connection_id, &oldest);
        }
        true
    }

    /// Connections that are closing and have not been removed.
    pub(super) fn closing(&self) -> Vec<ConnectionId> {
        let closing = self.by_connection.iter();
        closing.filter(|(_, watcher)| watcher.handle.is_closing()).map(|(id, _)| *id).collect()
    }

    /// The number of pairs of a connection and an observed user.
    pub(super) fn len(&self) -> usize {
        self.by_user.values().map(Map::len).sum()
    }
}
