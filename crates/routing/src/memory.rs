//! The [`Directory`] of a single node, in memory.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use heartline_protocol::{ConnectionId, DeviceId, NodeId, UserId};
use tokio::time::Instant;

use crate::clock::Clock;
use crate::directory::{Directory, DirectoryError, Policy, Refusal, Registration, Route};
use crate::lease::{Lease, LeaseKey, LeaseKind, LiveConnection, shard_of};

/// Leases in memory, in shards of users, each behind its own lock that is never held across an
/// await.
#[derive(Debug)]
pub struct MemoryDirectory {
    clock: Clock,
    shards: Vec<Mutex<Shard>>,
    /// The first node that registered here, usually the only one.
    first_node: OnceLock<NodeId>,
    /// Whether another one ever did: until then there is nowhere else to route to.
    has_other_nodes: AtomicBool,
}

type Shard = HashMap<UserId, Vec<Held>>;

/// A lease that is held.
#[derive(Debug)]
struct Held {
    connection_id: ConnectionId,
    node_id: NodeId,
    device_id: DeviceId,
    kind: LeaseKind,
    connected_at: Instant,
    ends_at: Instant,
}

impl MemoryDirectory {
    /// An empty directory of so many shards.
    pub fn new(shards: u16, clock: Clock) -> Self {
        assert!(shards > 0, "a directory has at least one shard");
        Self {
            clock,
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            first_node: OnceLock::new(),
            has_other_nodes: AtomicBool::new(false),
        }
    }

    fn shard(&self, user_id: &UserId) -> MutexGuard<'_, Shard> {
        // The count came from a u16, so the cast cannot cut it.
        self.lock(shard_of(user_id, self.shards.len() as u16))
    }

    fn lock(&self, shard: u16) -> MutexGuard<'_, Shard> {
        let shard = &self.shards[usize::from(shard) % self.shards.len()];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Directory ===

#[async_trait]
impl Directory for MemoryDirectory {
    async fn register(&self, lease: Lease, policy: Policy) -> Result<Registration, DirectoryError> {
        let first_node = self.first_node.get_or_init(|| lease.key.node_id.clone());
        if *first_node != lease.key.node_id {
            self.has_other_nodes.store(true, Ordering::Relaxed);
        }
        let user_id = lease.key.user_id.clone();
        let mut shard = self.shard(&user_id);
        // Read under the lock: whoever registers later is younger.
        let now = self.clock.now();
        let held = shard.entry(user_id.clone()).or_default();
        let registration = register(held, lease, policy, now);
        if held.is_empty() {
            shard.remove(&user_id);
        }
        Ok(registration)
    }

    async fn renew(
        &self,
        leases: &[LeaseKey],
        duration: Duration,
    ) -> Result<Vec<LeaseKey>, DirectoryError> {
        let now = self.clock.now();
        let renewed = |key: &LeaseKey| {
            let mut shard = self.shard(&key.user_id);
            let held = shard.get_mut(&key.user_id)?;
            let held = held.iter_mut().find(|held| held.is(key) && held.ends_at > now)?;
            held.ends_at = now + duration;
            Some(())
        };
        Ok(leases.iter().filter(|key| renewed(key).is_none()).cloned().collect())
    }

    async fn unregister(&self, lease: &LeaseKey) -> Result<(), DirectoryError> {
        let mut shard = self.shard(&lease.user_id);
        if let Entry::Occupied(mut user) = shard.entry(lease.user_id.clone()) {
            user.get_mut().retain(|held| !held.is(lease));
            if user.get().is_empty() {
                user.remove();
            }
        }
        Ok(())
    }

    async fn routes(
        &self,
        user_ids: &[UserId],
        own: &NodeId,
    ) -> Result<Vec<Route>, DirectoryError> {
        let mut routes: Vec<Route> = Vec::new();
        let is_only_node = self.first_node.get() == Some(own);
        if is_only_node && !self.has_other_nodes.load(Ordering::Relaxed) {
            return Ok(routes);
        }
        let now = self.clock.now();
        for user_id in user_ids {
            let shard = self.shard(user_id);
            for held in shard.get(user_id).map_or(&[][..], Vec::as_slice) {
                let counts = held.ends_at > now && held.kind == LeaseKind::Chat;
                if counts && held.node_id != *own {
                    add_route(&mut routes, &held.node_id, user_id);
                }
            }
        }
        Ok(routes)
    }

    async fn by_user(
        &self,
        user_ids: &[UserId],
    ) -> Result<Vec<Vec<LiveConnection>>, DirectoryError> {
        let now = self.clock.now();
        let live = |user_id: &UserId| {
            let shard = self.shard(user_id);
            let held = shard.get(user_id).map_or(&[][..], Vec::as_slice);
            held.iter().filter_map(|held| held.live(user_id, now)).collect()
        };
        Ok(user_ids.iter().map(live).collect())
    }

