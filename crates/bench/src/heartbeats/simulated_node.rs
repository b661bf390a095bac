//! A node whose connections exist only in the directory. The code of a real node registers, renews
//! and removes their leases; there are no sockets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::{Result, ensure};
use futures_util::{StreamExt, TryStreamExt, stream};
use heartline_adapters::redis::{
    PresenceListener, RedisClient, RedisConfig, RedisCounters, RedisDirectory, RedisDirectoryConfig,
};
use heartline_protocol::{ConnectionId, NodeId, UserId};
use heartline_routing::renewal::{ConnectionCounts, LeaseLosses, LocalLeases, Renewal};
use heartline_routing::{
    Lease, LeaseKey, LeaseKind, Leases, LocalLink, NodeRecord, Nodes, Policy, Registration,
    RoutingMetrics, shard_of,
};
use heartline_runtime::{Clock, Random, TaskSet};
use ulid::Ulid;

use super::redis_connection::{Commands, RedisConnection};

/// The lifetime of a lease.
pub(super) const LEASE: Duration = Duration::from_secs(15);
/// How often each lease is renewed.
pub(super) const RENEW_INTERVAL: Duration = Duration::from_secs(5);
/// How often shards are swept.
pub(super) const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// The number of shards of the directory.
pub(super) const SHARDS: u16 = 100;
/// Number of ticks in which every lease is renewed once.
const RENEW_TICKS: u64 = RENEW_INTERVAL.as_secs();
/// Number of ticks in which the indexes of every lease are extended once.
const EXTEND_TICKS: u64 = 180;
/// The largest number of leases in one call.
const BATCH: usize = 10_000;
/// Number of concurrent registrations.
const REGISTRATIONS: usize = 64;

const POLICY: Policy = Policy {
    single_session: false,
    connections_per_user: 20,
    lease: LEASE,
    offline_linger: Duration::ZERO,
};

/// A node without sockets, and the leases of its connections.
#[derive(Debug)]
pub(super) struct SimulatedNode {
    directory: Arc<RedisDirectory>,
    node: NodeRecord,
    leases: RwLock<Vec<LeaseKey>>,
    /// The slice that is renewed next.
    next_renewal: AtomicU64,
    /// The slice whose indexes are extended next.
    next_extension: AtomicU64,
    /// The metrics of the node's loops.
    pub(super) metrics: RoutingMetrics,
    _listening: TaskSet<()>,
}

/// The loops that renew the leases of a node. Dropping the value stops them.
#[derive(Debug)]
pub(super) struct NodeLoops {
    _tasks: TaskSet<()>,
}

/// Deadline for calls to Redis, long enough that no measured call fails.
const REDIS_DEADLINE: Duration = Duration::from_secs(5);

/// Opens the directory as a node. Each sweep covers all shards, while a real node skips shards that
/// another node has just swept.
pub(super) async fn open_directory(
    url: &str,
    prefix: &str,
    node_id: NodeId,
) -> Result<(RedisDirectory, PresenceListener)> {
    let mut config = RedisConfig::from_url(url, prefix)?;
    config.deadline = REDIS_DEADLINE;
    let client =
        RedisClient::new(config, Clock::system(), Random::system(), RedisCounters::default());
    let config = RedisDirectoryConfig {
        shards: SHARDS,
        lease: LEASE,
        sweep_spacing: Duration::ZERO,
        ..RedisDirectoryConfig::new(node_id)
    };
    Ok(RedisDirectory::connect(client, config, Clock::system()).await?)
}

impl SimulatedNode {
    /// A node without connections.
    pub(super) async fn open(url: &str, prefix: &str) -> Result<Arc<Self>> {
        let node_id: NodeId = format!("bench-{:08x}", Random::system().draw::<u32>()).parse()?;
        let (directory, listener) = open_directory(url, prefix, node_id.clone()).await?;
        let mut listening = TaskSet::new();
        listening.spawn(listener.run());
        let node = NodeRecord {
            node_id,
            address: None,
            planes: "gateway,ingest,fanout".to_owned(),
            started_at: Clock::system().wall(),
            connections: 0,
        };
        Ok(Arc::new(Self {
            directory: Arc::new(directory),
            node,
            leases: RwLock::default(),
            next_renewal: AtomicU64::new(0),
            next_extension: AtomicU64::new(0),
            metrics: RoutingMetrics::default(),
            _listening: listening,
        }))
    }

