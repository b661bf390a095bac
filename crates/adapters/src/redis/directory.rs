//! The directory of many nodes, on Redis.
//!
//! One lease per connection in the sorted set of its user's shard is the truth. Everything else is
//! an index beside it, written at connect and disconnect by the same scripts, so that a route is
//! one plain read and a renewal touches nothing but the lease.

mod register;
mod renew;
mod lookup;
mod nodes;
mod sweep;
mod listener;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use heartline_protocol::{ConnectionId, NodeId, Timestamp, UserId};
use heartline_routing::{
    Answering, Change, Connections, DirectoryError, Lease, LeaseKey, Leases, LiveConnection,
    LiveNode, NodeRecord, Nodes, Policy, PresenceState, PresenceStates, Registration, Route,
    Routes,
};
use heartline_runtime::Clock;
use redis::cmd;
use tokio::sync::broadcast;
use tokio::time::{Instant, timeout};

#[cfg(test)]
pub(super) use self::listener::PLANTED_PANIC;
pub use self::listener::PresenceListener;
use self::listener::{ListenerParts, Listening};
use self::nodes::LiveNodes;
use self::sweep::Epochs;
use super::changes::Changes;
use super::client::RedisClient;
use super::failure::RedisFailure;
use super::keys::Keys;
use super::scripts::Scripts;
use super::server_clock::ServerClock;
use super::subscription::Subscription;

/// How long the subscription to transitions may take when the node starts.
const SUBSCRIBE_PATIENCE: Duration = Duration::from_secs(5);

/// The configuration of a directory.
#[derive(Debug, Clone)]
pub struct RedisDirectoryConfig {
    /// Into how many shards users are divided. All nodes must agree.
    pub shards: u16,
    /// How long a lease lasts, and so how long a rebuild takes.
    pub lease: Duration,
    /// This node, which acts on the decisions of its own calls.
    pub node_id: NodeId,
    /// A shard that any node swept within this time is skipped.
    pub sweep_spacing: Duration,
    /// Whether a user has one session at a time, which then has a key of its own.
    pub single_session: bool,
}

impl RedisDirectoryConfig {
    /// The usual shards, lease and spacing for a node.
    pub fn new(node_id: NodeId) -> Self {
        let (lease, sweep_spacing) = (Duration::from_secs(15), Duration::from_millis(500));
        Self { shards: 100, lease, node_id, sweep_spacing, single_session: false }
    }
}

/// Why a directory could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum RedisDirectoryError {
    /// Redis could not be read.
    #[error("the directory on Redis cannot be opened: {0}")]
    Redis(#[from] RedisFailure),
    /// The other nodes divide users otherwise.
    #[error(
        "routing.shards is {configured}, but this Redis is used with {stored}: \
         set it to {stored}, or stop all nodes and delete the key {key}"
    )]
    Shards {
        /// The number that this node is configured with.
        configured: u16,
        /// The number that is stored.
        stored: String,
        /// The key that stores it.
        key: String,
    },
}

/// Leases, routes and presence on Redis.
#[derive(Debug)]
pub struct RedisDirectory {
    config: RedisDirectoryConfig,
    client: RedisClient,
    clock: Clock,
    keys: Keys,
    scripts: Scripts,
    server_clock: ServerClock,
    nodes: LiveNodes,
    epochs: Epochs,
    changes: Arc<Changes>,
    pulse: Mutex<Pulse>,
    listening: Arc<Listening>,
}

/// Whether Redis answers the calls of every second.
#[derive(Debug)]
struct Pulse {
    answered_at: Instant,
    is_silent: bool,
}

impl RedisDirectory {
    /// Opens the directory: checks that all nodes agree on the shards, and subscribes to every
    /// transition. The listener must run for the directory to report them.
    pub async fn connect(
        client: RedisClient,
        config: RedisDirectoryConfig,
        clock: Clock,
    ) -> Result<(Self, PresenceListener), RedisDirectoryError> {
        assert!(config.shards > 0, "a directory has at least one shard");
        let keys = Keys::new(client.config(), config.shards);
        let scripts = Scripts::new(&client, keys.clone(), config.node_id.clone(), config.lease);
        let changes = Arc::new(Changes::new(config.node_id.clone()));
        agree_on_shards(&client, &keys).await?;
        let mut subscription = subscribe(&client, &keys);
        let established = timeout(SUBSCRIBE_PATIENCE, subscription.established()).await;
        established.map_err(|_| RedisFailure::Timeout)?;
        let listening = Arc::new(Listening::default());
        let parts = ListenerParts {
            client: client.clone(),
            keys: keys.clone(),
            clock,
            changes: Arc::clone(&changes),
            listening: Arc::clone(&listening),
        };
        let listener = PresenceListener { parts, first: subscription };
        let directory = Self {
            server_clock: ServerClock::new(client.clone(), keys.clone()),
            nodes: LiveNodes::default(),
            epochs: Epochs::default(),
            pulse: Mutex::new(Pulse { answered_at: clock.now(), is_silent: false }),
            config,
            client,
            clock,
            keys,
            scripts,
            changes,
            listening,
        };
        directory.learn_epochs().await?;
        Ok((directory, listener))
    }

