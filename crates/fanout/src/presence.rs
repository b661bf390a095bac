//! Sends a user's presence transitions to the users who share an active chat with them.
//!
//! Only the node whose call decided a transition sends it. An observer that it does not reach, and
//! that already watches the user, is notified by its own node, which receives every transition.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use heartline_durability::{Chain, LazyWrites};
use heartline_protocol::{NodeId, UserId};
use heartline_routing::{Change, Envelope, PresenceNews, PresenceStates, Transition};
use heartline_runtime::{Map, Set};
use tokio::sync::broadcast;
use tokio::time::{sleep, timeout};
use tracing::warn;

use crate::audiences::Audiences;
use crate::deliver::Fanout;
use crate::metrics::Metrics;

/// How long transitions are collected, so that a wave of them is read and sent together.
const GATHER_TIME: Duration = Duration::from_millis(100);

/// Transitions that are read together, at most.
const BATCH_TRANSITIONS: usize = 500;

/// The chats in which presence is sent without a subscription: by age of the last message and by
/// size.
const ACTIVE_WITHIN: Duration = Duration::from_secs(24 * 60 * 60);
const CHAT_MEMBERS_MAX: usize = 100;

/// The deadline for reading the companions of users.
const COMPANIONS_DEADLINE: Duration = Duration::from_secs(2);

/// Transitions in one envelope, at most, each with all of its observers.
const NEWS_PER_ENVELOPE: usize = 100;

/// The pause after companions could not be read.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Users with a pending transition, at most. Further transitions are dropped.
const PENDING_MAX: usize = 50_000;

/// Sends the transitions that this node's own calls decided.
#[derive(Debug)]
pub struct PresenceFanout {
    decisions: Decisions,
    notifier: Notifier,
}

/// Receives decided transitions, and records last-seen times.
#[derive(Debug)]
struct Decisions {
    changes: broadcast::Receiver<Change>,
    lazy_writes: LazyWrites,
    metrics: Metrics,
}

/// Sends transitions to the users who share an active chat.
#[derive(Debug)]
struct Notifier {
    fanout: Fanout,
    audiences: Arc<dyn Audiences>,
}

/// The latest transition of each user that is not sent yet.
type Pending = Map<UserId, Transition>;

impl PresenceFanout {
    /// Delivers the transitions that the directory decides from now on.
    pub fn new(
        fanout: Fanout,
        presence: &dyn PresenceStates,
        audiences: Arc<dyn Audiences>,
        lazy_writes: LazyWrites,
    ) -> Self {
        let (changes, metrics) = (presence.changes(), fanout.metrics.clone());
        let decisions = Decisions { changes, lazy_writes, metrics };
        Self { decisions, notifier: Notifier { fanout, audiences } }
    }

    /// Runs until the directory is dropped.
    pub async fn run(self) {
        let Self { mut decisions, notifier } = self;
        let mut pending = Pending::default();
        while decisions.gather(&mut pending).await {
            let batch = next_batch(&mut pending);
            let left = decisions.receive_during(notifier.notify(batch), &mut pending).await;
            if left.is_empty() {
                continue;
            }
            for transition in left {
                // A transition that arrived meanwhile is later.
                pending.entry(transition.user_id.clone()).or_insert(transition);
            }
            decisions.receive_during(sleep(RETRY_PAUSE), &mut pending).await;
        }
    }
}

/// The next transitions to read together.
fn next_batch(pending: &mut Pending) -> Vec<Transition> {
    let user_ids: Vec<UserId> = pending.keys().take(BATCH_TRANSITIONS).cloned().collect();
    user_ids.iter().filter_map(|user_id| pending.remove(user_id)).collect()
}

// === impl Decisions ===

impl Decisions {
    /// Waits for a transition, and a little longer for those that follow it. False after the last
    /// one.
    async fn gather(&mut self, pending: &mut Pending) -> bool {
        while pending.is_empty() {
            if !self.receive(pending).await {
                return false;
            }
        }
        let more = async {
            while pending.len() < BATCH_TRANSITIONS {
                if !self.receive(pending).await {
                    return false;
                }
            }
            true
        };
        timeout(GATHER_TIME, more).await.unwrap_or(true)
    }

