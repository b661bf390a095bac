use heartline_durability::contract::Contract;
use heartline_fanout::contract::AudienceContract;
use heartline_protocol::ChatId;
use heartline_runtime::{Clock, Random};

use super::scratch::Scratch;
use crate::sqlite::{Execution, SqliteConfig, SqliteStore};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_keeps_every_promise_of_its_ports() {
    let scratch = Scratch::new();
    let store = scratch.open();
    Contract::new(&store).run().await;
    AudienceContract::new(&store, &store).run().await;
    store.close().await;
}

#[tokio::test]
async fn a_lost_counter_halts_its_chat_alone() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let lose_counter = async |chat_id: ChatId| {
        let sql = "UPDATE chats SET head_sequence = NULL WHERE chat_id = ?1";
        scratch.shell().execute(sql, [chat_id.0.to_bytes()]).unwrap();
    };
    Contract::new(&store).prove_halted(lose_counter).await;
}

#[tokio::test]
async fn a_chat_that_cannot_be_written_fails_alone() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let break_chat = async |chat_id: ChatId| {
        let key = "SELECT chat_key FROM chats WHERE chat_id = ?1";
        let shell = scratch.shell();
        let key: i64 = shell.query_row(key, [chat_id.0.to_bytes()], |row| row.get(0)).unwrap();
        let trigger = format!(
            "CREATE TRIGGER broken BEFORE INSERT ON messages WHEN NEW.chat_key = {key}
            BEGIN SELECT RAISE(ABORT, 'broken'); END"
        );
        shell.execute_batch(&trigger).unwrap();
    };
    Contract::new(&store).prove_failing_chat(break_chat).await;
}

#[tokio::test(start_paused = true)]
async fn the_contract_holds_on_the_calling_task_under_simulated_time() {
    let scratch = Scratch::new();
    let config = SqliteConfig { execution: Execution::Inline, ..scratch.config() };
    // The contract waits for the store's own clock, which is the node's time of day.
    let clock = Clock::simulated(Clock::system().wall());
    let store = SqliteStore::open(&config, clock, Random::system()).unwrap();
    Contract::new(&store).run().await;
    AudienceContract::new(&store, &store).run().await;
    store.close().await;
    drop(store);
    SqliteStore::open(&config, Clock::system(), Random::system()).unwrap();
}

#[tokio::test]
async fn one_reader_and_one_runtime_thread_are_enough() {
    let scratch = Scratch::new();
    let config = SqliteConfig { readers: 1, ..scratch.config() };
    let store = SqliteStore::open(&config, Clock::system(), Random::system()).unwrap();
    Contract::new(&store).run().await;
    AudienceContract::new(&store, &store).run().await;
}
