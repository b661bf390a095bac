//! One envelope per node.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use heartline_protocol::{ChatId, NodeId, UserId};
use heartline_routing::{
    Clock, Delivery, Directory, DirectoryError, Envelope, LinkError, NodeLink, Route,
};
use tracing::warn;

use crate::metrics::Metrics;

/// Reads of routes, and how long all of them together may take.
const ATTEMPTS_MAX: u32 = 3;
const ATTEMPTS_TIME: Duration = Duration::from_millis(250);

/// Sends frames to where their receivers are.
#[derive(Debug, Clone)]
pub struct Fanout {
    /// This node.
    pub node_id: NodeId,
    /// Where everybody is.
    pub directory: Arc<dyn Directory>,
    /// How nodes are reached.
    pub link: Arc<dyn NodeLink>,
    /// For the frames' timestamps.
    pub clock: Clock,
    /// What is counted.
    pub metrics: Metrics,
}

impl Fanout {
    /// Sends a message to every node where somebody of its audience is. Answers whether every
    /// envelope left.
    pub(crate) async fn deliver(&self, delivery: Delivery) -> bool {
        let Ok(routes) = self.routes(&delivery.user_ids).await else {
            self.metrics.skipped("routes_unreadable");
            return false;
        };
        let mut all_left = true;
        for route in routes {
            let user_ids = route.user_ids.into();
            let delivery = Delivery { user_ids, committed_at: None, ..delivery.clone() };
            all_left &= self.send(&route.node_id, Envelope::Message(delivery)).await;
        }
        // This node's own memory knows who is here.
        all_left & self.send(&self.node_id, Envelope::Message(delivery)).await
    }

    /// Pushes a frame that has no place in a chat's order.
    pub(crate) async fn tell(&self, user_ids: Arc<[UserId]>, frame: Bytes) {
        if user_ids.is_empty() {
            return;
        }
        let Ok(routes) = self.routes(&user_ids).await else {
            return self.metrics.skipped("routes_unreadable");
        };
        for route in routes {
            let user_ids = route.user_ids.into();
            let envelope = Envelope::Push { user_ids, frame: frame.clone(), queued: None };
            self.send(&route.node_id, envelope).await;
        }
        let envelope = Envelope::Push { user_ids, frame, queued: None };
        self.send(&self.node_id, envelope).await;
    }

    /// Tells users to sync a chat, or, without users, everybody here to sync everything.
    pub(crate) async fn resync(
        &self,
        user_ids: Option<Arc<[UserId]>>,
        chat_id: Option<ChatId>,
        reason: &'static str,
    ) {
        let chat_ids = chat_id.map(|chat_id| vec![chat_id]);
        let routes = match &user_ids {
            Some(user_ids) => self.routes(user_ids).await.unwrap_or_default(),
            None => Vec::new(),
        };
        for route in routes {
            let user_ids = Some(route.user_ids.into());
            let envelope = Envelope::Resync { user_ids, chat_ids: chat_ids.clone(), reason };
            self.send(&route.node_id, envelope).await;
        }
        let envelope = Envelope::Resync { user_ids, chat_ids, reason };
        self.send(&self.node_id, envelope).await;
    }

    async fn send(&self, node_id: &NodeId, envelope: Envelope) -> bool {
        match self.link.send(node_id, envelope).await {
            Ok(()) => true,
            Err(error @ (LinkError::Full | LinkError::Gone)) => {
                warn!(node = %node_id, %error, "an envelope did not leave");
                self.metrics.skipped("node_unreachable");
                false
            }
        }
    }

    async fn routes(&self, user_ids: &[UserId]) -> Result<Vec<Route>, DirectoryError> {
        let mut attempt = 1;
        loop {
            match self.directory.routes(user_ids, &self.node_id).await {
                Err(error) if attempt == ATTEMPTS_MAX => {
                    warn!(%error, "it cannot be read where users are");
                    return Err(error);
                }
                Err(_) => self.metrics.retries.inc(),
                routes => return routes,
            };
            tokio::time::sleep(ATTEMPTS_TIME / 10 * attempt).await;
            attempt += 1;
        }
    }
}
