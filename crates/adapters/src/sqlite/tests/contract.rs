use heartline_durability::contract::Contract;
use heartline_fanout::contract::AudienceContract;
use heartline_protocol::ChatId;

use super::scratch::Scratch;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_keeps_every_promise_of_its_ports() {
    let scratch = Scratch::new();
    let store = scratch.open();
    Contract::new(&store).run().await;
    AudienceContract::new(&store, &store).run().await;
    store.close().await;
}

#[tokio::test]
async fn a_lost_counter_is_told_and_halts_its_chat_alone() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let lose_counter = async |chat_id: ChatId| {
        let sql = "UPDATE chats SET head_sequence = NULL WHERE chat_id = ?1";
        scratch.shell().execute(sql, [chat_id.0.to_bytes()]).unwrap();
    };
    Contract::new(&store).prove_halted(lose_counter).await;
}

#[tokio::test]
async fn one_reader_and_one_runtime_thread_are_enough() {
    let scratch = Scratch::new();
    let config = crate::sqlite::SqliteConfig { readers: 1, ..scratch.config() };
    let store =
        crate::sqlite::SqliteStore::open(&config, heartline_routing::Clock::system()).unwrap();
    Contract::new(&store).run().await;
    AudienceContract::new(&store, &store).run().await;
}
