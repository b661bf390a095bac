use std::sync::Arc;

use heartline_engines::{Redis, RedisCluster};
use heartline_party::PartyStore;
use heartline_party::contract::StoreContract;

use super::store;

async fn keeps_the_contract(url: &str) {
    let node = async || PartyStore::shared(Arc::new(store(url).await));
    StoreContract::new(vec![node().await, node().await]).run().await;
}

#[tokio::test]
async fn a_server_alone_keeps_the_contract_of_party_stores() {
    keeps_the_contract(&Redis::start().url()).await;
}

#[tokio::test]
async fn a_cluster_keeps_the_contract_of_party_stores() {
    keeps_the_contract(&RedisCluster::start().url()).await;
}
