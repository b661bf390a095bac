use heartline_durability::contract::Contract;
use heartline_fanout::contract::AudienceContract;
use heartline_protocol::ChatId;
use heartline_runtime::{Clock, Random};

use super::scratch::{Scratch, group, message, whole};
use crate::append_all::AppendAll;
use crate::postgres::{PostgresConfig, PostgresStore};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_keeps_every_promise_of_its_ports() {
    let scratch = Scratch::new();
    let store = scratch.open().await;
    Contract::new(&store).run().await;
    AudienceContract::new(&store, &store).run().await;
    assert_eq!(store.counters().connections_lost.get(), 0);
    scratch.check_marks();
    store.close().await;
    assert_eq!(store.counters().connections.get(), 0);
}

#[tokio::test]
async fn a_chat_that_cannot_be_written_fails_alone() {
    let scratch = Scratch::new();
    let store = scratch.open().await;
    let break_chat = async |chat_id: ChatId| {
        let id = format!("{:032x}", chat_id.0.0);
        let key = format!("SELECT chat_key FROM heartline.chats WHERE chat_id = '{id}'");
        let key = scratch.sql(&key);
        scratch.sql(&format!(
            "ALTER TABLE heartline.messages
            ADD CONSTRAINT broken CHECK (chat_key <> {key}) NOT VALID"
        ));
    };
    Contract::new(&store).prove_failing_chat(break_chat).await;
    assert_eq!(store.counters().connections_lost.get(), 0);
}

#[tokio::test]
async fn two_connections_and_one_runtime_thread_are_enough() {
    let scratch = Scratch::new();
    let config = PostgresConfig { pool_size: 2, ..scratch.config() };
    let store = PostgresStore::open(&config, Clock::system(), Random::system()).await.unwrap();
    let contract = Contract::new(&store);
    contract.prove_chats().await;
    contract.prove_chat_log().await;
    assert!(store.counters().connections_opened.get() <= 2);
    assert!(store.counters().waits.get() > 0);
    scratch.check_marks();
}

#[tokio::test]
async fn content_may_hold_what_text_in_the_database_may_not() {
    let scratch = Scratch::new();
    let store = scratch.open().await;
    let chat_id = group(&store, "ana", &[]).await;
    let mut odd = message(chat_id, "ana", "odd");
    odd.content = "nothing \0 and more \u{10ffff}".to_owned();
    odd.content_type = "text/\0".to_owned();
    let batch = vec![odd.clone(), message(chat_id, "ana", "even")];
    let answers = store.append_all(batch).await.unwrap();
    assert!(answers.iter().all(Result::is_ok));
    let stored = whole(&store, chat_id).await;
    assert_eq!((&stored[0].content, &stored[0].content_type), (&odd.content, &odd.content_type));
    let again = store.append_all(vec![odd]).await.unwrap().remove(0).unwrap();
    assert!(again.duplicate);
}
