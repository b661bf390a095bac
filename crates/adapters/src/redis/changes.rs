//! The transitions that this node receives, and which of them it decided itself.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use heartline_protocol::{NodeId, Timestamp, UserId};
use heartline_routing::presence::CHANGES_MAX;
use heartline_routing::{Change, Transition};
use tokio::sync::broadcast;
use tracing::warn;

/// Own decisions that are remembered, to tell their second report from a new one. Both come
/// within one round trip.
const DECIDED_MAX: usize = 8192;

/// Publishes changes to the receivers in this process.
///
/// A decision of a script that this node ran is reported twice: in the reply, and as a message to
/// all nodes. Either may be lost, so the first report counts, once.
#[derive(Debug)]
pub(super) struct Changes {
    node_id: NodeId,
    listeners: broadcast::Sender<Change>,
    decided: Mutex<Decided>,
}

#[derive(Debug, Default)]
struct Decided {
    known: HashSet<(UserId, u64)>,
    oldest_first: VecDeque<(UserId, u64)>,
}

impl Changes {
    pub(super) fn new(node_id: NodeId) -> Self {
        let listeners = broadcast::channel(CHANGES_MAX).0;
        Self { node_id, listeners, decided: Mutex::default() }
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<Change> {
        self.listeners.subscribe()
    }

    /// A transition as a script wrote it: in a reply to this node, or in a message to all.
    pub(super) fn report(&self, text: &str) {
        let Some((transition, node_id)) = parse(text) else {
            return warn!("malformed transition ignored");
        };
        if node_id != self.node_id {
            return self.send(Change::Transition(transition));
        }
        if self.is_first_report(&transition) {
            self.send(Change::Decided(transition));
        }
    }

    /// Reports that transitions may be missing.
    pub(super) fn gap(&self) {
        self.send(Change::Gap);
    }

    fn send(&self, change: Change) {
        // There may be no receiver.
        let _ = self.listeners.send(change);
    }

    fn is_first_report(&self, transition: &Transition) -> bool {
        let name = (transition.user_id.clone(), transition.version);
        let mut decided = self.lock();
        if !decided.known.insert(name.clone()) {
            return false;
        }
        decided.oldest_first.push_back(name);
        if decided.oldest_first.len() > DECIDED_MAX
            && let Some(oldest) = decided.oldest_first.pop_front()
        {
            decided.known.remove(&oldest);
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Decided> {
        self.decided.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads `<status>/<version>/<last_seen>/<deciding node>/<user>`.
fn parse(text: &str) -> Option<(Transition, NodeId)> {
    let mut fields = text.splitn(5, '/');
    let is_online = match fields.next()? {
        "online" => true,
        "offline" => false,
        _ => return None,
    };
    let version = fields.next()?.parse().ok()?;
    let last_seen = match fields.next()? {
        "" => None,
        unix_ms => Some(Timestamp { unix_ms: unix_ms.parse().ok()? }),
    };
    let node_id = fields.next()?.parse().ok()?;
    let user_id = fields.next()?.parse().ok()?;
    Some((Transition { user_id, is_online, version, last_seen }, node_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_own_decision_is_said_once_and_another_nodes_every_time() {
        let changes = Changes::new("node-a".parse().unwrap());
        let mut heard = changes.subscribe();
        changes.report("online/7//node-a/alice");
        changes.report("online/7//node-a/alice");
        changes.report("offline/8/5000/node-b/bob");
        changes.report("nonsense");
        let alice = Transition {
            user_id: "alice".parse().unwrap(),
            is_online: true,
            version: 7,
            last_seen: None,
        };
        let bob = Transition {
            user_id: "bob".parse().unwrap(),
            is_online: false,
            version: 8,
            last_seen: Some(Timestamp { unix_ms: 5000 }),
        };
        assert_eq!(heard.try_recv().unwrap(), Change::Decided(alice));
        assert_eq!(heard.try_recv().unwrap(), Change::Transition(bob));
        assert!(heard.try_recv().is_err());
    }

    #[test]
    fn old_decisions_are_forgotten() {
        let changes = Changes::new("node-a".parse().unwrap());
        for version in 0..2 * DECIDED_MAX {
            changes.report(&format!("online/{version}//node-a/alice"));
        }
        assert_eq!(changes.lock().known.len(), DECIDED_MAX);
    }
}
