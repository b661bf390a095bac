//! The port [`NodeLink`]: an envelope to one node.
//!
//! Fanout and the gateway never see each other; they meet here. The sender names a node, the
//! receiving node's own memory decides which of its sockets get the frame.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use heartline_protocol::{ChatId, CloseReason, ConnectionId, NodeId, UserId};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::lease::LeaseKey;

/// Something that one node asks another to do with its sockets.
#[derive(Debug)]
pub enum Envelope {
    /// Push one frame to every chat socket of these users.
    Push {
        /// To whom.
        user_ids: Arc<[UserId]>,
        /// The frame's JSON text, encoded once.
        frame: Bytes,
        /// Where to say for how many sockets it was queued; only a sender on the same node can
        /// ask for it.
        queued: Option<oneshot::Sender<usize>>,
    },
    /// Push a message of a chat, in its place among the chat's other messages.
    Message(Delivery),
    /// Tell chat sockets that they may have missed something.
    Resync {
        /// Whose; none means everybody's.
        user_ids: Option<Arc<[UserId]>>,
        /// Which chats; none means all.
        chat_ids: Option<Vec<ChatId>>,
        /// Why, in one word.
        reason: &'static str,
    },
    /// End these connections.
    Close {
        /// Which.
        leases: Vec<LeaseKey>,
        /// Why.
        reason: CloseReason,
    },
}

/// A message on its way to the sockets of one node.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The chat.
    pub chat_id: ChatId,
    /// Its number in the chat.
    pub sequence: u64,
    /// To whom.
    pub user_ids: Arc<[UserId]>,
    /// The frame's JSON text, encoded once.
    pub frame: Bytes,
    /// The connection that sent it and has its acknowledgement instead.
    pub origin: Option<ConnectionId>,
    /// When it was known as committed, on this process' clock; none if it came late.
    pub committed_at: Option<Instant>,
}

/// Why an envelope did not leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The receiver's queue is full: the envelope is lost, and whoever it concerns must be told.
    #[error("the node's queue is full")]
    Full,
    /// There is no such node, or it has stopped.
    #[error("the node is not there")]
    Gone,
}

/// Carries envelopes between nodes, in order from one sender to one receiver.
#[async_trait]
pub trait NodeLink: Send + Sync + std::fmt::Debug {
    /// Stop 11 of the life of a message: sent across. Waits for room in the link's own bounded
    /// queue, but never for the receiver to act.
    async fn send(&self, node_id: &NodeId, envelope: Envelope) -> Result<(), LinkError>;
}

/// The link of a node to itself: a bounded queue in the process.
#[derive(Debug)]
pub struct LocalLink {
    node_id: NodeId,
    queue: mpsc::Sender<Envelope>,
}

/// Envelopes that may wait on the local link. A sender waits for room, so nothing is lost.
pub const LOCAL_QUEUE_ENVELOPES: usize = 256;

impl LocalLink {
    /// The link and the queue that the node's inbox reads.
    pub fn new(node_id: NodeId) -> (Self, mpsc::Receiver<Envelope>) {
        let (queue, inbox) = mpsc::channel(LOCAL_QUEUE_ENVELOPES);
        (Self { node_id, queue }, inbox)
    }
}

#[async_trait]
impl NodeLink for LocalLink {
    async fn send(&self, node_id: &NodeId, envelope: Envelope) -> Result<(), LinkError> {
        if *node_id != self.node_id {
            return Err(LinkError::Gone);
        }
        self.queue.send(envelope).await.map_err(|_| LinkError::Gone)
    }
}