    /// The number of leases.
    pub(super) fn len(&self) -> usize {
        self.leases.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The users of the first `count` connections.
    pub(super) fn users(&self, count: usize) -> Vec<UserId> {
        let leases = self.leases.read().unwrap_or_else(PoisonError::into_inner);
        leases.iter().take(count).map(|lease| lease.user_id.clone()).collect()
    }

    /// Registers connections, each of another user, until this many exist. Only
    /// [`Self::start_loops`] renews their leases.
    pub(super) async fn register_up_to(&self, connections: usize) -> Result<()> {
        let missing = connections.saturating_sub(self.len());
        stream::iter(0..missing)
            .map(|_| async {
                let user_id: UserId = Ulid(Random::system().draw()).to_string().parse()?;
                let key = self.register(user_id).await?;
                self.leases.write().unwrap_or_else(PoisonError::into_inner).push(key);
                anyhow::Ok(())
            })
            .buffer_unordered(REGISTRATIONS)
            .try_collect()
            .await
    }

    async fn register(&self, user_id: UserId) -> Result<LeaseKey> {
        let shard = shard_of(&user_id, SHARDS);
        let ulid = Ulid::from_parts(Clock::system().wall().unix_ms, Random::system().draw());
        let connection_id = ConnectionId { ulid, shard };
        let node_id = self.node.node_id.clone();
        let key = LeaseKey { user_id, node_id, connection_id };
        let lease = claim(&key, false)?;
        let registration = self.directory.register(lease, POLICY).await?;
        let is_admitted = matches!(registration, Registration::Admitted { .. });
        ensure!(is_admitted, "the directory did not admit a connection");
        Ok(key)
    }

    /// Ends a connection and registers another one of the same user.
    pub(super) async fn reconnect(&self, index: usize) -> Result<()> {
        let index = index % self.len();
        let old = self.leases.read().unwrap_or_else(PoisonError::into_inner)[index].clone();
        self.directory.unregister(&old, Duration::ZERO).await?;
        let new = self.register(old.user_id).await?;
        self.leases.write().unwrap_or_else(PoisonError::into_inner)[index] = new;
        Ok(())
    }

    /// Starts the loops of a node in real time: announce, renew, extend and sweep.
    pub(super) fn start_loops(self: &Arc<Self>) -> NodeLoops {
        let (link, _inbox) = LocalLink::new(self.node.node_id.clone());
        let renewal = Renewal {
            leases: self.directory.clone(),
            connections: self.directory.clone(),
            nodes: self.directory.clone(),
            local: self.clone(),
            losses: self.clone(),
            link: Arc::new(link),
            node: self.node.clone(),
            policy: POLICY,
            renew_interval: RENEW_INTERVAL,
            clock: Clock::system(),
            metrics: self.metrics.clone(),
        };
        let mut tasks = TaskSet::new();
        tasks.spawn(renewal.clone().run());
        tasks.spawn(renewal.sweep_for_ever(SWEEP_INTERVAL));
        NodeLoops { _tasks: tasks }
    }

    /// Does the work of a node for its leases in one second as fast as possible; returns the number
    /// of renewed leases.
    pub(super) async fn tick(&self) -> Result<u64> {
        self.directory.announce(&self.node, LEASE).await?;
        let renewed = self.renew(&self.leases_to_renew(0, RENEW_TICKS)).await?;
        let due = self.leases_to_extend(0, EXTEND_TICKS);
        let incomplete = self.directory.extend(&due).await?;
        ensure!(incomplete.is_empty(), "{} leases lost an index", incomplete.len());
        self.sweep().await?;
        Ok(renewed)
    }

    /// Renews every lease once; returns their number.
    pub(super) async fn renew_all(&self) -> Result<u64> {
        let mut renewed = 0;
        for _ in 0..RENEW_TICKS {
            renewed += self.renew(&self.leases_to_renew(0, RENEW_TICKS)).await?;
        }
        Ok(renewed)
    }

    async fn renew(&self, leases: &[LeaseKey]) -> Result<u64> {
        for batch in leases.chunks(BATCH) {
            let lost = self.directory.renew(batch, LEASE).await?;
            ensure!(lost.is_empty(), "{} leases were lost", lost.len());
        }
        Ok(leases.len() as u64)
    }

    /// Sweeps every shard; fails if a lease has expired.
    pub(super) async fn sweep(&self) -> Result<()> {
        let swept = self.directory.sweep(BATCH, POLICY).await?;
        ensure!(swept.is_empty(), "{} leases expired", swept.len());
        Ok(())
    }

    /// Removes all leases and the remaining keys, for a Redis that has other users.
    pub(super) async fn unregister_all(
        &self,
        prefix: &str,
        redis: &mut RedisConnection,
    ) -> Result<()> {
        let leases = self.leases.read().unwrap_or_else(PoisonError::into_inner).clone();
        stream::iter(&leases)
            .map(|lease| self.directory.unregister(lease, Duration::ZERO))
            .buffer_unordered(REGISTRATIONS)
            .try_for_each(async |_| Ok(()))
            .await?;
        self.directory.withdraw(&self.node.node_id).await?;
        let mut commands = Commands::default();
        for shard in 0..SHARDS {
            let (leases, epoch) = ("presence:leases", "presence:epoch");
            let keys = [leases, epoch].map(|name| format!("{prefix}{name}:{shard}"));
            commands.add(&["DEL", &keys[0], &keys[1]]);
        }
        commands.add(&["DEL", &format!("{prefix}routing:shards")]);
        redis.send(&commands).await
    }
}

fn claim(key: &LeaseKey, again: bool) -> Result<Lease> {
    let device_id = Ulid(Random::system().draw()).to_string().parse()?;
    let (kind, age) = (LeaseKind::Chat, Duration::ZERO);
    Ok(Lease { key: key.clone(), device_id, kind, age, again })
}

// === impl LocalLeases ===

impl LocalLeases for SimulatedNode {
    /// Returns the slices one after the other and ignores the requested one, so that each call
    /// continues where the previous one stopped.
    fn leases_to_renew(&self, _slice: u64, slices: u64) -> Vec<LeaseKey> {
        let slice = self.next_renewal.fetch_add(1, Ordering::Relaxed) % slices;
        let leases = self.leases.read().unwrap_or_else(PoisonError::into_inner);
        let is_due = |lease: &&LeaseKey| u64::from(lease.connection_id.shard) % slices == slice;
        leases.iter().filter(is_due).cloned().collect()
    }

    /// Returns the slices one after the other, like [`Self::leases_to_renew`].
    fn leases_to_extend(&self, _slice: u64, slices: u64) -> Vec<LeaseKey> {
        let slice = self.next_extension.fetch_add(1, Ordering::Relaxed) % slices;
        let leases = self.leases.read().unwrap_or_else(PoisonError::into_inner);
        leases.iter().skip(slice as usize).step_by(slices as usize).cloned().collect()
    }

    /// Returns none for the lease of a connection that was replaced by a reconnection.
    fn lease_again(&self, lease: &LeaseKey) -> Option<Lease> {
        let leases = self.leases.read().unwrap_or_else(PoisonError::into_inner);
        leases.contains(lease).then(|| claim(lease, true).ok()).flatten()
    }

    fn counts(&self) -> ConnectionCounts {
        ConnectionCounts { connections: self.len(), multi_device_users: 0 }
    }
}

impl LeaseLosses for SimulatedNode {
    fn lease_healed(&self, _lease: &LeaseKey) {}

    fn all_healed(&self) {}

    fn lease_replaced(&self, _lease: &LeaseKey) {}
}
