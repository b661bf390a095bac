//! Nodes: real processes that share engines of their own.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::join_all;
use heartline_engines::{FaultProxy, HeldPort, Postgres, Redis, free_port, hold_port};
use heartline_runtime::Clock;
use heartline_testing::{PATIENCE, SECRET, Server, Socket, bearer, service_token};
use serde_json::Value;
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use crate::HEARTLINE;
use crate::directory::Connection;
use crate::lossy::LossyNetwork;

/// How long a lease lasts: how late a crash is noticed at most.
pub(crate) const LEASE: Duration = Duration::from_secs(15);

/// How often leases that have run out are cleared away.
pub(crate) const SWEEP: Duration = Duration::from_secs(1);

/// How late something may be on a machine that has more to do.
pub(crate) const SLACK: Duration = Duration::from_secs(1);

/// The secret by which the nodes authenticate each other.
const CLUSTER_SECRET: &str = "what the nodes of these tests know each other by";

/// Serializes the start of nodes.
static STARTING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Configuration for clients that send no heartbeats and share few addresses.
const CONFIGURATION: &str = r#"
[gateway]
heartbeat_interval = "10m"
heartbeat_timeout = "1h"
[limits]
connections_per_address = 100000
[presence]
default_visibility = "everyone"
[metrics]
listen = "main"
"#;

/// The time.
pub(crate) fn now() -> Instant {
    Clock::system().now()
}

/// Whether the long forms were asked for.
pub(crate) fn is_long() -> bool {
    std::env::var("HEARTLINE_LONG").is_ok_and(|value| value == "1")
}

/// The configuration of a cluster.
#[derive(Default)]
pub(crate) struct Setup {
    nodes: usize,
    network: Network,
    is_together: bool,
    /// Another Redis than the cluster's own.
    redis_url: Option<String>,
    /// More arguments of the cluster's own.
    redis_arguments: Vec<String>,
    /// `section.key` and its value, for all nodes.
    settings: Vec<(String, String)>,
    /// Variables of the environment of single nodes.
    environments: Vec<(usize, Vec<(String, String)>)>,
}

/// How nodes reach their engines.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    /// As they are.
    #[default]
    Plain,
    /// Each over a network of its own to Redis that can fail.
    FaultyToRedis,
    /// Connections to the store go through a proxy that can fail.
    FaultyToStore,
    /// Each over a network of its own to Redis that can lose single envelopes.
    Lossy,
}

/// Some nodes, their Redis, and a database of their own.
pub(crate) struct Cluster {
    nodes: Vec<Node>,
    pub(crate) redis: Redis,
    /// The URL of the database.
    pub(crate) store: String,
    setup: Setup,
    /// Redis' port while Redis is down.
    redis_port: Mutex<Option<HeldPort>>,
}

/// One node.
pub(crate) struct Node {
    server: Server,
    /// `<name>-<boot suffix>`.
    pub(crate) id: String,
    faulty: Option<FaultProxy>,
    lossy: Option<LossyNetwork>,
}

// === impl Setup ===

impl Setup {
    pub(crate) fn nodes(nodes: usize) -> Self {
        Self { nodes, ..Self::default() }
    }

    /// How each node reaches Redis and the store.
    pub(crate) fn network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// The nodes start all at once.
    pub(crate) fn together(mut self) -> Self {
        self.is_together = true;
        self
    }

    /// The nodes use the Redis of this URL instead of one of their own.
    pub(crate) fn redis_url(mut self, url: &str) -> Self {
        self.redis_url = Some(url.to_owned());
        self
    }

    /// Starts the cluster's Redis with more arguments.
    pub(crate) fn redis_arguments(mut self, arguments: &[&str]) -> Self {
        self.redis_arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        self
    }

