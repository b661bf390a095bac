//! The presence of other users as a client knows it.

use std::collections::{HashMap, HashSet, VecDeque};

use heartline_protocol::UserId;
use heartline_protocol::server_frame::Presence;

/// Users without a subscription whose presence is kept; the oldest are evicted.
const UNSUBSCRIBED_MAX: usize = 1000;

/// The presence of other users as far as this client knows it.
///
/// Statuses may arrive late or more than once: a status is applied only if its version is higher
/// than the known one. `unknown` has no version. An `unknown`, the next status after it, and the
/// first status on another connection are always applied.
#[derive(Debug, Default)]
pub struct PresenceView {
    known: HashMap<UserId, Known>,
    /// Users with a subscription, who are never evicted.
    subscribed: HashSet<UserId>,
    /// Known users without a subscription, oldest first.
    unsubscribed: VecDeque<UserId>,
}

#[derive(Debug)]
struct Known {
    presence: Presence,
    /// Only a higher version is applied; none if any status is.
    version: Option<u64>,
}

impl PresenceView {
    /// The known presence of a user.
    pub fn get(&self, user_id: &UserId) -> Option<&Presence> {
        self.known.get(user_id).map(|known| &known.presence)
    }

    /// Applies a status from the server. Returns whether something changed for the application; a
    /// late status and one that repeats the known state do not.
    pub fn apply(&mut self, presence: &Presence) -> bool {
        let version = presence.version;
        if let Some(known) = self.known.get_mut(&presence.user_id) {
            if known.version.is_some() && version.is_some() && version <= known.version {
                return false;
            }
            let is_change = !is_same(&known.presence, presence);
            *known = Known { presence: presence.clone(), version };
            return is_change;
        }
        let user_id = presence.user_id.clone();
        if !self.subscribed.contains(&user_id) {
            self.unsubscribed.push_back(user_id.clone());
        }
        self.known.insert(user_id, Known { presence: presence.clone(), version });
        self.evict_oldest();
        true
    }

    /// Begins a subscription. The known presence is removed, so that the answer counts as a change.
    pub fn subscribe(&mut self, user_id: &UserId) {
        self.remove(user_id);
        self.subscribed.insert(user_id.clone());
    }

    /// Ends a subscription and removes the known presence.
    pub fn remove(&mut self, user_id: &UserId) {
        self.known.remove(user_id);
        self.subscribed.remove(user_id);
        self.unsubscribed.retain(|unsubscribed| unsubscribed != user_id);
    }

    /// The connection ended: any status of the next one is applied. Until then the known presence
    /// stays.
    pub fn disconnected(&mut self) {
        self.known.values_mut().for_each(|known| known.version = None);
    }

    fn evict_oldest(&mut self) {
        while self.unsubscribed.len() > UNSUBSCRIBED_MAX
            && let Some(oldest) = self.unsubscribed.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

/// Whether two statuses are the same to a person. A higher version alone is not a change.
fn is_same(one: &Presence, other: &Presence) -> bool {
    let state = |presence: &Presence| (presence.status, presence.last_seen, presence.stale);
    state(one) == state(other)
}

#[cfg(test)]
mod tests;
