//! Where a node stands among others: its directory and its link to them, or itself alone.

use std::sync::Arc;

use anyhow::Result;
use heartline_protocol::NodeId;
use heartline_routing::{
    Clock, Directory, Envelope, LocalLink, MemoryDirectory, NodeLink, NodeRecord,
};
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;

use crate::config::Config;

/// What the planes of this server run by default.
pub(crate) const PLANES: &str = "gateway,ingest,fanout";

/// A node's place among others, connected and not yet announced.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// Who is where.
    pub(crate) directory: Arc<dyn Directory>,
    /// How other nodes, and this one, are reached.
    pub(crate) link: Arc<dyn NodeLink>,
    /// What arrives for this node's sockets.
    pub(crate) envelopes: mpsc::Receiver<Envelope>,
    /// What this node says of itself.
    pub(crate) record: NodeRecord,
}

impl Cluster {
    /// Connects to what the configuration names.
    pub(crate) async fn connect(
        config: &Config,
        node_id: NodeId,
        clock: Clock,
        _registry: &mut Registry,
    ) -> Result<Self> {
        let (link, envelopes) = LocalLink::new(node_id.clone());
        let record = NodeRecord {
            node_id,
            address: None,
            planes: PLANES.to_owned(),
            started_at: clock.wall(),
        };
        Ok(Self {
            directory: Arc::new(MemoryDirectory::new(config.routing.shards, clock)),
            link: Arc::new(link),
            envelopes,
            record,
        })
    }
}
