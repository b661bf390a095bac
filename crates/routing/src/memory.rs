//! The directory of a single node, in memory.

mod user;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use heartline_protocol::{ConnectionId, NodeId, Timestamp, UserId};
use heartline_runtime::{Clock, Map};
use tokio::sync::broadcast;
use tokio::time::Instant;

use self::user::{Moment, User};
use crate::directory::{
    Answering, Connections, DirectoryError, Leases, LiveNode, NodeRecord, Nodes, Policy,
    PresenceStates, Registration, Route, Routes,
};
use crate::lease::{Lease, LeaseKey, LeaseKind, LiveConnection, shard_of};
use crate::presence::{CHANGES_MAX, Change, PresenceState, Transition};

/// Leases in memory, in shards of users, each behind its own lock that is never held across an
/// await.
#[derive(Debug)]
pub struct MemoryDirectory {
    clock: Clock,
    shards: Vec<Mutex<Shard>>,
    nodes: Mutex<Map<NodeId, (NodeRecord, Instant)>>,
    /// The first node that registered here, usually the only one.
    first_node: OnceLock<NodeId>,
    /// Whether another node ever registered: until then there are no routes to other nodes.
    has_other_nodes: AtomicBool,
    changes: broadcast::Sender<Change>,
}

type Shard = Map<UserId, User>;

impl MemoryDirectory {
    /// An empty directory with this many shards.
    pub fn new(shards: u16, clock: Clock) -> Self {
        assert!(shards > 0, "a directory has at least one shard");
        Self {
            clock,
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            nodes: Mutex::default(),
            first_node: OnceLock::new(),
            has_other_nodes: AtomicBool::new(false),
            changes: broadcast::channel(CHANGES_MAX).0,
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

    /// Read under the lock of a shard, so that a later registration is younger.
    fn moment(&self) -> Moment {
        Moment { now: self.clock.now(), wall: self.clock.wall() }
    }

    /// Stop 3 of the life of a presence transition: published, after [`User`] has decided it. This
    /// happens under the lock of its shard, so that a user's transitions arrive in order.
    fn publish(&self, transition: Option<Transition>) {
        let Some(transition) = transition else { return };
        tracing::trace!(target: "heartline::life", presence_stop = 3, "published");
        // There may be no receiver.
        let _ = self.changes.send(Change::Decided(transition));
    }

    fn live_nodes(&self) -> MutexGuard<'_, Map<NodeId, (NodeRecord, Instant)>> {
        let now = self.clock.now();
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.retain(|_, (_, ends_at)| *ends_at > now);
        nodes
    }
}

// === the ports ===

#[async_trait]
impl Leases for MemoryDirectory {
    async fn register(&self, lease: Lease, policy: Policy) -> Result<Registration, DirectoryError> {
        let first_node = self.first_node.get_or_init(|| lease.key.node_id.clone());
        if *first_node != lease.key.node_id {
            self.has_other_nodes.store(true, Ordering::Relaxed);
        }
        let user_id = lease.key.user_id.clone();
        let mut shard = self.shard(&user_id);
        let (registration, transition) =
            shard.entry(user_id).or_default().register(lease, policy, self.moment());
        self.publish(transition);
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
            shard.get_mut(&key.user_id).is_some_and(|user| user.renew(key, now, duration))
        };
        Ok(leases.iter().filter(|key| !renewed(key)).cloned().collect())
    }

    async fn extend(&self, _leases: &[LeaseKey]) -> Result<Vec<LeaseKey>, DirectoryError> {
        // Nothing is stored beside the leases.
        Ok(Vec::new())
    }

    /// Stop 2 of the life of a presence transition: unregistered. An expired lease is removed by
    /// [`sweep`](Leases::sweep) instead.
    async fn unregister(
        &self,
        lease: &LeaseKey,
        keep: Duration,
    ) -> Result<Option<Timestamp>, DirectoryError> {
        tracing::trace!(target: "heartline::life", presence_stop = 2, "unregistered");
        let mut shard = self.shard(&lease.user_id);
        if let Some(user) = shard.get_mut(&lease.user_id) {
            self.publish(user.unregister(lease, keep, self.moment()));
        }
        Ok(None)
    }

