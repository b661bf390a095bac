//! A directory that only knows who is there, and is as reachable as Redis is.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use heartline_adapters::redis::RedisClient;
use heartline_protocol::{ConnectionId, NodeId, Timestamp, UserId};
use heartline_routing::{
    Change, Clock, Directory, DirectoryError, Lease, LeaseKey, LiveConnection, LiveNode,
    NodeRecord, Policy, PresenceState, Registration, Route,
};
use tokio::sync::broadcast;
use tokio::time::Instant;

/// The nodes that are there, for all directories of a test.
pub(crate) type Listed = Arc<Mutex<Vec<NodeRecord>>>;

/// One node's view of who is there.
#[derive(Debug)]
pub(crate) struct ListDirectory {
    pub(crate) listed: Listed,
    redis: Option<RedisClient>,
    answered_at: Mutex<Instant>,
}

impl ListDirectory {
    pub(crate) fn new(listed: Listed, redis: Option<RedisClient>) -> Self {
        Self { listed, redis, answered_at: Mutex::new(Clock::system().now()) }
    }
}

pub(crate) fn record(node_id: &NodeId, address: String) -> NodeRecord {
    NodeRecord {
        node_id: node_id.clone(),
        address: Some(address),
        planes: String::new(),
        started_at: Timestamp { unix_ms: 0 },
        connections: 0,
    }
}

#[async_trait]
impl Directory for ListDirectory {
    async fn nodes(&self) -> Result<Vec<LiveNode>, DirectoryError> {
        if let Some(redis) = &self.redis {
            redis.time("servers").await.map_err(|failure| DirectoryError(failure.into()))?;
            *self.answered_at.lock().unwrap() = Clock::system().now();
        }
        let remaining = Duration::from_secs(15);
        let live = |record: &NodeRecord| LiveNode { record: record.clone(), remaining };
        Ok(self.listed.lock().unwrap().iter().map(live).collect())
    }

    fn silence(&self) -> Duration {
        match &self.redis {
            // It is asked once a second, so that one second is no silence.
            Some(_) => {
                let silence = Clock::system().now() - *self.answered_at.lock().unwrap();
                silence.saturating_sub(Duration::from_millis(1100))
            }
            None => Duration::ZERO,
        }
    }

    async fn register(&self, _: Lease, _: Policy) -> Result<Registration, DirectoryError> {
        unreachable!("links do not register")
    }

    async fn renew(&self, _: &[LeaseKey], _: Duration) -> Result<Vec<LeaseKey>, DirectoryError> {
        unreachable!("links do not renew")
    }

    async fn extend(&self, _: &[LeaseKey]) -> Result<Vec<LeaseKey>, DirectoryError> {
        unreachable!("links do not extend")
    }

    async fn unregister(
        &self,
        _: &LeaseKey,
        _: Duration,
    ) -> Result<Option<Timestamp>, DirectoryError> {
        unreachable!("links do not unregister")
    }

    async fn routes(&self, _: &[UserId], _: &NodeId) -> Result<Vec<Route>, DirectoryError> {
        unreachable!("links do not route")
    }

    async fn by_user(&self, _: &[UserId]) -> Result<Vec<Vec<LiveConnection>>, DirectoryError> {
        unreachable!("links do not ask who is where")
    }

    async fn by_node(&self, _: &NodeId) -> Result<Vec<LiveConnection>, DirectoryError> {
        unreachable!("links do not ask who is where")
    }

    async fn by_connection(
        &self,
        _: ConnectionId,
    ) -> Result<Option<LiveConnection>, DirectoryError> {
        unreachable!("links do not ask who is where")
    }

    async fn sweep(&self, _: usize, _: Policy) -> Result<Vec<LeaseKey>, DirectoryError> {
        unreachable!("links do not sweep")
    }

    async fn presence(&self, _: &[UserId]) -> Result<Vec<PresenceState>, DirectoryError> {
        unreachable!("links do not ask who is online")
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        unreachable!("links do not listen to changes")
    }

    async fn announce(&self, _: &NodeRecord, _: Duration) -> Result<(), DirectoryError> {
        unreachable!("links do not announce")
    }

    async fn withdraw(&self, _: &NodeId) -> Result<(), DirectoryError> {
        unreachable!("links do not withdraw")
    }
}
