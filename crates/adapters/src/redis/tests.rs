mod access;
mod client;
mod contract;
mod footprint;
mod inspection;
mod listeners;
mod one_master;
mod outage;
mod party;
mod recovery;
mod subscription;
mod wrong_clock;

use std::time::Duration;

use heartline_engines::{Redis, RedisCluster};
use heartline_protocol::{ConnectionId, UserId};
use heartline_routing::{
    Lease, LeaseKey, LeaseKind, Leases, Policy, PresenceState, PresenceStates, shard_of,
};
use heartline_runtime::{Clock, Random, TaskSet};
use tokio::time::sleep;

use super::{RedisClient, RedisConfig, RedisCounters, RedisDirectory, RedisDirectoryConfig};

/// The lease, and so the duration of a rebuild, in these tests.
const LEASE: Duration = Duration::from_secs(1);

/// A client of its own, as a node has one.
fn client(url: &str) -> RedisClient {
    let config = RedisConfig::from_url(url, "test:").unwrap();
    RedisClient::new(config, Clock::system(), Random::system(), RedisCounters::default())
}

/// The same with a deadline that also a very busy machine keeps, for tests about something else.
fn patient_client(url: &str) -> RedisClient {
    let mut config = RedisConfig::from_url(url, "test:").unwrap();
    config.deadline = Duration::from_secs(5);
    RedisClient::new(config, Clock::system(), Random::system(), RedisCounters::default())
}

/// The directory of a node that waits.
async fn patient_directory(url: &str, node: &str, shards: u16) -> Listening {
    Listening::open(patient_client(url), config(node, shards)).await
}

/// A directory whose listener runs for as long as it is held.
struct Listening {
    directory: RedisDirectory,
    _listener: TaskSet<()>,
}

impl Listening {
    async fn open(client: RedisClient, config: RedisDirectoryConfig) -> Self {
        let opened = RedisDirectory::connect(client, config, Clock::system()).await;
        let (directory, listener) = opened.unwrap();
        let mut tasks = TaskSet::new();
        tasks.spawn(listener.run());
        Self { directory, _listener: tasks }
    }
}

impl std::ops::Deref for Listening {
    type Target = RedisDirectory;

    fn deref(&self) -> &RedisDirectory {
        &self.directory
    }
}

fn config(node: &str, shards: u16) -> RedisDirectoryConfig {
    RedisDirectoryConfig {
        shards,
        lease: LEASE,
        node_id: node.parse().unwrap(),
        sweep_spacing: Duration::ZERO,
        single_session: false,
    }
}

/// The directory of a node.
async fn directory(url: &str, node: &str, shards: u16) -> Listening {
    Listening::open(client(url), config(node, shards)).await
}

fn policy() -> Policy {
    Policy {
        single_session: false,
        connections_per_user: 20,
        lease: LEASE,
        offline_linger: Duration::ZERO,
    }
}

fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

/// The connection of this number, from a device of its own.
fn lease(name: &str, node: &str, number: u64, shards: u16) -> Lease {
    let user_id = user(name);
    let shard = shard_of(&user_id, shards);
    Lease {
        key: LeaseKey {
            connection_id: ConnectionId { ulid: u128::from(number).into(), shard },
            user_id,
            node_id: node.parse().unwrap(),
        },
        device_id: format!("device-{number}").parse().unwrap(),
        kind: LeaseKind::Chat,
        age: Duration::ZERO,
        again: false,
    }
}

/// Waits until every shard's rebuild is over, as a node does that sweeps all the time.
async fn settled(directory: &RedisDirectory) {
    let users: Vec<UserId> =
        (0..500).map(|number| format!("stranger-{number}").parse().unwrap()).collect();
    loop {
        directory.sweep(0, policy()).await.unwrap();
        let states = directory.presence(&users).await.unwrap();
        if !states.contains(&PresenceState::Stale) {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// A standalone server and a Cluster, for tests that run on both.
struct Engines {
    alone: Redis,
    cluster: RedisCluster,
}

impl Engines {
    fn start() -> Self {
        Self { alone: Redis::start(), cluster: RedisCluster::start() }
    }

    fn urls(&self) -> [String; 2] {
        [self.alone.url(), self.cluster.url()]
    }
}
