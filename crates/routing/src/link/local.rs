//! The link of a node to itself.

use async_trait::async_trait;
use heartline_protocol::NodeId;
use tokio::sync::mpsc;

use super::{Envelope, LinkError, NodeLink};

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

    fn peers(&self) -> Vec<NodeId> {
        Vec::new()
    }

    fn cut_off(&self) -> Vec<NodeId> {
        Vec::new()
    }
}