    /// Sets `section.key` on every node.
    pub(crate) fn set(mut self, key: &str, value: &str) -> Self {
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Gives the process of one node, counted from 0, more variables of the environment.
    pub(crate) fn environment(mut self, node: usize, variables: &[(&str, &str)]) -> Self {
        let owned = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.environments.push((node, owned.collect()));
        self
    }

    /// Starts the engines and the nodes, and waits until the nodes know each other and publish
    /// presence.
    pub(crate) async fn start(self) -> Cluster {
        // Every connection is a file, and some tests hold thousands.
        rlimit::increase_nofile_limit(u64::MAX).unwrap();
        let store = Postgres::shared().fresh_database();
        let arguments: Vec<&str> = self.redis_arguments.iter().map(String::as_str).collect();
        let (redis, redis_port) = (Redis::start_with(&arguments), Mutex::default());
        let mut cluster = Cluster { nodes: Vec::new(), redis, store, setup: self, redis_port };
        // One after the other, unless asked otherwise, so that a small machine keeps up.
        let turn = STARTING.lock().await;
        if cluster.setup.is_together {
            let numbers = 0..cluster.setup.nodes;
            cluster.nodes = join_all(numbers.map(|number| cluster.start_node(number))).await;
        }
        for number in cluster.nodes.len()..cluster.setup.nodes {
            let node = cluster.start_node(number);
            let node = match number {
                0 => cluster.settled(node).await,
                _ => node.await,
            };
            cluster.nodes.push(node);
        }
        drop(turn);
        cluster.is_complete().await;
        cluster
    }
}

// === impl Cluster ===

impl Cluster {
    /// Starts this many nodes on one Redis.
    pub(crate) async fn start(nodes: usize) -> Self {
        Setup::nodes(nodes).start().await
    }

    /// The nodes, as an array of the size that the test expects.
    pub(crate) fn all<const COUNT: usize>(&self) -> [&Node; COUNT] {
        let nodes: Vec<&Node> = self.nodes.iter().collect();
        nodes.try_into().unwrap_or_else(|_| panic!("the cluster has {} nodes", self.nodes.len()))
    }

    /// The nodes, however many there are.
    pub(crate) fn every(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter()
    }

    /// A node by its place, counted from 0.
    pub(crate) fn node(&mut self, number: usize) -> &mut Node {
        &mut self.nodes[number]
    }

    /// Starts one more node and waits until all nodes know each other.
    pub(crate) async fn add_node(&mut self) -> &mut Node {
        let node = self.start_node(self.nodes.len()).await;
        self.nodes.push(node);
        self.is_complete().await;
        self.nodes.last_mut().unwrap()
    }

    /// Runs SQL on the database of the cluster; returns one line per row, columns separated by `|`.
    pub(crate) fn sql(&self, sql: &str) -> String {
        Postgres::shared().sql(&self.store, sql)
    }

    /// Kills Redis. Its port stays bound, so that no outgoing connection takes it meanwhile.
    pub(crate) fn stop_redis(&self) {
        self.redis.stop();
        self.redis_port.lock().unwrap().replace(hold_port(self.redis.port()));
    }

    /// Kills a node and forgets it.
    pub(crate) async fn lose(&mut self, number: usize) -> String {
        let mut node = self.nodes.remove(number);
        node.kill().await;
        node.id.clone()
    }

    /// Starts a node and waits until it serves.
    pub(crate) async fn start_node(&self, number: usize) -> Node {
        let local = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut redis = local(self.redis.port());
        let mut store = self.store.clone();
        let (mut faulty, mut lossy) = (None, None);
        match self.setup.network {
            Network::Plain => {}
            Network::FaultyToRedis => {
                let proxy = FaultProxy::start(redis).await.unwrap();
                redis = faulty.insert(proxy).address();
            }
            Network::FaultyToStore => {
                let port = Postgres::shared().port();
                let proxy = FaultProxy::start(local(port)).await.unwrap();
                let address = faulty.insert(proxy).address();
                store = store.replace(&local(port).to_string(), &address.to_string());
            }
            Network::Lossy => {
                redis = lossy.insert(LossyNetwork::to(self.redis.port()).await).address;
            }
        }
        let directory = HEARTLINE.scratch();
        let file = directory.join("heartline.toml");
        let redis_url = self.setup.redis_url.clone().unwrap_or(format!("redis://{redis}"));
        std::fs::write(&file, configuration(number, &redis_url, &store)).unwrap();
        let mut command = self.command(number, &directory);
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&file);
        let server = Server::spawn(command, directory).await;
        let welcome = server.http("GET", "/", "", None).await.body;
        let id = welcome.lines().next().and_then(|line| line.rsplit(' ').next());
        let id = id.expect("a node says its name").to_owned();
        Node { server, id, faulty, lossy }
    }

    fn command(&self, number: usize, directory: &Path) -> Command {
        let mut command = HEARTLINE.command();
        command.env("HEARTLINE__SERVER__DATA_DIR", directory.join("data"));
        for (key, value) in &self.setup.settings {
            command.env(format!("HEARTLINE__{}", key.to_uppercase().replace('.', "__")), value);
        }
        for (_, variables) in self.setup.environments.iter().filter(|(node, _)| *node == number) {
            command.envs(variables.iter().cloned());
        }
        command
    }

