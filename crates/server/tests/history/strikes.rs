//! The faults of nodes and shared engines while clients are busy.

use std::ops::Range;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use tokio::time::sleep;

use crate::cluster::{Cluster, NODES};
use crate::history::Fault;
use crate::nemesis::between;
use crate::run::Shared;

/// How long clients live after the last fault, so that its effects show.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// Pause after a long outage, until all leases are registered again.
const HEALING: Duration = Duration::from_secs(10);

/// One kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strike {
    KillStore,
    KillNode,
    KillRedis,
    PauseStore,
    DrainNode,
    WipeRedis,
    PauseNode,
    PauseRedis,
}

/// Every kind; a short run has the first of them.
const ALL: [Strike; 8] = [
    Strike::KillStore,
    Strike::KillNode,
    Strike::KillRedis,
    Strike::PauseStore,
    Strike::DrainNode,
    Strike::WipeRedis,
    Strike::PauseNode,
    Strike::PauseRedis,
];

/// How long faults last, in milliseconds.
#[derive(Debug, Clone)]
pub(crate) struct Lengths {
    /// Until a killed engine is started again.
    killed: Range<u64>,
    /// A pause of PostgreSQL.
    store_paused: Range<u64>,
    /// A pause of a node, or of Redis.
    paused: Range<u64>,
}

impl Lengths {
    /// For a run that must not take long: pauses below the deadline of a request.
    pub(crate) const SHORT: Self =
        Self { killed: 1500..2500, store_paused: 1000..3000, paused: 1000..3000 };

    /// Pauses below and above the deadline of a request.
    pub(crate) const LONG: Self =
        Self { killed: 500..6000, store_paused: 1000..8000, paused: 1000..10_000 };
}

/// Causes this many faults, every kind equally often.
pub(crate) async fn strike(
    cluster: &mut Cluster,
    shared: &Shared,
    random: &mut StdRng,
    times: usize,
    lengths: &Lengths,
) {
    let mut strikes: Vec<Strike> = ALL.into_iter().cycle().take(times).collect();
    strikes.shuffle(random);
    for strike in strikes {
        between(random, 300..2500).await;
        shared.until_in_flight(random).await;
        match strike {
            Strike::KillNode => kill_node(cluster, shared, random).await,
            Strike::PauseNode => pause_node(cluster, shared, random, lengths).await,
            Strike::DrainNode => drain_node(cluster, shared, random).await,
            Strike::KillStore | Strike::PauseStore | Strike::KillRedis | Strike::PauseRedis => {
                engine_fails(strike, cluster, shared, random, lengths).await;
            }
            Strike::WipeRedis => {
                shared.recorder.fault(Fault::RedisWiped);
                cluster.wipe_redis();
            }
        }
    }
    sleep(AFTERWARDS).await;
}

/// Kills Redis and starts it again after so long.
pub(crate) async fn without_redis(cluster: &mut Cluster, shared: &Shared, length: Duration) {
    sleep(AFTERWARDS).await;
    shared.recorder.fault(Fault::RedisKilled);
    cluster.kill_redis();
    sleep(length).await;
    cluster.start_redis();
    shared.recorder.fault(Fault::RedisBack);
    sleep(HEALING).await;
}

/// Kills PostgreSQL again and again, and starts it again at once.
pub(crate) async fn kill_store(
    cluster: &mut Cluster,
    shared: &Shared,
    random: &mut StdRng,
    times: usize,
) {
    for _ in 0..times {
        between(random, 500..2000).await;
        shared.until_in_flight(random).await;
        shared.recorder.fault(Fault::StoreKilled);
        cluster.kill_store();
        cluster.start_store();
        shared.recorder.fault(Fault::StoreBack);
    }
    sleep(AFTERWARDS).await;
}

async fn kill_node(cluster: &mut Cluster, shared: &Shared, random: &mut StdRng) {
    let node = shared.until_in_flight(random).await;
    shared.recorder.fault(Fault::Killed { node });
    cluster.nodes[node].kill().await;
    between(random, 0..2000).await;
    cluster.nodes[node].start().await;
    shared.recorder.fault(Fault::Started { node });
}

async fn pause_node(
    cluster: &mut Cluster,
    shared: &Shared,
    random: &mut StdRng,
    lengths: &Lengths,
) {
    let node = random.random_range(0..NODES);
    shared.recorder.fault(Fault::Paused { node });
    cluster.nodes[node].freeze().await;
    between(random, lengths.paused.clone()).await;
    cluster.nodes[node].signal("CONT").await;
    shared.recorder.fault(Fault::Resumed { node });
}

async fn drain_node(cluster: &mut Cluster, shared: &Shared, random: &mut StdRng) {
    let node = random.random_range(0..NODES);
    shared.recorder.fault(Fault::Drained { node });
    cluster.nodes[node].drain().await;
    between(random, 0..1000).await;
    cluster.nodes[node].start().await;
    shared.recorder.fault(Fault::Started { node });
}

/// An engine fails for a while; sometimes a node is killed meanwhile and restarted when the engine
/// is back.
async fn engine_fails(
    strike: Strike,
    cluster: &mut Cluster,
    shared: &Shared,
    random: &mut StdRng,
    lengths: &Lengths,
) {
    let (fault, length) = match strike {
        Strike::KillStore => (Fault::StoreKilled, &lengths.killed),
        Strike::PauseStore => (Fault::StorePaused, &lengths.store_paused),
        Strike::KillRedis => (Fault::RedisKilled, &lengths.killed),
        _ => (Fault::RedisPaused, &lengths.paused),
    };
    let length = Duration::from_millis(random.random_range(length.clone()));
    shared.recorder.fault(fault);
    match fault {
        Fault::StoreKilled => cluster.kill_store(),
        Fault::StorePaused => cluster.pause_store(),
        Fault::RedisKilled => cluster.kill_redis(),
        _ => cluster.pause_redis(),
    }
    sleep(length / 2).await;
    let victim = random.random_ratio(1, 4).then(|| random.random_range(0..NODES));
    if let Some(node) = victim {
        shared.recorder.fault(Fault::Killed { node });
        cluster.nodes[node].kill().await;
    }
    sleep(length / 2).await;
    match fault {
        Fault::StoreKilled => cluster.start_store(),
        Fault::StorePaused => cluster.resume_store(),
        Fault::RedisKilled => cluster.start_redis(),
        _ => cluster.resume_redis(),
    }
    let is_store = matches!(fault, Fault::StoreKilled | Fault::StorePaused);
    shared.recorder.fault(if is_store { Fault::StoreBack } else { Fault::RedisBack });
    if let Some(node) = victim {
        cluster.nodes[node].start().await;
        shared.recorder.fault(Fault::Started { node });
    }
}