    /// Remembers whether Redis answered.
    fn heard<T>(&self, result: &Result<T, RedisFailure>) {
        let mut pulse = self.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        pulse.is_silent = result.is_err();
        if result.is_ok() {
            pulse.answered_at = self.clock.now();
        }
    }
}

/// Stores the number of shards, or compares it with the stored one.
async fn agree_on_shards(client: &RedisClient, keys: &Keys) -> Result<(), RedisDirectoryError> {
    let key = keys.routing_shards();
    let mut command = cmd("SET");
    command.arg(&key).arg(keys.shards()).arg("NX").arg("GET");
    let stored: Option<String> = client.query(&command).await?;
    match stored {
        Some(stored) if stored != keys.shards().to_string() => {
            Err(RedisDirectoryError::Shards { configured: keys.shards(), stored, key })
        }
        _ => Ok(()),
    }
}

/// Subscribes to the transitions of every shard.
fn subscribe(client: &RedisClient, keys: &Keys) -> Subscription {
    client.subscribe((0..keys.shards()).map(|shard| keys.channel(shard)).collect())
}

fn unavailable(failure: RedisFailure) -> DirectoryError {
    DirectoryError(Box::new(failure))
}

// === the ports ===

#[async_trait]
impl Leases for RedisDirectory {
    async fn register(&self, lease: Lease, policy: Policy) -> Result<Registration, DirectoryError> {
        self.register_lease(&lease, policy).await.map_err(unavailable)
    }

    async fn renew(
        &self,
        leases: &[LeaseKey],
        duration: Duration,
    ) -> Result<Vec<LeaseKey>, DirectoryError> {
        let result = self.renew_leases(leases, duration).await;
        self.heard(&result);
        result.map_err(unavailable)
    }

    async fn extend(&self, leases: &[LeaseKey]) -> Result<Vec<LeaseKey>, DirectoryError> {
        self.extend_indexes(leases).await.map_err(unavailable)
    }

    async fn unregister(
        &self,
        lease: &LeaseKey,
        keep: Duration,
    ) -> Result<Option<Timestamp>, DirectoryError> {
        self.unregister_lease(lease, keep).await.map_err(unavailable)
    }

    async fn sweep(&self, limit: usize, policy: Policy) -> Result<Vec<LeaseKey>, DirectoryError> {
        self.sweep_shards(limit, policy).await.map_err(unavailable)
    }
}

#[async_trait]
impl Routes for RedisDirectory {
    async fn routes(
        &self,
        user_ids: &[UserId],
        own: &NodeId,
    ) -> Result<Vec<Route>, DirectoryError> {
        self.routes_to(user_ids, own).await.map_err(unavailable)
    }
}

#[async_trait]
impl Connections for RedisDirectory {
    async fn by_user(
        &self,
        user_ids: &[UserId],
    ) -> Result<Vec<Vec<LiveConnection>>, DirectoryError> {
        self.connections_of_users(user_ids).await.map_err(unavailable)
    }

    async fn by_node(&self, node_id: &NodeId) -> Result<Vec<LiveConnection>, DirectoryError> {
        self.connections_of_node(node_id).await.map_err(unavailable)
    }

    async fn by_connection(
        &self,
        connection_id: ConnectionId,
    ) -> Result<Option<LiveConnection>, DirectoryError> {
        let found = self.connections_by_id(&[connection_id]).await.map_err(unavailable)?;
        Ok(found.into_iter().next())
    }
}

#[async_trait]
impl PresenceStates for RedisDirectory {
    async fn presence(&self, user_ids: &[UserId]) -> Result<Vec<PresenceState>, DirectoryError> {
        self.presence_of(user_ids).await.map_err(unavailable)
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }
}

#[async_trait]
impl Nodes for RedisDirectory {
    async fn announce(&self, node: &NodeRecord, duration: Duration) -> Result<(), DirectoryError> {
        let result = self.announce_node(node, duration).await;
        self.heard(&result);
        result.map_err(unavailable)
    }

    async fn withdraw(&self, node_id: &NodeId) -> Result<(), DirectoryError> {
        self.withdraw_node(node_id).await.map_err(unavailable)
    }

    async fn nodes(&self) -> Result<Vec<LiveNode>, DirectoryError> {
        self.live_nodes().await.map_err(unavailable)
    }
}

impl Answering for RedisDirectory {
    fn silence(&self) -> Duration {
        let now = self.clock.now();
        let pulse = self.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        let unanswered = if pulse.is_silent { now - pulse.answered_at } else { Duration::ZERO };
        // A node that receives no transitions is as cut off as one whose calls fail.
        unanswered.max(self.listening.interrupted_for(now))
    }
}
