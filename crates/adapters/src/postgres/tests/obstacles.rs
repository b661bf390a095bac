//! Stores that cannot be opened, and the errors that say why.

use heartline_durability::{Chain, ChatLog, Chats};
use heartline_engines::Postgres;
use heartline_runtime::{Clock, Random, TaskSet};

use super::scratch::{Scratch, ask, group, send, user};
use crate::postgres::{OpenError, PostgresConfig, PostgresStore, SynchronousCommit};

async fn refusal(config: &PostgresConfig) -> OpenError {
    PostgresStore::open(config, Clock::system(), Random::system())
        .await
        .expect_err("it must not open")
}

#[tokio::test]
async fn a_server_without_fsync_is_rejected_unless_allowed() {
    let postgres = Postgres::start_with(&[("fsync", "off")]);
    let config = PostgresConfig::from_url(&postgres.url()).unwrap();
    let sentence = refusal(&config).await.to_string();
    assert!(sentence.contains("set fsync=on"), "{sentence}");
    assert!(sentence.contains("store.allow_unsafe = true"), "{sentence}");
    assert_eq!(postgres.sql(&postgres.url(), "SELECT to_regnamespace('heartline')"), "");

    let allowed = PostgresConfig { allow_unsafe: true, ..config.clone() };
    let store = PostgresStore::open(&allowed, Clock::system(), Random::system()).await.unwrap();
    store.close().await;

    postgres.restart_with(&[("fsync", "on"), ("full_page_writes", "off")]);
    let sentence = refusal(&config).await.to_string();
    assert!(sentence.contains("set full_page_writes=on"), "{sentence}");

    let standbys = [("full_page_writes", "on"), ("synchronous_standby_names", "elsewhere")];
    postgres.restart_with(&standbys);
    let local = SynchronousCommit::Local;
    let config = PostgresConfig { synchronous_commit: local, ..config };
    let sentence = refusal(&config).await.to_string();
    assert!(sentence.contains("synchronous standbys"), "{sentence}");
}

#[tokio::test]
async fn commits_wait_for_the_disk_whatever_the_role_is_set_to() {
    let scratch = Scratch::new();
    let off = SynchronousCommit::Off;
    let config = PostgresConfig { synchronous_commit: off, ..scratch.config() };
    let sentence = refusal(&config).await.to_string();
    assert!(sentence.contains("synchronous_commit=off"), "{sentence}");

    let database = scratch.sql("SELECT current_database()");
    scratch.sql(&format!("ALTER DATABASE {database} SET synchronous_commit = off"));
    assert_eq!(scratch.sql("SHOW synchronous_commit"), "off");
    let store = scratch.open().await;
    let setting: String = ask(&store, "SELECT current_setting('synchronous_commit')").await;
    assert_eq!(setting, "on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_start_together_migrate_the_schema_once() {
    let scratch = Scratch::new();
    let config = scratch.config();
    let nodes: TaskSet<PostgresStore> =
        (0..6)
            .map(|_| {
                let config = config.clone();
                async move {
                    PostgresStore::open(&config, Clock::system(), Random::system()).await.unwrap()
                }
            })
            .collect();
    let stores = nodes.join_all().await;
    let versions = scratch.sql("SELECT version FROM heartline.schema_versions ORDER BY version");
    assert_eq!(versions, "1\n2\n3");
    let chat_id = group(&stores[0], "ana", &[]).await;
    assert_eq!(send(&stores[5], chat_id, "ana", "m").await.unwrap().message.sequence, 1);
    assert_eq!(scratch.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), "0");
}

#[tokio::test]
async fn a_newer_schema_is_rejected_and_an_existing_one_is_kept() {
    let scratch = Scratch::new();
    let store = scratch.open().await;
    let chat_id = group(&store, "ana", &[]).await;
    store.close().await;
    let again = scratch.open().await;
    assert!(again.chat(chat_id, None).await.unwrap().is_some(), "a second opening keeps all");

    scratch.sql("INSERT INTO heartline.schema_versions (version) VALUES (99)");
    let sentence = refusal(&scratch.config()).await.to_string();
    assert!(sentence.contains("has schema 99") && sentence.contains("newer version"), "{sentence}");
}

#[tokio::test]
async fn a_database_that_is_not_utf8_is_rejected() {
    let postgres = Postgres::shared();
    let latin = "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0";
    postgres.sql(&postgres.url(), latin);
    let url = postgres.url().replace("/postgres?", "/latin?");
    let sentence = refusal(&PostgresConfig::from_url(&url).unwrap()).await.to_string();
    assert!(sentence.contains("LATIN1") && sentence.contains("ENCODING 'UTF8'"), "{sentence}");
}

#[tokio::test]
async fn a_rejected_connection_is_explained_without_the_password() {
    let postgres = Postgres::shared();
    postgres.sql(&postgres.url(), "CREATE ROLE locked LOGIN PASSWORD 's3cret' CONNECTION LIMIT 0");
    let url = format!("postgres://locked:s3cret@127.0.0.1:{}/postgres", postgres.port());
    let config = PostgresConfig::from_url(&format!("{url}?sslmode=disable")).unwrap();
    let sentence = refusal(&config).await.to_string();
    assert!(sentence.contains("too many connections for role"), "{sentence}");
    assert!(sentence.contains("127.0.0.1"), "{sentence}");
    assert!(!sentence.contains("s3cret"), "{sentence}");

    let config = PostgresConfig::from_url(&url).unwrap();
    let sentence = refusal(&config).await.to_string();
    assert!(sentence.contains("say sslmode=disable on a trusted network"), "{sentence}");

    let nobody = "postgres://ana:s3cret@127.0.0.1:1/chat?sslmode=disable";
    let sentence = refusal(&PostgresConfig::from_url(nobody).unwrap()).await.to_string();
    assert!(sentence.contains("refused") && !sentence.contains("s3cret"), "{sentence}");
}

#[tokio::test]
async fn a_role_that_may_not_create_the_schema_can_use_an_existing_one() {
    let scratch = Scratch::new();
    let database = scratch.sql("SELECT current_database()");
    scratch.sql("CREATE ROLE modest LOGIN");
    let url = scratch.url.replace("postgres@", "modest@");
    let config = PostgresConfig::from_url(&url).unwrap();
    let sentence = refusal(&config).await.to_string();
    assert!(sentence.contains("CREATE SCHEMA heartline AUTHORIZATION modest"), "{sentence}");
    assert!(sentence.contains(&database), "{sentence}");

    scratch.sql("CREATE SCHEMA heartline AUTHORIZATION modest");
    let store = PostgresStore::open(&config, Clock::system(), Random::system()).await.unwrap();
    let chat_id = group(&store, "ana", &[]).await;
    assert_eq!(send(&store, chat_id, "ana", "m").await.unwrap().message.sequence, 1);
}

#[tokio::test]
async fn a_closed_store_refuses_and_has_no_connections() {
    let scratch = Scratch::new();
    let store = scratch.open().await;
    let chat_id = group(&store, "ana", &[]).await;
    store.close().await;
    let refused = send(&store, chat_id, "ana", "late").await.unwrap_err();
    assert!(Chain(&refused).to_string().ends_with("the store is closed"), "{refused:?}");
    assert!(store.manifest(&user("ana"), None, 1).await.is_err());
    assert_eq!(store.counters().connections.get(), 0);
}
