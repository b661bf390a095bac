//! Measures what an envelope between two nodes costs: both nodes are in this process, linked over
//! real sockets, once directly and once through a Redis of their own.
//!
//! `cargo run --release -p heartline-adapters --example link_cost -- [USERS] [SECONDS] [RATE]`
//! Without a rate (envelopes per second) the sender sends as fast as the link takes them.

#![expect(clippy::print_stdout, reason = "a measurement is printed")]
#![expect(clippy::unwrap_used, reason = "a measurement that cannot be made has failed")]

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use heartline_adapters::direct::{ClusterSecret, DirectServer, HttpCarrier};
use heartline_adapters::redis::{RedisCarrier, RedisClient, RedisConfig, RedisCounters};
use heartline_engines::Redis;
use heartline_protocol::{ChatId, NodeId, UserId};
use heartline_routing::link::{
    ClusterLink, ClusterParts, LinkMetrics, RETURNS_MAX, Reception, Transport,
};
use heartline_routing::{
    Clock, Delivery, Directory, Envelope, MemoryDirectory, NodeLink, NodeRecord,
};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

const FRAME_BYTES: usize = 300;

struct Node {
    id: NodeId,
    link: Arc<ClusterLink>,
    metrics: LinkMetrics,
    inbox: mpsc::Receiver<Envelope>,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let users = arguments.next().map_or(200, |text| text.parse().unwrap());
    let lasts = Duration::from_secs(arguments.next().map_or(5, |text| text.parse().unwrap()));
    let rate = arguments.next().map(|text| text.parse::<u64>().unwrap());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let redis = Redis::start();
    for transport in Transport::ALL {
        runtime.block_on(measure(&redis, transport, users, lasts, rate));
    }
}

async fn measure(
    redis: &Redis,
    transport: Transport,
    users: usize,
    lasts: Duration,
    rate: Option<u64>,
) {
    let directory = Arc::new(MemoryDirectory::new(1, Clock));
    let url = match transport {
        Transport::Redis => redis.url(),
        // Nobody is there.
        Transport::Direct => "redis://127.0.0.1:1".to_owned(),
    };
    let mut tasks = JoinSet::new();
    let sender = node("a", &url, &directory, &mut tasks).await;
    let mut receiver = node("b", &url, &directory, &mut tasks).await;
    let is_ready = || {
        let is_known = sender.link.peer_statuses().iter().any(|peer| peer.node_id == receiver.id);
        is_known && sender.link.redis_is_healthy() == (transport == Transport::Redis)
    };
    while !is_ready() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let begun_at = Clock.now();
    let (cpu, redis_cpu) = (cpu_seconds("self"), cpu_seconds(&redis_pid(redis)));
    let (to, link) = (receiver.id.clone(), Arc::clone(&sender.link));
    tasks.spawn(async move { send(&link, &to, users, rate).await });
    let (mut count, mut lost, mut times) = (0_u64, 0, Histogram::<u64>::new(3).unwrap());
    while Clock.now() - begun_at < lasts {
        match receiver.inbox.recv().await.unwrap() {
            Envelope::Message(delivery) => {
                count += 1;
                let sent_us: u64 =
                    std::str::from_utf8(&delivery.frame[..16]).unwrap().parse().unwrap();
                times.record((Clock.wall_us()).saturating_sub(sent_us)).unwrap();
            }
            _ => lost += 1,
        }
    }
    let cpu = (cpu_seconds("self") - cpu) / count as f64 * 1e6;
    let redis_cpu = (cpu_seconds(&redis_pid(redis)) - redis_cpu) / count as f64 * 1e6;
    let per_second = count as f64 / lasts.as_secs_f64();
    println!(
        "{:6} {users} users: {per_second:7.0}/s, {cpu:5.1} us CPU of both nodes each \
         ({:.3} us per user), Redis {redis_cpu:4.1} us; p50 {} us, p99 {} us; resyncs {lost}, sent {}",
        transport.as_str(),
        cpu / users as f64,
        times.value_at_quantile(0.5),
        times.value_at_quantile(0.99),
        sender.metrics.of(transport).parcels_sent.get(),
    );
}

async fn send(link: &ClusterLink, to: &NodeId, users: usize, rate: Option<u64>) {
    let user_ids: Arc<[UserId]> =
        (0..users).map(|number| format!("user-{number:06}").parse().unwrap()).collect();
    let begun_at = Clock.now();
    for sequence in 1.. {
        if let Some(rate) = rate {
            let due = begun_at + Duration::from_micros(sequence * 1_000_000 / rate);
            tokio::time::sleep_until(due).await;
        }
        let frame = format!("{:016}{}", Clock.wall_us(), "x".repeat(FRAME_BYTES - 16));
        let envelope = Envelope::Message(Delivery {
            chat_id: ChatId(7_u128.into()),
            sequence,
            user_ids: Arc::clone(&user_ids),
            frame: frame.into(),
            origin: None,
            committed_at: None,
        });
        // A full queue is what bounds the sender; it goes on with the next.
        let _ = link.send(to, envelope).await;
    }
}

async fn node(
    name: &str,
    redis: &str,
    directory: &Arc<MemoryDirectory>,
    tasks: &mut JoinSet<()>,
) -> Node {
    let id: NodeId = format!("{name}-{:08x}", rand::random::<u32>()).parse().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let metrics = LinkMetrics::default();
    let (reception, inbox) = Reception::new(id.clone(), Clock, metrics.clone());
    let secret = ClusterSecret::new("secret").unwrap();
    let (direct, direct_tasks) =
        HttpCarrier::new(id.clone(), secret.clone(), Clock, metrics.clone());
    let config = RedisConfig::from_url(redis, "").unwrap();
    let client = RedisClient::new(config, Clock, RedisCounters::default());
    let (returns, returned) = mpsc::channel(RETURNS_MAX);
    let (redis, redis_tasks) =
        RedisCarrier::new(client, id.clone(), Arc::clone(&reception), returns);
    let record = NodeRecord {
        node_id: id.clone(),
        address: Some(address.clone()),
        planes: String::new(),
        started_at: Clock.wall(),
    };
    directory.announce(&record, Duration::from_secs(3600)).await.unwrap();
    let directory = Arc::clone(directory) as Arc<dyn Directory>;
    let link = ClusterLink::new(ClusterParts {
        address: Some(address),
        peers: Vec::new(),
        reception: Arc::clone(&reception),
        redis,
        direct,
        directory,
        clock: Clock,
    });
    let server = DirectServer::new(id.clone(), secret, reception);
    tasks.spawn(server.serve(listener, std::future::pending()));
    tasks.spawn(direct_tasks.run());
    tasks.spawn(redis_tasks.run());
    tasks.spawn(Arc::clone(&link).run(returned));
    Node { id, link, metrics, inbox }
}

trait WallMicroseconds {
    fn wall_us(&self) -> u64;
}

impl WallMicroseconds for Clock {
    /// Both ends are in this process, so any clock of it will do.
    fn wall_us(&self) -> u64 {
        static BEGUN: std::sync::OnceLock<tokio::time::Instant> = std::sync::OnceLock::new();
        let begun = *BEGUN.get_or_init(|| self.now());
        (self.now() - begun).as_micros() as u64
    }
}

fn redis_pid(redis: &Redis) -> String {
    let info = redis.command(&["INFO", "server"]);
    let line = info.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap();
    line.trim().to_owned()
}

/// User and system time of a process, in seconds.
fn cpu_seconds(pid: &str) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / 100.0
}
