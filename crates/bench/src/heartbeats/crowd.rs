//! Connections that exist in the directory only: their leases are registered, renewed and ended
//! by the code that a node runs, without a socket behind them.

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
    Clock, Lease, LeaseKey, LeaseKind, Leases, LocalLink, NodeRecord, Nodes, Policy, Registration,
    RoutingMetrics, shard_of,
};
use heartline_runtime::Random;
use tokio::task::JoinSet;
use ulid::Ulid;

use super::wire::{Commands, Wire};

/// How long a lease lasts.
pub(super) const LEASE: Duration = Duration::from_secs(15);
/// How often each is renewed.
pub(super) const RENEW_INTERVAL: Duration = Duration::from_secs(5);
/// How often shards are swept.
pub(super) const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Into how many shards users are divided.
pub(super) const SHARDS: u16 = 100;
/// Ticks in which every lease is renewed once.
const RENEW_TICKS: u64 = RENEW_INTERVAL.as_secs();
/// Ticks in which the indexes of every lease are extended once.
const EXTEND_TICKS: u64 = 180;
/// Leases renewed in one call.
const BATCH: usize = 10_000;
/// Registrations under way at the same time.
const REGISTRATIONS: usize = 64;

const POLICY: Policy = Policy {
    single_session: false,
    connections_per_user: 20,
    lease: LEASE,
    offline_linger: Duration::ZERO,
};

/// The connections of one node.
#[derive(Debug)]
pub(super) struct Crowd {
    directory: Arc<RedisDirectory>,
    node: NodeRecord,
    leases: RwLock<Vec<LeaseKey>>,
    /// Which slice is renewed next. It goes on where it was when renewing begins again.
    turn: AtomicU64,
    extensions: AtomicU64,
    /// What the loops of a node count.
    pub(super) metrics: RoutingMetrics,
    _listening: JoinSet<()>,
}

/// The loops by which a node keeps its leases alive; dropping them stops them.
#[derive(Debug)]
pub(super) struct Kept {
    _tasks: JoinSet<()>,
}

