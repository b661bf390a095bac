//! Which connections of this node watch whom, and what each was told last.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use heartline_protocol::limits::PRESENCE_USERS_PER_CONNECTION_MAX;
use heartline_protocol::server_frame::{Presence, PresenceStatus};
use heartline_protocol::{ConnectionId, Timestamp, UserId};

use crate::handle::Handle;

/// Users of whom a connection was told without asking and is told again. The oldest give way.
const UNASKED_MAX: usize = 1000;

/// Who watches whom.
#[derive(Debug, Default)]
pub(super) struct Watches {
    /// Per user the connections that watch, each with what it was told last, if anything.
    by_user: HashMap<UserId, HashMap<ConnectionId, Option<Told>>>,
    by_connection: HashMap<ConnectionId, Watcher>,
}

/// What matters of a presence to one who was told before. The version does not: who is forgotten
/// gets another with every reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    status: PresenceStatus,
    last_seen: Option<Timestamp>,
    stale: bool,
}

#[derive(Debug)]
struct Watcher {
    handle: Arc<Handle>,
    observer_id: UserId,
    subscribed: HashSet<UserId>,
    /// Users whose presence came unasked, in the order of their coming.
    unasked: VecDeque<UserId>,
}

/// A connection would watch more users than one may.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMany;

impl From<&Presence> for Told {
    fn from(presence: &Presence) -> Self {
        let Presence { status, last_seen, stale, .. } = *presence;
        Self { status, last_seen, stale }
    }
}

impl Watches {
    /// Has a connection watch users, all or none.
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
            subscribed: HashSet::new(),
            unasked: VecDeque::new(),
        });
        let named: HashSet<&UserId> = user_ids.iter().collect();
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

    /// Ends that.
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

    /// Forgets a connection.
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

    /// Everybody who is watched.
    pub(super) fn users(&self) -> Vec<UserId> {
        self.by_user.keys().cloned().collect()
    }

    /// The users that watch this one through a connection here, each once.
    pub(super) fn observers(&self, user_id: &UserId) -> HashSet<UserId> {
        let watches = self.by_user.get(user_id).into_iter().flat_map(HashMap::keys);
        let observer = |id: &ConnectionId| self.by_connection.get(id);
        watches.filter_map(observer).map(|watcher| watcher.observer_id.clone()).collect()
    }

    /// Whether a connection that watches a user was told something else; what it is told now is
    /// noted. Who was told nothing knows as much as `unknown` says and is not told that: the word
    /// itself would show that somebody who hides has come or left.
    pub(super) fn tell(&mut self, connection_id: ConnectionId, seen: &Presence) -> bool {
        let watches = self.by_user.get_mut(&seen.user_id);
        let Some(told_last) = watches.and_then(|watches| watches.get_mut(&connection_id)) else {
            return false;
        };
        let told = Told::from(seen);
        let is_new = match told_last {
            Some(last) => *last != told,
            None => told.status != PresenceStatus::Unknown,
        };
        if is_new {
            *told_last = Some(told);
        }
        is_new
    }

    /// Notes what a connection is told in its snapshot.
    pub(super) fn told(&mut self, connection_id: ConnectionId, seen: &Presence) {
        let watches = self.by_user.get_mut(&seen.user_id);
        if let Some(told) = watches.and_then(|watches| watches.get_mut(&connection_id)) {
            *told = Some(Told::from(seen));
        }
    }

    /// Has a connection that did not ask watch a user from now on. False if it does already.
    pub(super) fn introduce(&mut self, handle: &Arc<Handle>, user_id: &UserId) -> bool {
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
            subscribed: HashSet::new(),
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

    /// Connections that are closing and were not taken leave of.
    pub(super) fn closing(&self) -> Vec<ConnectionId> {
        let closing = self.by_connection.iter();
        closing.filter(|(_, watcher)| watcher.handle.is_closing()).map(|(id, _)| *id).collect()
    }

    /// How many watches there are.
    pub(super) fn len(&self) -> usize {
        self.by_user.values().map(HashMap::len).sum()
    }
}