    async fn sweep(&self, limit: usize, policy: Policy) -> Result<Vec<LeaseKey>, DirectoryError> {
        let mut swept = Vec::new();
        for shard in 0..self.shards.len() as u16 {
            let mut shard = self.lock(shard);
            let at = self.moment();
            shard.retain(|user_id, user| {
                let room = limit - swept.len();
                self.publish(user.sweep(user_id, policy, at, room, &mut swept));
                !user.is_forgotten(at.now)
            });
        }
        Ok(swept)
    }
}

#[async_trait]
impl Routes for MemoryDirectory {
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
        let nodes: Vec<NodeId> = self.live_nodes().keys().cloned().collect();
        for user_id in user_ids {
            let shard = self.shard(user_id);
            let Some(user) = shard.get(user_id) else { continue };
            for held in user.live(now).filter(|held| held.kind == LeaseKind::Chat) {
                if held.node_id != *own && nodes.contains(&held.node_id) {
                    add_route(&mut routes, &held.node_id, user_id);
                }
            }
        }
        Ok(routes)
    }
}

#[async_trait]
impl Connections for MemoryDirectory {
    async fn by_user(
        &self,
        user_ids: &[UserId],
    ) -> Result<Vec<Vec<LiveConnection>>, DirectoryError> {
        let now = self.clock.now();
        let live = |user_id: &UserId| {
            let shard = self.shard(user_id);
            let Some(user) = shard.get(user_id) else { return Vec::new() };
            user.live(now).map(|held| held.connection(user_id, now)).collect()
        };
        Ok(user_ids.iter().map(live).collect())
    }

    async fn by_node(&self, node_id: &NodeId) -> Result<Vec<LiveConnection>, DirectoryError> {
        let now = self.clock.now();
        let mut live = Vec::new();
        for shard in 0..self.shards.len() as u16 {
            for (user_id, user) in &*self.lock(shard) {
                let here = user.live(now).filter(|held| held.node_id == *node_id);
                live.extend(here.map(|held| held.connection(user_id, now)));
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
        let found = shard.iter().find_map(|(user_id, user)| {
            let mut live = user.live(now).map(|held| held.connection(user_id, now));
            live.find(|live| live.key.connection_id == connection_id)
        });
        Ok(found)
    }
}

#[async_trait]
impl PresenceStates for MemoryDirectory {
    async fn presence(&self, user_ids: &[UserId]) -> Result<Vec<PresenceState>, DirectoryError> {
        let state = |user_id: &UserId| {
            let shard = self.shard(user_id);
            let user = shard.get(user_id);
            // Older than any future transition, newer than any forgotten one.
            let version = self.clock.wall().unix_ms.saturating_sub(1);
            let absent = PresenceState::Offline { version, last_seen: None };
            user.map_or(absent, User::presence)
        };
        Ok(user_ids.iter().map(state).collect())
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }
}

#[async_trait]
impl Nodes for MemoryDirectory {
    async fn announce(&self, node: &NodeRecord, duration: Duration) -> Result<(), DirectoryError> {
        let ends_at = self.clock.now() + duration;
        self.live_nodes().insert(node.node_id.clone(), (node.clone(), ends_at));
        Ok(())
    }

    async fn withdraw(&self, node_id: &NodeId) -> Result<(), DirectoryError> {
        self.live_nodes().remove(node_id);
        Ok(())
    }

    async fn nodes(&self) -> Result<Vec<LiveNode>, DirectoryError> {
        let nodes = self.live_nodes();
        let now = self.clock.now();
        let live = |(record, ends_at): &(NodeRecord, Instant)| LiveNode {
            record: record.clone(),
            remaining: ends_at.saturating_duration_since(now),
        };
        Ok(nodes.values().map(live).collect())
    }
}

impl Answering for MemoryDirectory {
    fn silence(&self) -> Duration {
        Duration::ZERO
    }
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
