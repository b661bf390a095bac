//! What a client knows of the presence of others.

use std::collections::{HashMap, HashSet, VecDeque};

use heartline_protocol::UserId;
use heartline_protocol::server_frame::Presence;

/// Users whose presence is kept although nobody asked for it. The oldest give way.
const UNASKED_MAX: usize = 1000;

/// The presence of others as far as this client was told.
///
/// What the server says may come late or twice: a state counts only if its version is newer than
/// the one known. `unknown` has no version. It always counts, and so does whatever follows it, and
/// whatever is said first on another connection.
#[derive(Debug, Default)]
pub struct PresenceView {
    known: HashMap<UserId, Known>,
    /// Users who are asked for and therefore never give way.
    watched: HashSet<UserId>,
    /// Known users who are not, in the order of their coming.
    unasked: VecDeque<UserId>,
}

#[derive(Debug)]
struct Known {
    presence: Presence,
    /// Only what is newer counts; none if whatever follows does.
    version: Option<u64>,
}

impl PresenceView {
    /// What is known of a user; none if nothing was ever said.
    pub fn get(&self, user_id: &UserId) -> Option<&Presence> {
        self.known.get(user_id).map(|known| &known.presence)
    }

    /// Takes what the server says. Answers whether that is news: what is late, and what says only
    /// what is known, is not.
    pub fn take(&mut self, presence: &Presence) -> bool {
        let version = presence.version;
        if let Some(known) = self.known.get_mut(&presence.user_id) {
            if known.version.is_some() && version.is_some() && version <= known.version {
                return false;
            }
            let is_news = !is_same(&known.presence, presence);
            *known = Known { presence: presence.clone(), version };
            return is_news;
        }
        let user_id = presence.user_id.clone();
        if !self.watched.contains(&user_id) {
            self.unasked.push_back(user_id.clone());
        }
        self.known.insert(user_id, Known { presence: presence.clone(), version });
        self.make_room();
        true
    }

    /// A user is asked for from now on. What was known is forgotten, so that the answer is news.
    pub fn watch(&mut self, user_id: &UserId) {
        self.forget(user_id);
        self.watched.insert(user_id.clone());
    }

    /// A user is asked for no longer, and nothing of them is known.
    pub fn forget(&mut self, user_id: &UserId) {
        self.known.remove(user_id);
        self.watched.remove(user_id);
        self.unasked.retain(|unasked| unasked != user_id);
    }

    /// The connection is over: whatever the next one says counts. Until then the last word stands.
    pub fn disconnected(&mut self) {
        self.known.values_mut().for_each(|known| known.version = None);
    }

    fn make_room(&mut self) {
        while self.unasked.len() > UNASKED_MAX
            && let Some(oldest) = self.unasked.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

/// Whether two states say the same to a person. A version that rose without anybody's having seen
/// a change says nothing.
fn is_same(one: &Presence, other: &Presence) -> bool {
    let said = |presence: &Presence| (presence.status, presence.last_seen, presence.stale);
    said(one) == said(other)
}

#[cfg(test)]
mod tests;
