//! The metrics of a node that renews its leases.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use heartline_protocol::{ConnectionId, Timestamp};
use heartline_routing::renewal::{ConnectionCounts, LeaseLosses, LocalLeases, Renewal};
use heartline_routing::{
    Directory, Lease, LeaseKey, LeaseKind, Leases, LocalLink, MemoryDirectory, NodeRecord, Policy,
    PresenceState, PresenceStates, RoutingMetrics,
};
use heartline_runtime::{Clock, TaskSet};
use tokio::time::{advance, sleep};

const NODE: &str = "node-1";

/// The connections of a node without a gateway.
#[derive(Default)]
struct Held {
    leases: Vec<Lease>,
    healed: Mutex<Vec<LeaseKey>>,
}

impl LocalLeases for Held {
    fn leases_to_renew(&self, slice: u64, slices: u64) -> Vec<LeaseKey> {
        let keys = self.leases.iter().map(|lease| lease.key.clone());
        keys.filter(|key| key.connection_id.ulid.0 as u64 % slices == slice).collect()
    }

    fn leases_to_extend(&self, slice: u64, slices: u64) -> Vec<LeaseKey> {
        self.leases_to_renew(slice, slices)
    }

    fn lease_again(&self, key: &LeaseKey) -> Option<Lease> {
        self.leases.iter().find(|lease| lease.key == *key).cloned()
    }

    fn counts(&self) -> ConnectionCounts {
        ConnectionCounts { connections: self.leases.len(), multi_device_users: 3 }
    }
}

impl LeaseLosses for Held {
    fn lease_healed(&self, key: &LeaseKey) {
        self.healed.lock().unwrap().push(key.clone());
    }

    fn all_healed(&self) {}

    fn lease_replaced(&self, _: &LeaseKey) {}
}

fn lease(user: &str, node: &str, number: u128) -> Lease {
    let key = LeaseKey {
        user_id: user.parse().unwrap(),
        node_id: node.parse().unwrap(),
        connection_id: ConnectionId { ulid: number.into(), shard: 0 },
    };
    let device_id = format!("device-{number}").parse().unwrap();
    Lease { key, device_id, kind: LeaseKind::Chat, age: Duration::ZERO, again: false }
}

fn renewal(directory: &Arc<MemoryDirectory>, held: &Arc<Held>) -> Renewal {
    let Directory { leases, connections, nodes, .. } = Directory::new(Arc::clone(directory));
    Renewal {
        leases,
        connections,
        nodes,
        local: Arc::clone(held) as _,
        losses: Arc::clone(held) as _,
        link: Arc::new(LocalLink::new(NODE.parse().unwrap()).0),
        node: NodeRecord {
            node_id: NODE.parse().unwrap(),
            address: None,
            planes: String::new(),
            started_at: Timestamp { unix_ms: 0 },
            connections: 0,
        },
        policy: Policy {
            single_session: false,
            connections_per_user: 20,
            lease: Duration::from_secs(15),
            offline_linger: Duration::ZERO,
        },
        renew_interval: Duration::from_secs(5),
        clock: Clock::system(),
        metrics: RoutingMetrics::default(),
    }
}

#[tokio::test(start_paused = true)]
async fn renewals_are_counted_by_lease_and_a_lost_one_is_claimed_once() {
    let directory = Arc::new(MemoryDirectory::new(1, Clock::system()));
    let leases = vec![lease("ana", NODE, 1), lease("bo", NODE, 2)];
    let held = Arc::new(Held { leases: leases.clone(), ..Held::default() });
    let renewal = renewal(&directory, &held);
    let metrics = renewal.metrics.clone();
    directory.register(leases[0].clone(), renewal.policy).await.unwrap();
    let mut tasks = TaskSet::new();
    tasks.spawn(renewal.run());
    // Two rounds of five seconds.
    sleep(Duration::from_millis(9500)).await;
    assert_eq!(metrics.renewals.get(), 4);
    assert_eq!((metrics.leases_lost.get(), metrics.leases_claimed_again.get()), (1, 1));
    assert_eq!(*held.healed.lock().unwrap(), [leases[1].key.clone()]);
    assert_eq!((metrics.connections_unleased.get(), metrics.multi_device_users.get()), (0, 3));
    assert_eq!((metrics.renewals_failed.get(), metrics.announcements_failed.get()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_not_unregistered_is_counted_when_it_is_swept() {
    let directory = Arc::new(MemoryDirectory::new(1, Clock::system()));
    let renewal = renewal(&directory, &Arc::default());
    let (metrics, policy) = (renewal.metrics.clone(), renewal.policy);
    let (crashed, left) = (lease("ana", "node-2", 1), lease("bo", "node-2", 2));
    for lease in [&crashed, &left] {
        directory.register(lease.clone(), policy).await.unwrap();
    }
    directory.unregister(&left.key, Duration::from_secs(2)).await.unwrap();
    let mut tasks = TaskSet::new();
    tasks.spawn(renewal.sweep_for_ever(Duration::from_secs(1)));
    sleep(Duration::from_millis(14_500)).await;
    assert_eq!(metrics.leases_swept.get(), 0);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(metrics.leases_swept.get(), 1, "a lingering user disconnected in order");
    assert_eq!(metrics.sweeps_failed.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn after_a_pause_of_the_process_no_open_connection_is_swept() {
    let directory = Arc::new(MemoryDirectory::new(1, Clock::system()));
    let (here, crashed) = (lease("ana", NODE, 1), lease("bo", "node-2", 2));
    let held = Arc::new(Held { leases: vec![here.clone()], ..Held::default() });
    let renewal = renewal(&directory, &held);
    let metrics = renewal.metrics.clone();
    for lease in [&here, &crashed] {
        directory.register(lease.clone(), renewal.policy).await.unwrap();
    }
    let mut tasks = TaskSet::new();
    tasks.spawn(renewal.sweep_for_ever(Duration::from_secs(1)));
    sleep(Duration::from_millis(500)).await;
    // Time passes while no task of this process runs.
    advance(Duration::from_secs(20)).await;
    sleep(Duration::from_millis(500)).await;
    let users = [here, crashed].map(|lease| lease.key.user_id);
    let states = directory.presence(&users).await.unwrap();
    assert!(matches!(states[0], PresenceState::Online { .. }), "{states:?}");
    assert!(matches!(states[1], PresenceState::Offline { .. }), "{states:?}");
    assert_eq!(metrics.leases_swept.get(), 1);
}
