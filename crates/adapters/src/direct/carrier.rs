//! The direct links to all nodes, for the port [`DirectCarrier`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use heartline_protocol::NodeId;
use heartline_routing::LinkError;
use heartline_routing::link::{
    Carrier, Departures, DirectCarrier, LinkMetrics, Parcel, Reach, Refused,
};
use heartline_runtime::{Clock, Random, Tasks};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::ClusterSecret;
use super::dial::Dialer;
use super::link::{Link, LinkTask, put};
use super::outgoing::{Outgoing, lock};

/// Links that may be begun before [`DirectTasks`] runs any of them.
const BEGUN_MAX: usize = 1024;

/// Carries parcels over HTTP/2 from node to node. A link is begun with the first parcel for a
/// node, and kept until the node is forgotten.
#[derive(Debug)]
pub struct HttpCarrier {
    dialer: Dialer,
    links: Mutex<HashMap<NodeId, Link>>,
    departures: Arc<Mutex<Departures>>,
    begin: mpsc::Sender<LinkTask>,
    metrics: LinkMetrics,
    clock: Clock,
    random: Random,
}

/// The tasks of the links, which must run.
#[derive(Debug)]
pub struct DirectTasks {
    begun: mpsc::Receiver<LinkTask>,
    task_panics: Counter,
}

impl HttpCarrier {
    /// A carrier for this node, and its tasks.
    pub fn new(
        own: NodeId,
        secret: ClusterSecret,
        clock: Clock,
        random: Random,
        metrics: LinkMetrics,
    ) -> (Arc<Self>, DirectTasks) {
        let (begin, begun) = mpsc::channel(BEGUN_MAX);
        let task_panics = metrics.task_panics.clone();
        let carrier = Self {
            dialer: Dialer { own, secret },
            links: Mutex::default(),
            departures: Arc::default(),
            begin,
            metrics,
            clock,
            random,
        };
        (Arc::new(carrier), DirectTasks { begun, task_panics })
    }

    /// The link to a node at an address, begun if there is none.
    fn link(&self, receiver: &NodeId, address: &str) -> Option<(Reach, Arc<Outgoing>)> {
        let mut links = lock(&self.links);
        let is_good = |link: &&Link| link.address == address && !link.has_failed();
        if let Some(link) = links.get(receiver).filter(is_good) {
            return Some((link.reach(), link.outgoing()));
        }
        let outgoing = Outgoing::new(receiver.clone(), Arc::clone(&self.departures), &self.metrics);
        let (dialer, metrics) = (self.dialer.clone(), self.metrics.clone());
        let (link, task) = Link::new(
            receiver.clone(),
            address,
            outgoing,
            dialer,
            metrics,
            self.clock,
            self.random,
        );
        self.begin.try_send(task).ok()?;
        let begun = (link.reach(), link.outgoing());
        links.insert(receiver.clone(), link);
        Some(begun)
    }
}

#[async_trait]
impl Carrier for HttpCarrier {
    async fn carry(
        &self,
        receiver: &NodeId,
        address: Option<&str>,
        parcel: Parcel,
    ) -> Result<(), Refused> {
        let Some(address) = address else {
            return Err(Refused { error: LinkError::Gone, parcel });
        };
        match self.link(receiver, address) {
            Some((reach, outgoing)) => put(reach, &outgoing, parcel).await,
            None => Err(Refused { error: LinkError::Full, parcel }),
        }
    }

    fn last_number(&self, receiver: &NodeId) -> u64 {
        lock(&self.departures).last(receiver)
    }

    fn lose(&self, receiver: &NodeId) {
        lock(&self.departures).next(receiver);
    }

    fn forget(&self, receiver: &NodeId) {
        lock(&self.links).remove(receiver);
        lock(&self.departures).forget(receiver);
    }
}

#[async_trait]
impl DirectCarrier for HttpCarrier {
    async fn who_is_at(&self, address: &str) -> Result<NodeId, LinkError> {
        self.dialer.ask(address).await.map_err(|error| {
            tracing::debug!(%address, ?error, "no node found at a configured address");
            LinkError::Gone
        })
    }

    fn reach(&self, node_id: &NodeId) -> Reach {
        lock(&self.links).get(node_id).map_or(Reach::Unknown, Link::reach)
    }
}

impl DirectTasks {
    /// Runs the links, for ever. They end when it is dropped.
    pub async fn run(mut self) {
        // If the task of a link panics, the next parcel for its node begins another link.
        let links = Tasks::counting(self.task_panics);
        let stopped = CancellationToken::new();
        let _ends_links = stopped.clone().drop_guard();
        while let Some(link) = self.begun.recv().await {
            links.spawn("direct link", stopped.clone().run_until_cancelled_owned(link.run()));
        }
        std::future::pending().await
    }
}
