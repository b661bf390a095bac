//! Sends envelopes, one per node.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use heartline_protocol::{ChatId, NodeId, UserId};
use heartline_routing::{
    Delivery, DirectoryError, Envelope, LocalSockets, NodeLink, ResyncReason, Route, Routes,
};
use heartline_runtime::Clock;
use tracing::debug;

use crate::metrics::Metrics;

/// Attempts to read routes, and the time for all of them.
const ATTEMPTS_MAX: u32 = 3;
const ATTEMPTS_TIME: Duration = Duration::from_millis(250);

/// How long the directory may be silent before its routes are read only once.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// Sends frames to the nodes of their recipients.
#[derive(Debug, Clone)]
pub struct Fanout {
    /// This node.
    pub node_id: NodeId,
    /// The port for routes of users.
    pub routes: Arc<dyn Routes>,
    /// The link to the nodes.
    pub link: Arc<dyn NodeLink>,
    /// The sockets of this node.
    pub sockets: Arc<dyn LocalSockets>,
    /// The clock for the timestamps of frames.
    pub clock: Clock,
    /// The counters of fanout.
    pub metrics: Metrics,
}

/// The other nodes to which some users are connected, each with its users.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeRoutes {
    pub(crate) nodes: Vec<(NodeId, Arc<[UserId]>)>,
}

/// The routes of users could not be read, and no peer is known for a broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RoutesUnreadable;

impl Fanout {
    /// The routes of these users to other nodes. Routes that were read after a message was stored
    /// are sufficient for that message: a client that connects later reads it from the log.
    ///
    /// While the directory cannot be read, every peer gets all users, and selects its own
    /// connections. A node that is cut off from the directory always gets all users.
    pub(crate) async fn routes_of(
        &self,
        user_ids: &Arc<[UserId]>,
    ) -> Result<NodeRoutes, RoutesUnreadable> {
        let mut nodes: Vec<(NodeId, Arc<[UserId]>)> = match self.routes(user_ids).await {
            Ok(routes) => {
                routes.into_iter().map(|route| (route.node_id, route.user_ids.into())).collect()
            }
            Err(_) => {
                let peers = self.link.peers();
                if peers.is_empty() {
                    self.metrics.skipped("routes_unreadable");
                    return Err(RoutesUnreadable);
                }
                self.metrics.broadcasts.inc();
                peers.into_iter().map(|peer| (peer, Arc::clone(user_ids))).collect()
            }
        };
        for node_id in self.link.cut_off() {
            nodes.retain(|(known, _)| *known != node_id);
            nodes.push((node_id, Arc::clone(user_ids)));
        }
        Ok(NodeRoutes { nodes })
    }

    /// Stop 11 of the life of a message: sent. Sends a message to every node to which some of its
    /// audience are connected; the frame was encoded once.
    pub(crate) async fn deliver(&self, delivery: Delivery, routes: &NodeRoutes) {
        tracing::trace!(target: "heartline::life", message_stop = 11, "sent");
        for (node_id, user_ids) in &routes.nodes {
            let user_ids = Arc::clone(user_ids);
            let delivery = Delivery { user_ids, ..delivery.clone() };
            self.send(node_id, Envelope::Message(delivery)).await;
        }
        // This node needs no route: its hub knows its connections.
        self.send(&self.node_id, Envelope::Message(delivery)).await;
    }

    /// Pushes a frame that has no position in a chat's order.
    pub(crate) async fn send_frame(&self, user_ids: Arc<[UserId]>, frame: &Bytes) {
        let envelope = |user_ids| Envelope::Push { user_ids, frame: frame.clone() };
        self.send_to_users(user_ids, envelope).await;
    }

    /// Sends an envelope of the same kind to every node to which some of these users are connected.
    pub(crate) async fn send_to_users(
        &self,
        user_ids: Arc<[UserId]>,
        envelope: impl Fn(Arc<[UserId]>) -> Envelope,
    ) {
        if user_ids.is_empty() {
            return;
        }
        let routes = self.routes_of(&user_ids).await.unwrap_or_default();
        self.send_along(user_ids, routes, envelope).await;
    }

    /// Sends along routes that were read before.
    async fn send_along(
        &self,
        user_ids: Arc<[UserId]>,
        routes: NodeRoutes,
        envelope: impl Fn(Arc<[UserId]>) -> Envelope,
    ) {
        for (node_id, user_ids) in routes.nodes {
            self.send(&node_id, envelope(user_ids)).await;
        }
        self.send(&self.node_id, envelope(user_ids)).await;
    }

    /// Sends `resync_required` for a chat to its members.
    pub(crate) async fn resync(
        &self,
        user_ids: Arc<[UserId]>,
        routes: NodeRoutes,
        chat_id: ChatId,
    ) {
        let envelope = |user_ids| Envelope::Resync {
            user_ids: Some(user_ids),
            chat_ids: Some(vec![chat_id]),
            reason: ResyncReason::Undelivered,
        };
        self.send_along(user_ids, routes, envelope).await;
    }

    /// Sends `resync_required` for all chats to every user.
    pub(crate) async fn resync_everything(&self) {
        let reason = ResyncReason::Undelivered;
        let envelope = || Envelope::Resync { user_ids: None, chat_ids: None, reason };
        self.send_to_all_nodes(envelope).await;
    }

    /// Makes every node check again who may see these users, and whom they may see.
    pub async fn privacy_changed(&self, user_ids: &[UserId]) {
        let user_ids = user_ids.to_vec();
        self.send_to_all_nodes(|| Envelope::PrivacyChanged { user_ids: user_ids.clone() }).await;
    }

    async fn send_to_all_nodes(&self, envelope: impl Fn() -> Envelope) {
        for node_id in self.link.peers() {
            self.send(&node_id, envelope()).await;
        }
        self.send(&self.node_id, envelope()).await;
    }

    /// Sends an envelope. A failed send consumes a number of the link, so that a receiver that
    /// lives detects a gap; the clients of a dead node sync when they reconnect.
    pub(crate) async fn send(&self, node_id: &NodeId, envelope: Envelope) {
        if let Err(error) = self.link.send(node_id, envelope).await {
            debug!(node = %node_id, %error, "envelope not sent");
            self.metrics.skipped("node_unreachable");
        }
    }

    pub(crate) async fn routes(&self, user_ids: &[UserId]) -> Result<Vec<Route>, DirectoryError> {
        let attempts = self.attempts(user_ids);
        let routes = match tokio::time::timeout(ATTEMPTS_TIME, attempts).await {
            Ok(routes) => routes,
            Err(late) => Err(DirectoryError(Box::new(late))),
        };
        self.metrics.routing.looked_up(routes.is_ok());
        routes
    }

    async fn attempts(&self, user_ids: &[UserId]) -> Result<Vec<Route>, DirectoryError> {
        // A directory that has not answered for a while is read only once per message.
        let is_silent = self.routes.silence() > SILENCE_MAX;
        let mut attempt = if is_silent { ATTEMPTS_MAX } else { 1 };
        loop {
            match self.routes.routes(user_ids, &self.node_id).await {
                Err(error) if attempt == ATTEMPTS_MAX => {
                    debug!(%error, "reading routes failed");
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
