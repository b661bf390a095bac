use std::sync::Arc;
use std::time::Duration;

use heartline_engines::Redis;
use heartline_routing::link::{LinkMetrics, RETURNS_MAX, Reception, Transport};
use heartline_routing::{Answering, Change, Leases, PresenceStates};
use heartline_runtime::{Clock, TaskSet};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::{Listening, client, config, directory, lease, policy, settled};
use crate::redis::directory::PLANTED_PANIC;
use crate::redis::keys::Keys;
use crate::redis::{RedisCarrier, RedisClient};

const PATIENCE: Duration = Duration::from_secs(20);

async fn until(description: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, waiting).await.expect(description);
}

fn restarts(client: &RedisClient) -> u64 {
    client.counters().listener_restarts.get()
}

#[tokio::test]
async fn a_presence_listener_that_panics_is_restarted_and_has_a_gap() {
    let redis = Redis::start();
    let client = client(&redis.url());
    let one = Listening::open(client.clone(), config("node-one", 4)).await;
    let two = directory(&redis.url(), "node-two", 4).await;
    settled(&one).await;
    settled(&two).await;
    let mut changes = one.changes();

    let channel = Keys::new(client.config(), 4).channel(0);
    client.publish(&channel, PLANTED_PANIC).await.unwrap();
    until("the directory is silent while nobody listens", || !one.silence().is_zero()).await;
    while timeout(PATIENCE, changes.recv()).await.unwrap().unwrap() != Change::Gap {}
    until("it answers again", || one.silence().is_zero()).await;
    assert_eq!(restarts(&client), 1);

    let lease = lease("alice", "node-two", 1, 4);
    two.register(lease, policy()).await.unwrap();
    let heard = timeout(PATIENCE, changes.recv()).await.unwrap().unwrap();
    assert!(matches!(heard, Change::Transition(transition) if transition.is_online));
}

#[tokio::test]
async fn a_link_listener_that_panics_is_restarted_and_has_a_gap() {
    let redis = Redis::start();
    let client = client(&redis.url());
    let metrics = LinkMetrics::default();
    let own: heartline_protocol::NodeId = "node-one".parse().unwrap();
    let (reception, _inbox) = Reception::new(own.clone(), Clock::system(), metrics.clone());
    let (returns, _returned) = mpsc::channel(RETURNS_MAX);
    let (_carrier, tasks) = RedisCarrier::new(client.clone(), own, Arc::clone(&reception), returns);
    let mut running = TaskSet::new();
    running.spawn(tasks.run());
    let mut gaps = reception.gaps();

    let channel = format!("{}server:node-one:deliver", client.config().key_prefix());
    let received = || metrics.of(Transport::Broker).parcels_received.get();
    let hear = async |text: &'static [u8], count: u64| {
        while received() < count && restarts(&client) == 0 {
            client.publish(&channel, text).await.unwrap();
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, hear(b"no parcel", 1)).await.expect("the node listens");
    client.publish(&channel, PLANTED_PANIC).await.unwrap();
    timeout(PATIENCE, gaps.changed()).await.expect("the gap is noticed").unwrap();
    assert_eq!(restarts(&client), 1);
    let before = received();
    client.publish(&channel, b"no parcel").await.unwrap();
    until("it listens again", || received() > before).await;
}
