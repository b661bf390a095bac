//! The links of several nodes in one process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use heartline_protocol::NodeId;
use tokio::sync::mpsc;

use super::{Envelope, LOCAL_QUEUE_ENVELOPES, LinkError, NodeLink};

/// Connects the nodes of one process with each other. Clones share the nodes.
#[derive(Debug, Clone, Default)]
pub struct MemoryLinks(Arc<Mutex<BTreeMap<NodeId, mpsc::Sender<Envelope>>>>);

/// The link of one node to all nodes of [`MemoryLinks`], including itself.
#[derive(Debug)]
pub struct MemoryLink {
    node_id: NodeId,
    links: MemoryLinks,
}

impl MemoryLinks {
    /// Adds a node: its link, and the queue that its inbox reads. The node is gone for the others
    /// when the queue is dropped.
    pub fn join(&self, node_id: NodeId) -> (MemoryLink, mpsc::Receiver<Envelope>) {
        let (queue, inbox) = mpsc::channel(LOCAL_QUEUE_ENVELOPES);
        self.lock().insert(node_id.clone(), queue);
        (MemoryLink { node_id, links: self.clone() }, inbox)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, mpsc::Sender<Envelope>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl NodeLink for MemoryLink {
    async fn send(&self, node_id: &NodeId, envelope: Envelope) -> Result<(), LinkError> {
        let queue = self.links.lock().get(node_id).cloned().ok_or(LinkError::Gone)?;
        queue.send(envelope).await.map_err(|_| LinkError::Gone)
    }

    fn peers(&self) -> Vec<NodeId> {
        let links = self.links.lock();
        let others = links.iter().filter(|(id, queue)| **id != self.node_id && !queue.is_closed());
        others.map(|(node_id, _)| node_id.clone()).collect()
    }

    fn cut_off(&self) -> Vec<NodeId> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_envelope_reaches_the_node_that_it_names_and_no_other() {
        let links = MemoryLinks::default();
        let [one, other]: [NodeId; 2] = ["one", "other"].map(|name| name.parse().unwrap());
        let (link, mut own) = links.join(one);
        let (_other_link, mut inbox) = links.join(other.clone());
        assert_eq!(link.peers(), std::slice::from_ref(&other));
        let envelope = || Envelope::PrivacyChanged { user_ids: Vec::new() };
        link.send(&other, envelope()).await.unwrap();
        assert!(matches!(inbox.recv().await, Some(Envelope::PrivacyChanged { .. })));
        assert!(own.try_recv().is_err(), "nothing was sent to the sender");
        drop(inbox);
        assert_eq!(link.send(&other, envelope()).await, Err(LinkError::Gone));
        assert!(link.peers().is_empty());
    }
}
