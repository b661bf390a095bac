//! Tells those who share an active chat with somebody that they came or left.
//!
//! The node whose call decided a transition does it, and no other. Whoever it does not reach, and
//! who was told of that person before, is told by their own node, which hears every transition.

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

/// How long to wait after the store could not say who shares a chat.
const RETRY: Duration = Duration::from_secs(1);

/// Users whose transition may wait to be told. Beyond, further ones are not told.
const UNTOLD_MAX: usize = 50_000;

/// Takes up the transitions that this node's own calls decided.
#[derive(Debug)]
pub struct PresenceFanout {
    decisions: Decisions,
    teller: Teller,
}

/// Hears what is decided, and records when users were last seen.
#[derive(Debug)]
struct Decisions {
    changes: broadcast::Receiver<Change>,
    lazy_writes: LazyWrites,
    metrics: Metrics,
}

/// Tells those who share an active chat.
#[derive(Debug)]
struct Teller {
    fanout: Fanout,
    audiences: Arc<dyn Audiences>,
}

/// What is to be told: the latest transition of each user.
type Untold = Map<UserId, Transition>;

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
        Self { decisions, teller: Teller { fanout, audiences } }
    }

    /// Works until the directory is gone.
    pub async fn run(self) {
        let Self { mut decisions, teller } = self;
        let mut untold = Untold::default();
        while decisions.gather(&mut untold).await {
            let batch = next_batch(&mut untold);
            let left = decisions.take_during(teller.tell(batch), &mut untold).await;
            if left.is_empty() {
                continue;
            }
            for transition in left {
                // What was decided meanwhile is later.
                untold.entry(transition.user_id.clone()).or_insert(transition);
            }
            decisions.take_during(sleep(RETRY), &mut untold).await;
        }
    }
}

/// As many as are read together.
fn next_batch(untold: &mut Untold) -> Vec<Transition> {
    let user_ids: Vec<UserId> = untold.keys().take(BATCH_TRANSITIONS).cloned().collect();
    user_ids.iter().filter_map(|user_id| untold.remove(user_id)).collect()
}

// === impl Decisions ===

impl Decisions {
    /// Waits for a transition, and a little longer for those that come with it. False when there
    /// will be no more.
    async fn gather(&mut self, untold: &mut Untold) -> bool {
        while untold.is_empty() {
            if !self.take_next(untold).await {
                return false;
            }
        }
        let more = async {
            while untold.len() < BATCH_TRANSITIONS {
                if !self.take_next(untold).await {
                    return false;
                }
            }
            true
        };
        timeout(GATHER, more).await.unwrap_or(true)
    }

    /// Takes up what is decided until something else is done: what waits too long to be taken up is
    /// lost, and with it when somebody was last seen.
    async fn take_during<T>(&mut self, work: impl Future<Output = T>, untold: &mut Untold) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                // The work first: it ends the loop, and what is left is taken up by the next.
                biased;
                done = &mut work => return done,
                is_open = self.take_next(untold) => if !is_open {
                    return work.await;
                },
            }
        }
    }

    /// Stop 4 of the life of a presence transition: picked up. False when there will be no more.
    async fn take_next(&mut self, untold: &mut Untold) -> bool {
        match self.changes.recv().await {
            Ok(Change::Decided(transition)) => {
                tracing::trace!(target: "heartline::life", presence_stop = 4, "picked up");
                self.metrics.routing.decided(transition.is_online);
                // Whoever is back at once was away nevertheless, and may be gone with the next crash.
                if let Some(last_seen) = transition.last_seen {
                    self.lazy_writes.left(&transition.user_id, last_seen);
                }
                if untold.len() < UNTOLD_MAX || untold.contains_key(&transition.user_id) {
                    untold.insert(transition.user_id.clone(), transition);
                } else {
                    self.metrics.transitions_untold.inc();
                }
            }
            Ok(Change::Transition(_) | Change::Gap) => {}
            Err(broadcast::error::RecvError::Lagged(count)) => {
                warn!(count, "transitions came faster than they could be taken up");
                self.metrics.transitions_untold.inc_by(count);
            }
            Err(broadcast::error::RecvError::Closed) => return false,
        }
        true
    }
}

// === impl Teller ===

impl Teller {
    /// Stop 5 of the life of a presence transition: addressed. Reads who shares an active chat with
    /// these users; answers those that must be told later, because the store did not say to whom.
    async fn tell(&self, transitions: Vec<Transition>) -> Vec<Transition> {
        tracing::trace!(target: "heartline::life", presence_stop = 5, "addressed");
        let user_ids: Vec<UserId> = transitions.iter().map(|it| it.user_id.clone()).collect();
        let companions = self.audiences.companions(&user_ids, ACTIVE_WITHIN, CHAT_MEMBERS_MAX);
        let error = match timeout(COMPANIONS_DEADLINE, companions).await {
            Ok(Ok(companions)) => {
                self.tell_them(transitions, companions).await;
                return Vec::new();
            }
            Ok(Err(error)) => Chain(&error).to_string(),
            Err(_) => "the store did not answer in time".to_owned(),
        };
        let count = transitions.len();
        warn!(count, error, "reading companions failed; their presence updates are delayed");
        transitions
    }

    async fn tell_them(&self, transitions: Vec<Transition>, companions: Vec<Vec<UserId>>) {
        let news = transitions.into_iter().zip(companions).filter(|(_, them)| !them.is_empty());
        let news: Vec<(Transition, Vec<UserId>)> = news.collect();
        for batch in news.chunks(NEWS_PER_ENVELOPE) {
            self.send(batch).await;
        }
    }

    /// One envelope per node with everything that concerns its users.
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
