//! A list of nodes that is as reachable as Redis is.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use heartline_adapters::redis::RedisClient;
use heartline_protocol::{NodeId, Timestamp};
use heartline_routing::{Answering, DirectoryError, LiveNode, NodeRecord, Nodes};
use heartline_runtime::Clock;
use tokio::time::Instant;

/// The nodes that are there, for all directories of a test.
pub(crate) type Listed = Arc<Mutex<Vec<NodeRecord>>>;

/// One node's view of the list.
#[derive(Debug)]
pub(crate) struct ListedNodes {
    pub(crate) listed: Listed,
    redis: Option<RedisClient>,
    answered_at: Mutex<Instant>,
}

impl ListedNodes {
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
impl Nodes for ListedNodes {
    async fn nodes(&self) -> Result<Vec<LiveNode>, DirectoryError> {
        if let Some(redis) = &self.redis {
            redis.time("servers").await.map_err(|failure| DirectoryError(failure.into()))?;
            *self.answered_at.lock().unwrap() = Clock::system().now();
        }
        let remaining = Duration::from_secs(15);
        let live = |record: &NodeRecord| LiveNode { record: record.clone(), remaining };
        Ok(self.listed.lock().unwrap().iter().map(live).collect())
    }

    async fn announce(&self, node: &NodeRecord, _: Duration) -> Result<(), DirectoryError> {
        self.withdraw(&node.node_id).await?;
        self.listed.lock().unwrap().push(node.clone());
        Ok(())
    }

    async fn withdraw(&self, node_id: &NodeId) -> Result<(), DirectoryError> {
        self.listed.lock().unwrap().retain(|record| record.node_id != *node_id);
        Ok(())
    }
}

impl Answering for ListedNodes {
    fn silence(&self) -> Duration {
        match &self.redis {
            // The directory is called once a second, so one second without a call is not an outage.
            Some(_) => {
                let silence = Clock::system().now() - *self.answered_at.lock().unwrap();
                silence.saturating_sub(Duration::from_millis(1100))
            }
            None => Duration::ZERO,
        }
    }
}
