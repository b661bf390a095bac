//! Transitions while the store fails or hangs.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use heartline_durability::{LazyStore, LazyWrites, StoreError, Watermark};
use heartline_fanout::{Audience, Audiences, Fanout, Metrics, PresenceFanout};
use heartline_protocol::{ChatId, ConnectionId, NodeId, Timestamp, UserId};
use heartline_routing::{
    Envelope, Lease, LeaseKey, LeaseKind, Leases, LocalLink, MemoryDirectory, NoSockets, Policy,
    Routes,
};
use heartline_runtime::{Clock, TaskSet};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

/// The behaviour of the store when it reads companions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behaviour {
    Answers,
    Fails,
    Hangs,
}

/// A store in which every user shares a chat with bo.
#[derive(Debug)]
struct Store {
    behaviour: watch::Sender<Behaviour>,
    calls: watch::Sender<usize>,
    seen: Mutex<HashSet<UserId>>,
}

#[async_trait]
impl Audiences for Store {
    async fn audience(&self, _: ChatId) -> Result<Option<Audience>, StoreError> {
        Ok(None)
    }

    async fn companions(
        &self,
        user_ids: &[UserId],
        _: Duration,
        _: usize,
    ) -> Result<Vec<Vec<UserId>>, StoreError> {
        self.calls.send_modify(|calls| *calls += 1);
        let mut behaviour = self.behaviour.subscribe();
        let behaviour =
            *behaviour.wait_for(|behaviour| *behaviour != Behaviour::Hangs).await.unwrap();
        match behaviour {
            Behaviour::Fails => Err(StoreError::rejected("it is down")),
            _ => Ok(vec![vec!["bo".parse().unwrap()]; user_ids.len()]),
        }
    }
}

#[async_trait]
impl LazyStore for Store {
    async fn record_watermarks(&self, _: Vec<Watermark>) -> Result<(), StoreError> {
        Ok(())
    }

    async fn record_last_seen(&self, seen: Vec<(UserId, Timestamp)>) -> Result<(), StoreError> {
        self.seen.lock().unwrap().extend(seen.into_iter().map(|(user_id, _)| user_id));
        Ok(())
    }
}

struct Stage {
    directory: Arc<MemoryDirectory>,
    store: Arc<Store>,
    lazy_writes: LazyWrites,
    envelopes: mpsc::Receiver<Envelope>,
    metrics: Metrics,
    _tasks: TaskSet<()>,
}

fn stage(behaviour: Behaviour) -> Stage {
    let node_id: NodeId = "node-1".parse().unwrap();
    let (link, envelopes) = LocalLink::new(node_id.clone());
    let (directory, metrics) =
        (Arc::new(MemoryDirectory::new(1, Clock::system())), Metrics::default());
    let fanout = Fanout {
        node_id,
        routes: Arc::clone(&directory) as Arc<dyn Routes>,
        link: Arc::new(link),
        sockets: Arc::new(NoSockets),
        clock: Clock::system(),
        metrics: metrics.clone(),
    };
    let store = Arc::new(Store {
        behaviour: watch::Sender::new(behaviour),
        calls: watch::Sender::new(0),
        seen: Mutex::default(),
    });
    let lazy_writes = LazyWrites::new(heartline_durability::Metrics::default());
    let audiences = Arc::clone(&store) as Arc<dyn Audiences>;
    let mut tasks = TaskSet::new();
    tasks.spawn(PresenceFanout::new(fanout, &*directory, audiences, lazy_writes.clone()).run());
    Stage { directory, store, lazy_writes, envelopes, metrics, _tasks: tasks }
}

impl Stage {
    /// Connects and disconnects a user at once.
    async fn visit(&self, number: usize) {
        let key = LeaseKey {
            user_id: format!("user-{number}").parse().unwrap(),
            node_id: "node-1".parse().unwrap(),
            connection_id: ConnectionId { ulid: (number as u128).into(), shard: 0 },
        };
        let (device_id, kind) = ("phone".parse().unwrap(), LeaseKind::Chat);
        let lease = Lease { key: key.clone(), device_id, kind, age: Duration::ZERO, again: false };
        let policy = Policy {
            single_session: false,
            connections_per_user: 1,
            lease: Duration::from_secs(60),
            offline_linger: Duration::ZERO,
        };
        self.directory.register(lease, policy).await.unwrap();
        self.directory.unregister(&key, Duration::ZERO).await.unwrap();
    }

    /// Waits until the store was called so often.
    async fn asked(&self, times: usize) {
        let mut calls = self.store.calls.subscribe();
        let asked = timeout(Duration::from_secs(60), calls.wait_for(|asked| *asked >= times));
        asked.await.expect("the store is asked in time").unwrap();
    }

    /// The number of transitions in the next envelope.
    async fn news(&mut self) -> usize {
        let envelope = timeout(Duration::from_secs(60), self.envelopes.recv()).await;
        match envelope.expect("news come in time").unwrap() {
            Envelope::Presence(news) => news.len(),
            other => panic!("{other:?} is no news"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn transitions_are_sent_when_companions_can_be_read_again() {
    let mut stage = stage(Behaviour::Fails);
    stage.visit(1).await;
    stage.asked(2).await;
    stage.visit(2).await;
    stage.asked(3).await;
    assert!(stage.envelopes.is_empty());
    stage.store.behaviour.send_replace(Behaviour::Answers);
    assert_eq!(stage.news().await, 2, "the latest of each");
    assert_eq!(stage.metrics.transitions_untold.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn transitions_are_received_while_the_store_hangs() {
    const VISITORS: usize = 10_000;
    let mut stage = stage(Behaviour::Hangs);
    stage.visit(0).await;
    stage.asked(1).await;
    for number in 1..VISITORS {
        stage.visit(number).await;
        tokio::task::yield_now().await;
    }
    stage.store.behaviour.send_replace(Behaviour::Answers);
    let mut sent = 0;
    while sent < VISITORS {
        sent += stage.news().await;
    }
    stage.lazy_writes.write(&*stage.store).await;
    assert_eq!(stage.store.seen.lock().unwrap().len(), VISITORS, "and when they were last seen");
    assert_eq!(stage.metrics.transitions_untold.get(), 0);
}