    /// Receives transitions until other work is done: one that is not received in time is lost, and
    /// with it a last-seen time.
    async fn receive_during<T>(
        &mut self,
        work: impl Future<Output = T>,
        pending: &mut Pending,
    ) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                // The work first: it ends the loop, and the next call receives the rest.
                biased;
                done = &mut work => return done,
                is_open = self.receive(pending) => if !is_open {
                    return work.await;
                },
            }
        }
    }

    /// Stop 4 of the life of a presence transition: picked up. False after the last one.
    async fn receive(&mut self, pending: &mut Pending) -> bool {
        match self.changes.recv().await {
            Ok(Change::Decided(transition)) => {
                tracing::trace!(target: "heartline::life", presence_stop = 4, "picked up");
                self.metrics.routing.decided(transition.is_online);
                // The last-seen time is recorded even if the user has reconnected: the next crash
                // could lose it.
                if let Some(last_seen) = transition.last_seen {
                    self.lazy_writes.left(&transition.user_id, last_seen);
                }
                if pending.len() < PENDING_MAX || pending.contains_key(&transition.user_id) {
                    pending.insert(transition.user_id.clone(), transition);
                } else {
                    self.metrics.transitions_untold.inc();
                }
            }
            Ok(Change::Transition(_) | Change::Gap) => {}
            Err(broadcast::error::RecvError::Lagged(count)) => {
                warn!(count, "presence transitions dropped: too many at once");
                self.metrics.transitions_untold.inc_by(count);
            }
            Err(broadcast::error::RecvError::Closed) => return false,
        }
        true
    }
}

// === impl Notifier ===

impl Notifier {
    /// Stop 5 of the life of a presence transition: addressed. Reads the users who share an active
    /// chat, and returns the transitions to retry if they could not be read.
    async fn notify(&self, transitions: Vec<Transition>) -> Vec<Transition> {
        tracing::trace!(target: "heartline::life", presence_stop = 5, "addressed");
        let user_ids: Vec<UserId> = transitions.iter().map(|it| it.user_id.clone()).collect();
        let companions = self.audiences.companions(&user_ids, ACTIVE_WITHIN, CHAT_MEMBERS_MAX);
        let error = match timeout(COMPANIONS_DEADLINE, companions).await {
            Ok(Ok(companions)) => {
                self.send_all(transitions, companions).await;
                return Vec::new();
            }
            Ok(Err(error)) => Chain(&error).to_string(),
            Err(_) => "the store did not answer in time".to_owned(),
        };
        let count = transitions.len();
        warn!(count, error, "reading companions failed; their presence updates are delayed");
        transitions
    }

    async fn send_all(&self, transitions: Vec<Transition>, companions: Vec<Vec<UserId>>) {
        let news = transitions.into_iter().zip(companions).filter(|(_, them)| !them.is_empty());
        let news: Vec<(Transition, Vec<UserId>)> = news.collect();
        for batch in news.chunks(NEWS_PER_ENVELOPE) {
            self.send(batch).await;
        }
    }

    /// Sends one envelope per node with all transitions that concern its users.
    async fn send(&self, batch: &[(Transition, Vec<UserId>)]) {
        let mut observers: Vec<UserId> = batch.iter().flat_map(|(_, them)| them).cloned().collect();
        observers.sort_unstable();
        observers.dedup();
        let routes = self.fanout.routes_of(&observers.into()).await.unwrap_or_default();
        for (node_id, here) in &routes.nodes {
            let here: Set<&UserId> = here.iter().collect();
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

    /// Stop 6 of the life of a presence transition: sent, with all others that concern this node.
    async fn send_to(&self, node_id: &NodeId, mut news: Vec<PresenceNews>) {
        news.retain(|news| !news.observer_ids.is_empty());
        if !news.is_empty() {
            tracing::trace!(target: "heartline::life", presence_stop = 6, "sent");
            self.fanout.send(node_id, Envelope::Presence(news)).await;
        }
    }
}
