use heartline_durability::contract::Contract;
use heartline_engines::Postgres;
use heartline_routing::Clock;

use crate::postgres::{PostgresConfig, PostgresStore};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_keeps_every_promise_of_its_ports() {
    let url = Postgres::shared().fresh_database();
    let config = PostgresConfig::from_url(&url).unwrap();
    let store = PostgresStore::open(&config, Clock).await.unwrap();
    Contract::new(&store, &store, &store).run().await;
    store.close().await;
}
