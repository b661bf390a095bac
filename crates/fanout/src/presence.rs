//! Tells those who share an active chat with somebody that they came or left.
//!
//! The node whose call decided a transition does it, and no other. Whoever it does not reach, and
//! who was told of that person before, is told by their own node, which hears every transition.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use heartline_durability::{LazyWrites, Members};
use heartline_protocol::{NodeId, UserId};
use heartline_routing::{Change, Envelope, PresenceNews, Transition};
use tokio::sync::broadcast;
use tokio::time::timeout;
use tracing::warn;

use crate::deliver::Fanout;

/// How long transitions are gathered, so that a wave of them is read and sent together.
const GATHER: Duration = Duration::from_millis(100);

/// Transitions of one reading.
const BATCH_TRANSITIONS: usize = 500;

/// In which chats somebody's presence matters without being asked for.
const ACTIVE_WITHIN: Duration = Duration::from_secs(24 * 60 * 60);
const CHAT_MEMBERS_MAX: usize = 100;

/// How long the store may take to say who shares an active chat.
const COMPANIONS_DEADLINE: Duration = Duration::from_secs(2);

/// Users of whom an envelope tells at most, with all their observers.
const NEWS_PER_ENVELOPE: usize = 100;

/// Takes up the transitions that this node's own calls decided.
#[derive(Debug)]
pub struct PresenceFanout {
    fanout: Fanout,
    members: Arc<dyn Members>,
    lazy_writes: LazyWrites,
    changes: broadcast::Receiver<Change>,
}

impl PresenceFanout {
    /// Takes up what is decided from now on.
    pub fn new(fanout: Fanout, members: Arc<dyn Members>, lazy_writes: LazyWrites) -> Self {
        let changes = fanout.directory.changes();
        Self { fanout, members, lazy_writes, changes }
    }

    /// Works until the directory is gone.
    pub async fn run(mut self) {
        loop {
            // The latest of each user is what is told.
            let mut decided = HashMap::new();
            if !self.gather(&mut decided).await {
                return;
            }
            self.tell(decided.into_values().collect()).await;
        }
    }

    /// Waits for a transition, and a little longer for those that come with it. False when there
    /// will be no more.
    async fn gather(&mut self, decided: &mut HashMap<UserId, Transition>) -> bool {
        while decided.is_empty() {
            if !self.take_next(decided).await {
                return false;
            }
        }
        let more =
            async { while decided.len() < BATCH_TRANSITIONS && self.take_next(decided).await {} };
        // Both ends of the wait are good.
        let _ = timeout(GATHER, more).await;
        true
    }

    async fn take_next(&mut self, decided: &mut HashMap<UserId, Transition>) -> bool {
        match self.changes.recv().await {
            Ok(Change::Decided(transition)) => {
                self.fanout.metrics.routing.decided(transition.is_online);
                // Whoever is back at once was away nevertheless, and may be gone with the next crash.
                if let Some(last_seen) = transition.last_seen {
                    self.lazy_writes.left(&transition.user_id, last_seen);
                }
                decided.insert(transition.user_id.clone(), transition);
            }
            Ok(Change::Transition(_) | Change::Gap) => {}
            Err(broadcast::error::RecvError::Lagged(count)) => {
                warn!(count, "transitions came faster than they could be told");
                self.fanout.metrics.transitions_untold.inc_by(count);
            }
            Err(broadcast::error::RecvError::Closed) => return false,
        }
        true
    }

    async fn tell(&self, transitions: Vec<Transition>) {
        let user_ids: Vec<UserId> = transitions.iter().map(|it| it.user_id.clone()).collect();
        let companions = self.members.companions(&user_ids, ACTIVE_WITHIN, CHAT_MEMBERS_MAX);
        let companions = match timeout(COMPANIONS_DEADLINE, companions).await {
            Ok(Ok(companions)) => companions,
            Ok(Err(error)) => return self.untold(transitions.len(), &error.to_string()),
            Err(_) => return self.untold(transitions.len(), "the store did not answer in time"),
        };
        let news = transitions.into_iter().zip(companions).filter(|(_, them)| !them.is_empty());
        let news: Vec<(Transition, Vec<UserId>)> = news.collect();
        for batch in news.chunks(NEWS_PER_ENVELOPE) {
            self.send(batch).await;
        }
    }

    fn untold(&self, count: usize, reason: &str) {
        warn!(count, reason, "those who share a chat could not be told who came and left");
        self.fanout.metrics.transitions_untold.inc_by(count as u64);
    }

    /// One envelope per node with everything that concerns its users.
    async fn send(&self, batch: &[(Transition, Vec<UserId>)]) {
        let mut observers: Vec<UserId> = batch.iter().flat_map(|(_, them)| them).cloned().collect();
        observers.sort_unstable();
        observers.dedup();
        let whereabouts = self.fanout.whereabouts(&observers.into()).await.unwrap_or_default();
        for (node_id, here) in &whereabouts.nodes {
            let here: HashSet<&UserId> = here.iter().collect();
            let is_here = |observer: &&UserId| here.contains(*observer);
            let narrowed = |(transition, them): &(Transition, Vec<UserId>)| PresenceNews {
                transition: transition.clone(),
                observer_ids: them.iter().filter(is_here).cloned().collect(),
            };
            self.send_to(node_id, batch.iter().map(narrowed).collect()).await;
        }
        let all = |(transition, them): &(Transition, Vec<UserId>)| PresenceNews {
            transition: transition.clone(),
            observer_ids: them.as_slice().into(),
        };
        self.send_to(&self.fanout.node_id, batch.iter().map(all).collect()).await;
    }

    async fn send_to(&self, node_id: &NodeId, mut news: Vec<PresenceNews>) {
        news.retain(|news| !news.observer_ids.is_empty());
        if !news.is_empty() {
            self.fanout.send(node_id, Envelope::Presence(news)).await;
        }
    }
}
