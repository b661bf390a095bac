//! Complete links, assembled as the server does.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use heartline_adapters::direct::{ClusterSecret, DirectServer, HttpCarrier};
use heartline_adapters::redis::{RedisCarrier, RedisClient, RedisConfig, RedisCounters};
use heartline_engines::{FaultProxy, free_port};
use heartline_protocol::{ChatId, NodeId};
use heartline_routing::link::{
    ClusterLink, ClusterParts, LinkMetrics, RETURNS_MAX, Reception, Transport,
};
use heartline_routing::{Delivery, Envelope, LinkError, NodeLink, ResyncReason};
use heartline_runtime::{Clock, Random, TaskSet};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::directory::{Listed, ListedNodes, record};

pub(crate) const SECRET: &str = "a secret of the cluster";

/// The longest wait for an event, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The time after a fault by which every node uses the transport that works.
pub(crate) const SWITCHED: Duration = Duration::from_secs(5);

/// The longest delivery time of an envelope from then on.
pub(crate) const PROMPT: Duration = Duration::from_secs(1);

/// The settings of a node in a test.
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    /// The URL of Redis for this node; none for a link without Redis.
    pub(crate) redis: Option<String>,
    pub(crate) secret: &'static str,
    pub(crate) peers: Vec<String>,
    /// The address on which the node listens; any free port if none.
    pub(crate) listen: Option<SocketAddr>,
    /// The address that the node announces; the same if none.
    pub(crate) advertise: Option<SocketAddr>,
    pub(crate) listed: Listed,
}

impl Setting {
    pub(crate) fn new(name: &'static str, redis: Option<String>, listed: &Listed) -> Self {
        let listed = Arc::clone(listed);
        let (peers, listen, advertise) = (Vec::new(), None, None);
        Self { name, redis, secret: SECRET, peers, listen, advertise, listed }
    }
}

/// A node that has nothing but a link.
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) address: SocketAddr,
    pub(crate) link: Arc<ClusterLink>,
    pub(crate) metrics: LinkMetrics,
    pub(crate) inbox: mpsc::Receiver<Envelope>,
    listed: Listed,
    /// The tasks of the node, which end with it.
    tasks: TaskSet<()>,
}

impl Node {
    pub(crate) async fn start(setting: Setting) -> Self {
        let id: NodeId =
            format!("{}-{:08x}", setting.name, Random::system().draw::<u32>()).parse().unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let listener = TcpListener::bind(setting.listen.unwrap_or(any)).await.unwrap();
        let address = setting.advertise.unwrap_or(listener.local_addr().unwrap());
        let metrics = LinkMetrics::default();
        let (reception, inbox) = Reception::new(id.clone(), Clock::system(), metrics.clone());
        let secret = ClusterSecret::new(setting.secret).unwrap();
        let (direct, direct_tasks) = HttpCarrier::new(
            id.clone(),
            secret.clone(),
            Clock::system(),
            Random::system(),
            metrics.clone(),
        );
        // A node without Redis has a client that never reaches any.
        let url = setting.redis.clone().unwrap_or("redis://127.0.0.1:1".to_owned());
        let config = RedisConfig::from_url(&url, "test:").unwrap();
        let client =
            RedisClient::new(config, Clock::system(), Random::system(), RedisCounters::default());
        let (returns, returned) = mpsc::channel(RETURNS_MAX);
        let (broker, redis_tasks) =
            RedisCarrier::new(client.clone(), id.clone(), Arc::clone(&reception), returns);
        let asked = setting.redis.is_some().then_some(client);
        let nodes = ListedNodes::new(Arc::clone(&setting.listed), asked);
        let link = ClusterLink::new(ClusterParts {
            address: Some(address.to_string()),
            peers: setting.peers,
            reception: Arc::clone(&reception),
            broker,
            direct,
            nodes: Arc::new(nodes),
            clock: Clock::system(),
        });
        let mut tasks = TaskSet::new();
        let server = DirectServer::new(id.clone(), secret, reception);
        tasks.spawn(server.serve(listener, std::future::pending()));
        tasks.spawn(direct_tasks.run());
        tasks.spawn(redis_tasks.run());
        tasks.spawn(Arc::clone(&link).run(returned));
        if setting.redis.is_some() {
            timeout(PATIENCE, link.subscribed()).await.expect("the node hears itself");
        }
        let listed = setting.listed;
        Self { id, address, link, metrics, inbox, listed, tasks }
    }

    /// Lists the node in the directory.
    pub(crate) fn announce(&self) {
        let record = record(&self.id, self.address.to_string());
        self.listed.lock().unwrap().push(record);
    }

    /// Kills the node, and waits until its address is free.
    pub(crate) async fn kill(mut self) {
        self.tasks.shutdown().await;
    }

    /// Sends a message with this number.
    pub(crate) async fn send(&self, to: &NodeId, sequence: u64) -> Result<(), LinkError> {
        self.link.send(to, message(sequence)).await
    }

