//! The suite that every [`DirectoryEngine`] must pass: it checks each promise of the ports'
//! documentation through the ports alone.
//!
//! The suite uses one or several directories on the same engine, as several nodes have. Every step
//! has users and nodes of its own, so that one engine can serve all steps in turn.

mod admission;
mod listeners;
mod leases;
mod nodes;
mod presence;
mod races;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use heartline_protocol::{ConnectionId, NodeId, Timestamp, UserId};
use tokio::time::{interval, sleep};

use crate::directory::{DirectoryEngine, NodeRecord, Policy, Registration};
use crate::lease::{Lease, LeaseKey, LeaseKind, shard_of};
use crate::presence::PresenceState;

/// Long enough for an engine on the same busy machine to answer, short enough to wait for.
const LEASE: Duration = Duration::from_secs(1);

/// Longer than any run.
const LONG: Duration = Duration::from_secs(600);

/// How often the directories are swept without removing anything, as nodes do all the time.
const SWEEP_INTERVAL: Duration = Duration::from_millis(500);

/// The directories on one engine, with unused names.
#[derive(Debug)]
pub struct Contract<'engine> {
    shards: u16,
    directories: &'engine [&'engine dyn DirectoryEngine],
    names: AtomicU64,
}

/// A policy with leases of this length.
fn policy(lease: Duration) -> Policy {
    Policy {
        single_session: false,
        connections_per_user: 20,
        lease,
        offline_linger: Duration::ZERO,
    }
}

fn admitted(replaced: &[&Lease]) -> Registration {
    Registration::Admitted { replaced: replaced.iter().map(|lease| lease.key.clone()).collect() }
}

impl<'engine> Contract<'engine> {
    /// A suite for directories that divide users into so many shards. Each must have a node of its
    /// own, and several must share an engine.
    pub fn new(shards: u16, directories: &'engine [&'engine dyn DirectoryEngine]) -> Self {
        assert!(!directories.is_empty(), "there is a directory");
        Self { shards, directories, names: AtomicU64::new(1) }
    }

    /// Runs the whole suite.
    pub async fn run(&self) {
        tokio::select! {
            // The sweep first: it only waits for time.
            biased;
            () = self.sweep_nothing_for_ever() => {}
            () = self.prove() => {}
        }
    }

    async fn prove(&self) {
        self.prove_leases().await;
        self.prove_admission().await;
        self.prove_nodes().await;
        self.prove_presence().await;
        self.prove_races().await;
    }

    /// Sweeps all the time, because a directory that nobody sweeps stops deciding transitions.
    async fn sweep_nothing_for_ever(&self) {
        let mut ticks = interval(SWEEP_INTERVAL);
        loop {
            ticks.tick().await;
            let swept = self.first().sweep(0, policy(LEASE)).await;
            assert_eq!(swept.expect("the directory answers"), [], "a sweep keeps to its limit");
        }
    }

    /// The directory of one node.
    fn first(&self) -> &'engine dyn DirectoryEngine {
        self.directories[0]
    }

    /// The directory of another node, if there is one.
    fn other(&self) -> &'engine dyn DirectoryEngine {
        self.directories[self.directories.len() - 1]
    }

    fn number(&self) -> u64 {
        self.names.fetch_add(1, Ordering::Relaxed)
    }

    /// A new user id.
    fn user(&self) -> UserId {
        format!("contract-{}", self.number()).parse().expect("a legal user id")
    }

    /// A new node id.
    fn node(&self) -> NodeId {
        format!("node-{}", self.number()).parse().expect("a legal node id")
    }

    /// A new node that is announced.
    async fn announced_node(&self) -> NodeId {
        let node_id = self.node();
        let announced = self.first().announce(&record(&node_id), LONG).await;
        announced.expect("the directory answers");
        node_id
    }

    /// A new connection of a device.
    fn lease(&self, user_id: &UserId, node_id: &NodeId, device: &str) -> Lease {
        let shard = shard_of(user_id, self.shards);
        let ulid = u128::from(self.number()).into();
        Lease {
            key: LeaseKey {
                connection_id: ConnectionId { ulid, shard },
                user_id: user_id.clone(),
                node_id: node_id.clone(),
            },
            device_id: device.parse().expect("a legal device id"),
            kind: LeaseKind::Chat,
            age: Duration::ZERO,
            again: false,
        }
    }

    /// A new party connection of a device.
    fn party(&self, user_id: &UserId, node_id: &NodeId, device: &str) -> Lease {
        Lease { kind: LeaseKind::Party, ..self.lease(user_id, node_id, device) }
    }

    async fn register(&self, lease: &Lease, policy: Policy) -> Registration {
        self.first().register(lease.clone(), policy).await.expect("the directory answers")
    }

    /// Registers a lease that must be admitted and replaces none.
    async fn connect(&self, lease: &Lease, policy: Policy) {
        assert_eq!(self.register(lease, policy).await, admitted(&[]), "{lease:?}");
    }

    async fn disconnect(&self, lease: &Lease) {
        self.unregister(lease, Duration::ZERO).await;
    }

    async fn unregister(&self, lease: &Lease, keep: Duration) {
        self.first().unregister(&lease.key, keep).await.expect("the directory answers");
    }

    async fn renew(&self, lease: &Lease, duration: Duration) -> Vec<LeaseKey> {
        let keys = std::slice::from_ref(&lease.key);
        self.first().renew(keys, duration).await.expect("the directory answers")
    }

    /// Removes every expired lease.
    async fn sweep(&self, policy: Policy) -> Vec<LeaseKey> {
        self.other().sweep(1000, policy).await.expect("the directory answers")
    }

    /// The live connections of a user, ordered by id, as another node sees them.
    async fn live(&self, user_id: &UserId) -> Vec<LeaseKey> {
        let live = self.other().by_user(std::slice::from_ref(user_id)).await;
        let live = live.expect("the directory answers").into_iter().flatten();
        let mut keys: Vec<LeaseKey> = live.map(|live| live.key).collect();
        keys.sort_by_key(|key| key.connection_id);
        keys
    }

    async fn presence(&self, user_id: &UserId) -> PresenceState {
        let states = self.other().presence(std::slice::from_ref(user_id)).await;
        states.expect("the directory answers")[0]
    }

    async fn is_online(&self, user_id: &UserId) -> bool {
        matches!(self.presence(user_id).await, PresenceState::Online { .. })
    }

    /// Waits until a lease of [`LEASE`] has certainly expired.
    async fn outlive_lease(&self) {
        sleep(LEASE + LEASE / 4).await;
    }
}

fn record(node_id: &NodeId) -> NodeRecord {
    NodeRecord {
        node_id: node_id.clone(),
        address: Some("127.0.0.1:7000".to_owned()),
        planes: "gateway,fanout".to_owned(),
        started_at: Timestamp { unix_ms: 1_700_000_000_000 },
        connections: 3,
    }
}