    /// Makes Redis look as if nodes had just used it until the first node has started. The waiting
    /// time after a wipe has its own tests.
    async fn settled(&self, first: impl Future<Output = Node>) -> Node {
        let script = "local time = redis.call('TIME') \
            for shard = 0, 99 do redis.call('HSET', 'presence:epoch:' .. shard, 'id', '1', \
            'rebuild_until', '0', 'swept_at', string.format('%.0f', time[1] * 1000)) end";
        let settle = async {
            loop {
                self.redis.command(&["EVAL", script, "0"]);
                sleep(SWEEP).await;
            }
        };
        tokio::select! {
            biased;
            () = settle => unreachable!("it goes on for ever"),
            node = first => node,
        }
    }

    /// Waits until the nodes know each other and publish presence.
    async fn is_complete(&self) {
        let others = (self.nodes.len() - 1) as f64;
        for node in &self.nodes {
            node.metric_becomes("link_peers_connected", others).await;
            node.tells_presence().await;
        }
    }
}

// === impl Node ===

impl Deref for Node {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Node {
    /// Kills the process.
    pub(crate) async fn kill(&mut self) {
        self.signal("KILL").await;
        self.server.exit_code().await;
    }

    /// Waits for the process to end and returns its exit code.
    pub(crate) async fn exit_code(&mut self) -> Option<i32> {
        self.server.exit_code().await
    }

    /// A socket of a user's named device, and its connection.
    pub(crate) async fn device(&self, user: &str, device: &str) -> (Socket, Connection) {
        let bearer = bearer(user);
        let headers = [("Authorization", bearer.as_str()), ("X-Device-ID", device)];
        let (socket, established) = self.connect_with(&headers).await;
        assert_eq!(established["type"], "connection_established", "{established}");
        (socket, Connection::of(&established))
    }

    /// The network between this node and its engine that can fail.
    pub(crate) fn network(&self) -> &FaultProxy {
        self.faulty.as_ref().expect("the cluster was set up with faulty networks")
    }

    /// The network between this node and Redis that can lose envelopes.
    pub(crate) fn lossy_network(&self) -> &LossyNetwork {
        self.lossy.as_ref().expect("the cluster was set up with lossy networks")
    }

    /// Sends a request with a service token; returns the body of a response that must be a success.
    pub(crate) async fn admin(&self, method: &str, path: &str) -> Value {
        let answer = self.http(method, path, &service_token(), None).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// Status and degraded parts of `/readyz`.
    pub(crate) async fn readiness(&self) -> (u16, Vec<String>) {
        let answer = self.http("GET", "/readyz", "", None).await;
        let degraded = answer.json()["degraded"].as_array().unwrap().clone();
        (answer.status, degraded.iter().map(|part| part.as_str().unwrap().to_owned()).collect())
    }

    /// Waits until the node publishes presence.
    pub(crate) async fn tells_presence(&self) {
        self.knows("anybody", &["nobody"]).await;
    }

    /// The presence of users as an observer sees it, once the node reports no stale state.
    pub(crate) async fn knows(&self, observer: &str, users: &[&str]) -> Vec<Value> {
        let ask = async {
            loop {
                let seen = self.all_seen(observer, users).await;
                if seen.iter().all(|it| it.get("stale").is_none()) {
                    return seen;
                }
                // Ten queries a second are allowed.
                sleep(Duration::from_millis(100)).await;
            }
        };
        timeout(PATIENCE, ask).await.expect("the node tells who is online")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.log", self.id));
            if std::fs::write(&path, self.server.log().join("\n")).is_ok() {
                eprintln!("the log of {} is {}", self.id, path.display());
            }
        }
    }
}

/// The configuration of a node: its number, from 0, its Redis and its store.
pub(crate) fn configuration(number: usize, redis_url: &str, store: &str) -> String {
    let (name, port) = (number + 1, free_port());
    format!(
        "{CONFIGURATION}\n\
         [server]\nname = \"node{name}\"\n\
         [auth]\nhmac_secret = \"{SECRET}\"\n\
         [redis]\nurl = \"{redis_url}\"\n\
         [cluster]\nlisten = \"127.0.0.1:{port}\"\nsecret = \"{CLUSTER_SECRET}\"\n\
         [store]\nurl = \"{store}&pool_size=4\"\n"
    )
}