    /// Waits for the message with this number, and returns the events before it.
    pub(crate) async fn hears(&mut self, sequence: u64, within: Duration) -> Heard {
        let until = Clock::system().now() + within;
        let mut heard = Heard::default();
        loop {
            let left = until.saturating_duration_since(Clock::system().now());
            let envelope = timeout(left, self.inbox.recv()).await;
            let Ok(envelope) = envelope else {
                panic!("{} did not hear {sequence} within {within:?}, but {heard:?}", self.id)
            };
            match envelope.expect("the link holds the inbox open") {
                Envelope::Message(delivery) => {
                    heard.messages.push(delivery.sequence);
                    if delivery.sequence == sequence {
                        return heard;
                    }
                }
                Envelope::Resync { user_ids: None, reason: ResyncReason::LinkGap, .. } => {
                    heard.resyncs += 1;
                }
                other => panic!("nobody sends {other:?}"),
            }
        }
    }

    /// Waits until every connection would be told to sync.
    pub(crate) async fn resyncs(&mut self, within: Duration) {
        let resync = async {
            loop {
                match self.inbox.recv().await.unwrap() {
                    Envelope::Resync { user_ids: None, reason: ResyncReason::LinkGap, .. } => {
                        return;
                    }
                    Envelope::Message(_) => {}
                    other => panic!("nobody sends {other:?}"),
                }
            }
        };
        timeout(within, resync).await.expect("the loss is told");
    }

    /// Removes and returns the received events.
    pub(crate) fn empty(&mut self) -> Heard {
        let mut heard = Heard::default();
        while let Ok(envelope) = self.inbox.try_recv() {
            match envelope {
                Envelope::Message(delivery) => heard.messages.push(delivery.sequence),
                Envelope::Resync { .. } => heard.resyncs += 1,
                other => panic!("nobody sends {other:?}"),
            }
        }
        heard
    }

    pub(crate) fn sent(&self, transport: Transport) -> u64 {
        let metrics = self.metrics.of(transport);
        metrics.parcels_sent.get() - metrics.probes_sent.get()
    }
}

/// An event that a node received.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) messages: Vec<u64>,
    pub(crate) resyncs: usize,
}

pub(crate) fn message(sequence: u64) -> Envelope {
    Envelope::Message(Delivery {
        chat_id: ChatId(7_u128.into()),
        sequence,
        user_ids: Arc::new(["ana".parse().unwrap()]),
        frame: format!("{{\"sequence\":{sequence}}}").into(),
        origin: None,
        committed_at: None,
    })
}

/// Waits until a condition is true.
pub(crate) async fn until(what: &str, within: Duration, is_true: impl Fn() -> bool) {
    let begun_at = Clock::system().now();
    while !is_true() {
        assert!(
            Clock::system().now() - begun_at < within,
            "{what} did not happen within {within:?}"
        );
        sleep(Duration::from_millis(10)).await;
    }
}

/// Nodes that know each other, each with its own proxy to Redis.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    pub(crate) proxies: HashMap<NodeId, FaultProxy>,
}

impl Cluster {
    pub(crate) async fn start(redis_port: u16, names: &[&'static str]) -> Self {
        let listed = Listed::default();
        let (mut nodes, mut proxies) = (Vec::new(), HashMap::new());
        let redis = SocketAddr::from(([127, 0, 0, 1], redis_port));
        for name in names {
            let proxy = FaultProxy::start(redis).await.unwrap();
            let url = format!("redis://{}", proxy.address());
            let node = Node::start(Setting::new(name, Some(url), &listed)).await;
            proxies.insert(node.id.clone(), proxy);
            nodes.push(node);
        }
        nodes.iter().for_each(Node::announce);
        let cluster = Self { nodes, proxies };
        cluster.wait_until_known().await;
        cluster
    }

    /// Waits until every node has the status of every other.
    pub(crate) async fn wait_until_known(&self) {
        let others = self.nodes.len() - 1;
        for node in &self.nodes {
            let is_settled = || {
                let statuses = node.link.peer_statuses();
                node.link.broker_is_healthy()
                    && statuses.iter().filter(|status| status.broker_is_healthy).count() == others
            };
            until("everybody knowing everybody", PATIENCE, is_settled).await;
        }
    }

    /// Sends a message from every node to every other and has each arrive promptly.
    pub(crate) async fn all_reach_all(&mut self, first: u64) {
        let mut sequence = first;
        for from in 0..self.nodes.len() {
            for to in 0..self.nodes.len() {
                if from != to {
                    let to_id = self.nodes[to].id.clone();
                    self.nodes[from].send(&to_id, sequence).await.expect("it is taken");
                    self.nodes[to].hears(sequence, PROMPT).await;
                    sequence += 1;
                }
            }
        }
    }
}

/// A free address on loopback.
pub(crate) fn free_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

/// Waits until a time after an instant.
pub(crate) async fn after(moment: Instant, duration: Duration) {
    tokio::time::sleep_until(moment + duration).await;
}
