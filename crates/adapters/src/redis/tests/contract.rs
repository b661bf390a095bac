use std::time::Duration;

use heartline_engines::{Redis, RedisCluster};
use heartline_routing::contract::Contract;

use super::{LEASE, patient_directory, settled};

/// Few enough that several users share one, enough that a Cluster spreads them.
const SHARDS: u16 = 12;

async fn keeps_the_contract(url: &str) {
    let one = patient_directory(url, "node-one", SHARDS).await;
    let two = patient_directory(url, "node-two", SHARDS).await;
    settled(&one).await;
    Contract::new(SHARDS, &[&*one, &*two]).run().await;
    assert_eq!(LEASE, Duration::from_secs(1), "a rebuild ends before the suite begins");
}

#[tokio::test]
async fn a_server_alone_keeps_the_contract() {
    keeps_the_contract(&Redis::start().url()).await;
}

#[tokio::test]
async fn a_cluster_keeps_the_contract() {
    keeps_the_contract(&RedisCluster::start().url()).await;
}
