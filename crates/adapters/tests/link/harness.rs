//! Whole links, as the server puts them together.

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
use heartline_routing::{Clock, Delivery, Envelope, LinkError, NodeLink, ResyncReason};
use heartline_runtime::Random;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::directory::{Listed, ListedNodes, record};

pub(crate) const SECRET: &str = "a secret of the cluster";

/// How long anything that must happen may take here, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// How long after a fault everybody sends the way that works.
pub(crate) const SWITCHED: Duration = Duration::from_secs(5);

/// How long an envelope may take from then on.
pub(crate) const PROMPT: Duration = Duration::from_secs(1);

/// What differs between the nodes of a test.
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    /// Where Redis is, from this node; none for a link without.
    pub(crate) redis: Option<String>,
    pub(crate) secret: &'static str,
    pub(crate) peers: Vec<String>,
    /// Where it listens; any free port if none.
    pub(crate) listen: Option<SocketAddr>,
    /// Where others are told that it listens; there if none.
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
    /// Everything that belongs to the node, and ends with it.
    tasks: JoinSet<()>,
}

impl Node {
    pub(crate) async fn start(setting: Setting) -> Self {
        let id: NodeId = format!("{}-{:08x}", setting.name, rand::random::<u32>()).parse().unwrap();
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
        let mut tasks = JoinSet::new();
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

    /// Shows the node to those who ask the directory.
    pub(crate) fn announce(&self) {
        let record = record(&self.id, self.address.to_string());
        self.listed.lock().unwrap().push(record);
    }

    /// Ends the node without a word, and waits until its address is free.
    pub(crate) async fn kill(mut self) {
        self.tasks.shutdown().await;
    }

    /// Sends a message with this number.
    pub(crate) async fn send(&self, to: &NodeId, sequence: u64) -> Result<(), LinkError> {
        self.link.send(to, message(sequence)).await
    }

    /// Waits for the message with this number, and answers what came before it.
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

    /// Takes what has come.
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

/// What a node heard.
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

/// Waits until something is true.
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

/// Nodes that know each other, each with a network of its own to Redis.
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
        cluster.settle().await;
        cluster
    }

    /// Waits until everybody knows everybody and has heard how they are.
    pub(crate) async fn settle(&self) {
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

/// An address of loopback where nobody listens.
pub(crate) fn free_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

/// Waits until so long after a moment.
pub(crate) async fn after(moment: Instant, duration: Duration) {
    tokio::time::sleep_until(moment + duration).await;
}