    async fn by_node(&self, node_id: &NodeId) -> Result<Vec<LiveConnection>, DirectoryError> {
        let now = self.clock.now();
        let mut live = Vec::new();
        for shard in 0..self.shards.len() as u16 {
            for (user_id, held) in &*self.lock(shard) {
                let here = held.iter().filter(|held| held.node_id == *node_id);
                live.extend(here.filter_map(|held| held.live(user_id, now)));
            }
        }
        Ok(live)
    }

    async fn by_connection(
        &self,
        connection_id: ConnectionId,
    ) -> Result<Option<LiveConnection>, DirectoryError> {
        let now = self.clock.now();
        let shard = self.lock(connection_id.shard);
        let mut all =
            shard.iter().flat_map(|(user_id, held)| held.iter().map(move |h| (user_id, h)));
        let found = all.find(|(_, held)| held.connection_id == connection_id);
        Ok(found.and_then(|(user_id, held)| held.live(user_id, now)))
    }

    async fn sweep(&self, limit: usize) -> Result<Vec<LeaseKey>, DirectoryError> {
        let now = self.clock.now();
        let mut swept = Vec::new();
        for shard in 0..self.shards.len() as u16 {
            self.lock(shard).retain(|user_id, held| {
                let mut room = limit - swept.len();
                let ended = held.extract_if(.., |held| {
                    let ended = held.ends_at <= now && room > 0;
                    room -= usize::from(ended);
                    ended
                });
                swept.extend(ended.map(|held| held.key(user_id)));
                !held.is_empty()
            });
        }
        Ok(swept)
    }
}

/// The one decision, over the leases of one user.
fn register(held: &mut Vec<Held>, lease: Lease, policy: Policy, now: Instant) -> Registration {
    held.retain(|held| held.ends_at > now);
    if let Some(own) = held.iter_mut().find(|held| held.is(&lease.key)) {
        own.ends_at = now + policy.lease;
        return Registration::Admitted { replaced: Vec::new() };
    }

    let connected_at = now.checked_sub(lease.age).unwrap_or(now);
    let contested = |held: &Held| {
        held.kind == lease.kind && (policy.single_session || held.device_id == lease.device_id)
    };
    // Of two sockets that opened in the same instant the larger id wins, on every node alike.
    let younger = |held: &Held| {
        (held.connected_at, held.connection_id) > (connected_at, lease.key.connection_id)
    };
    if held.iter().any(|held| contested(held) && younger(held)) {
        return Registration::Refused(Refusal::Replaced);
    }
    let staying = held.iter().filter(|held| !contested(held)).count();
    if !lease.again && staying >= policy.connections_per_user {
        return Registration::Refused(Refusal::ConnectionLimit);
    }

    let user_id = &lease.key.user_id;
    let replaced =
        held.extract_if(.., |held| contested(held)).map(|held| held.key(user_id)).collect();
    // Most users have one connection: growing by one keeps the table small.
    held.reserve_exact(1);
    held.push(Held {
        connection_id: lease.key.connection_id,
        node_id: lease.key.node_id,
        device_id: lease.device_id,
        kind: lease.kind,
        connected_at,
        ends_at: now + policy.lease,
    });
    Registration::Admitted { replaced }
}

fn add_route(routes: &mut Vec<Route>, node_id: &NodeId, user_id: &UserId) {
    let known = routes.iter().position(|route| route.node_id == *node_id);
    let index = known.unwrap_or_else(|| {
        let node_id = node_id.clone();
        routes.push(Route { node_id, user_ids: Vec::new(), connections: 0 });
        routes.len() - 1
    });
    let route = &mut routes[index];
    route.connections += 1;
    if route.user_ids.last() != Some(user_id) {
        route.user_ids.push(user_id.clone());
    }
}

// === impl Held ===

impl Held {
    fn is(&self, key: &LeaseKey) -> bool {
        self.connection_id == key.connection_id && self.node_id == key.node_id
    }

    fn key(&self, user_id: &UserId) -> LeaseKey {
        LeaseKey {
            user_id: user_id.clone(),
            node_id: self.node_id.clone(),
            connection_id: self.connection_id,
        }
    }

    fn live(&self, user_id: &UserId, now: Instant) -> Option<LiveConnection> {
        (self.ends_at > now).then(|| LiveConnection {
            key: self.key(user_id),
            device_id: self.device_id.clone(),
            kind: self.kind,
            age: now - self.connected_at,
            remaining: self.ends_at - now,
        })
    }
}