/// How long Redis may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Opens the directory of a node of its own. Every sweep does its whole work, although a real one
/// leaves a shard alone that another node has just swept.
pub(super) async fn open_directory(
    url: &str,
    prefix: &str,
    node_id: NodeId,
) -> Result<(RedisDirectory, PresenceListener)> {
    let mut config = RedisConfig::from_url(url, prefix)?;
    // A bench measures how long something takes, and does not give up before.
    config.deadline = PATIENCE;
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

impl Crowd {
    /// A node without connections as yet.
    pub(super) async fn gather(url: &str, prefix: &str) -> Result<Arc<Self>> {
        let node_id: NodeId = format!("bench-{:08x}", rand::random::<u32>()).parse()?;
        let (directory, listener) = open_directory(url, prefix, node_id.clone()).await?;
        let mut listening = JoinSet::new();
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
            turn: AtomicU64::new(0),
            extensions: AtomicU64::new(0),
            metrics: RoutingMetrics::default(),
            _listening: listening,
        }))
    }

    /// How many leases there are.
    pub(super) fn len(&self) -> usize {
        self.leases.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The users of the first so many connections.
    pub(super) fn users(&self, count: usize) -> Vec<UserId> {
        let leases = self.leases.read().unwrap_or_else(PoisonError::into_inner);
        leases.iter().take(count).map(|lease| lease.user_id.clone()).collect()
    }

    /// Registers connections, each of another user, until there are so many. They are renewed
    /// only if somebody keeps them.
    pub(super) async fn grow_to(&self, connections: usize) -> Result<()> {
        let missing = connections.saturating_sub(self.len());
        stream::iter(0..missing)
            .map(|_| async {
                let user_id: UserId = Ulid(rand::random()).to_string().parse()?;
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
        let ulid = Ulid::from_parts(Clock::system().wall().unix_ms, rand::random());
        let connection_id = ConnectionId { ulid, shard };
        let node_id = self.node.node_id.clone();
        let key = LeaseKey { user_id, node_id, connection_id };
        let lease = claim(&key, false)?;
        let registration = self.directory.register(lease, POLICY).await?;
        let is_admitted = matches!(registration, Registration::Admitted { .. });
        ensure!(is_admitted, "a connection was refused a lease");
        Ok(key)
    }

    /// A connection ends and its user comes back with another.
    pub(super) async fn reconnect(&self, index: usize) -> Result<()> {
        let index = index % self.len();
        let old = self.leases.read().unwrap_or_else(PoisonError::into_inner)[index].clone();
        self.directory.unregister(&old, Duration::ZERO).await?;
        let new = self.register(old.user_id).await?;
        self.leases.write().unwrap_or_else(PoisonError::into_inner)[index] = new;
        Ok(())
    }

    /// Starts the loops of a node: announcing, renewing, extending and sweeping, in real time.
    pub(super) fn keep(self: &Arc<Self>) -> Kept {
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
        let mut tasks = JoinSet::new();
        tasks.spawn(renewal.clone().run());
        tasks.spawn(renewal.sweep_for_ever(SWEEP_INTERVAL));
        Kept { _tasks: tasks }
    }

    /// Everything that a node does in one second to keep its leases alive, as fast as it can, and
    /// how many of them it renewed.
    pub(super) async fn tick(&self) -> Result<u64> {
        self.directory.announce(&self.node, LEASE).await?;
        let renewed = self.renew(&self.leases_to_renew(0, RENEW_TICKS)).await?;
        let due = self.leases_to_extend(0, EXTEND_TICKS);
        let incomplete = self.directory.extend(&due).await?;
        ensure!(incomplete.is_empty(), "{} leases lost an index", incomplete.len());
        self.sweep().await?;
        Ok(renewed)
    }

    /// Renews every lease once, and says how many.
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

    /// Sweeps every shard; nothing may have run out.
    pub(super) async fn sweep(&self) -> Result<()> {
        let swept = self.directory.sweep(BATCH, POLICY).await?;
        ensure!(swept.is_empty(), "{} leases ran out", swept.len());
        Ok(())
    }

    /// Gives every lease back and removes what would stay, on a Redis that others use too.
    pub(super) async fn leave(&self, prefix: &str, wire: &mut Wire) -> Result<()> {
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
        wire.send(&commands).await
    }
}

fn claim(key: &LeaseKey, again: bool) -> Result<Lease> {
    let device_id = Ulid(rand::random()).to_string().parse()?;
    let (kind, age) = (LeaseKind::Chat, Duration::ZERO);
    Ok(Lease { key: key.clone(), device_id, kind, age, again })
}

// === impl LocalLeases ===

impl LocalLeases for Crowd {
    /// The slices are taken one after the other, whichever was asked for.
    fn leases_to_renew(&self, _slice: u64, slices: u64) -> Vec<LeaseKey> {
        let slice = self.turn.fetch_add(1, Ordering::Relaxed) % slices;
        let leases = self.leases.read().unwrap_or_else(PoisonError::into_inner);
        let is_due = |lease: &&LeaseKey| u64::from(lease.connection_id.shard) % slices == slice;
        leases.iter().filter(is_due).cloned().collect()
    }

    /// Likewise.
    fn leases_to_extend(&self, _slice: u64, slices: u64) -> Vec<LeaseKey> {
        let slice = self.extensions.fetch_add(1, Ordering::Relaxed) % slices;
        let leases = self.leases.read().unwrap_or_else(PoisonError::into_inner);
        leases.iter().skip(slice as usize).step_by(slices as usize).cloned().collect()
    }

    /// A connection that came back meanwhile has another lease: the old one is over.
    fn lease_again(&self, lease: &LeaseKey) -> Option<Lease> {
        let leases = self.leases.read().unwrap_or_else(PoisonError::into_inner);
        leases.contains(lease).then(|| claim(lease, true).ok()).flatten()
    }

    fn counts(&self) -> ConnectionCounts {
        ConnectionCounts { connections: self.len(), multi_device_users: 0 }
    }
}

impl LeaseLosses for Crowd {
    fn lease_healed(&self, _lease: &LeaseKey) {}

    fn all_healed(&self) {}

    fn lease_replaced(&self, _lease: &LeaseKey) {}
}
