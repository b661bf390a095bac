//! A database that dies, hangs, or loses connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use heartline_durability::{Actor, Appended, ChatEdit, Chats, Upkeep};
use heartline_engines::Postgres;
use heartline_protocol::{ChatId, Outcome};
use heartline_runtime::{Clock, Random, TaskSet};

use super::scratch::{Scratch, ask, group, page, patient, send, user, whole};
use crate::postgres::chats;
use crate::postgres::config::Deadlines;
use crate::postgres::pool::Purpose;
use crate::postgres::{PostgresConfig, PostgresStore};

/// The longest time of a call: its own deadline, and the delay of a busy machine.
const ANSWERED: Duration = Duration::from_secs(7);

/// The longest time until a restarted database on a busy machine stores messages.
const RECOVERED: Duration = Duration::from_secs(60);

/// Creates a chat of ana, with long deadlines.
async fn prepare(url: &str) -> ChatId {
    let store =
        PostgresStore::open(&patient(url), Clock::system(), Random::system()).await.unwrap();
    let chat_id = group(&store, "ana", &[]).await;
    store.close().await;
    chat_id
}

/// The store as a server opens it, with one open connection.
async fn open(url: &str, chat_id: ChatId) -> PostgresStore {
    let config = PostgresConfig::from_url(url).unwrap();
    let store = PostgresStore::open(&config, Clock::system(), Random::system()).await.unwrap();
    while page(&store, chat_id, 0).await.is_err() {}
    store
}

/// Sends a message until it is acknowledged.
async fn send_until(store: &PostgresStore, chat_id: ChatId, name: &str) -> Appended {
    let sent = async {
        loop {
            match send(store, chat_id, "ana", name).await {
                Ok(appended) => break appended,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::time::timeout(RECOVERED, sent).await.expect("the database recovers")
}

/// Sends one message after the other until `stop` is set, each until it is acknowledged. Returns
/// the acknowledged sequences.
async fn send_on(
    store: PostgresStore,
    chat_id: ChatId,
    lane: usize,
    stop: Arc<AtomicBool>,
    failures: Arc<AtomicUsize>,
) -> Vec<(String, u64)> {
    let mut acknowledged = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let name = format!("lane{lane}.{}", acknowledged.len());
        let sequence = loop {
            match send(&store, chat_id, "ana", &name).await {
                Ok(appended) => break appended.message.sequence,
                Err(_) => {
                    failures.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        };
        acknowledged.push((name, sequence));
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_messages_survive_a_power_cut_and_the_pool_recovers() {
    let postgres = Arc::new(Postgres::start());
    let chat_id = prepare(&postgres.url()).await;
    let store = open(&postgres.url(), chat_id).await;
    let (stop, failures) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut lanes: TaskSet<Vec<(String, u64)>> = (0..8)
        .map(|lane| send_on(store.clone(), chat_id, lane, stop.clone(), failures.clone()))
        .collect();
    for cut in 1..=3 {
        // The cut comes while messages are being stored.
        let head = page(&store, chat_id, 0).await.unwrap().head_sequence;
        while page(&store, chat_id, 0).await.unwrap().head_sequence < head + 50 {}
        let engine = Arc::clone(&postgres);
        let restarted = heartline_runtime::blocking(move || {
            engine.stop();
            engine.restart();
        });
        restarted.await.unwrap();
        while page(&store, chat_id, 0).await.is_err() {}
        assert!(failures.load(Ordering::Relaxed) > 0, "cut {cut} was noticed");
    }
    stop.store(true, Ordering::Relaxed);
    let mut acknowledged = Vec::new();
    while let Some(lane) = lanes.join_next().await {
        acknowledged.extend(lane.unwrap());
    }
    let stored = whole(&store, chat_id).await;
    assert_eq!(stored.len(), acknowledged.len(), "each was stored once, however often it was sent");
    for (name, sequence) in acknowledged {
        let message = &stored[usize::try_from(sequence).unwrap() - 1];
        assert_eq!(message.client_message_id.as_str(), name);
    }
    assert!(store.counters().connections_lost.get() > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_to_a_database_that_hangs_fail_at_their_deadline() {
    let postgres = Postgres::start();
    let chat_id = prepare(&postgres.url()).await;
    let store = open(&postgres.url(), chat_id).await;
    send_until(&store, chat_id, "before").await;
    postgres.pause();
    let paused_at = Clock::system().now();
    let rename = ChatEdit::Rename(Some("late".to_owned()));
    let owner = Actor::User(user("ana"));
    let calls = async {
        tokio::join!(
            send(&store, chat_id, "ana", "during"),
            page(&store, chat_id, 0),
            store.edit(chat_id, owner, rename, None),
            store.probe(),
        )
    };
    let results = tokio::time::timeout(ANSWERED, calls).await;
    let (sent, read, edited, probed) = results.expect("every call returns in time");
    assert_eq!(sent.unwrap_err().outcome, Outcome::Unknown, "it may be stored later");
    assert_eq!(read.unwrap_err().outcome, Outcome::Rejected);
    assert_eq!(edited.unwrap_err().outcome, Outcome::Rejected, "its commit was not asked for");
    assert!(probed.is_err());
    assert!(store.counters().timeouts.get() >= 4);
    tokio::time::sleep_until(paused_at + Duration::from_secs(6)).await;
    postgres.resume();

    let again = send_until(&store, chat_id, "during").await;
    assert_eq!(again.message.sequence, 2, "whether now or while nobody waited for it");
    assert_eq!(whole(&store, chat_id).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stalls_in_a_transaction_does_not_stop_sends() {
    let scratch = Scratch::new();
    let chat_id = prepare(&scratch.url).await;
    // A stalled transaction is ended after a quarter of this.
    let deadlines = Deadlines { write: Duration::from_secs(12), read: Duration::from_secs(12) };
    let config = PostgresConfig { deadlines, ..scratch.config() };
    let still = PostgresStore::open(&config, Clock::system(), Random::system()).await.unwrap();
    let other = PostgresStore::open(&config, Clock::system(), Random::system()).await.unwrap();
    let (locked, is_locked) = tokio::sync::oneshot::channel();
    let locked = std::sync::Mutex::new(Some(locked));
    let stalled = still.0.pool.call(Purpose::Change, |mut connection| {
        let locked = locked.lock().unwrap().take();
        async move {
            connection.begin().await?;
            chats::lock(&mut connection, &[chat_id.into()]).await?;
            locked.expect("one attempt").send(()).expect("the test waits");
            std::future::pending::<Result<(), _>>().await
        }
    });
    let send = async {
        is_locked.await.unwrap();
        send(&other, chat_id, "ana", "m").await
    };
    tokio::select! {
        _ = stalled => unreachable!("the call is stalled"),
        sent = send => assert_eq!(sent.unwrap().message.sequence, 1),
    }
}

#[tokio::test]
async fn terminated_connections_are_replaced_without_a_failed_call() {
    let scratch = Scratch::new();
    let store = scratch.open().await;
    let chat_id = group(&store, "ana", &[]).await;
    for round in 0..5 {
        scratch.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE application_name = 'heartline' AND datname = current_database()",
        );
        let name = format!("m{round}");
        if round % 2 == 1 {
            // An edit is not idempotent.
            let rename = ChatEdit::Rename(Some(name.clone()));
            let edited = store.edit(chat_id, Actor::Service, rename, None).await.unwrap();
            assert!(edited.unwrap().has_changed);
        }
        let appended = send(&store, chat_id, "ana", &name).await.unwrap();
        assert_eq!(appended.message.sequence, round + 1);
    }
    assert!(store.counters().connections_lost.get() >= 5);
    assert_eq!(whole(&store, chat_id).await.len(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_call_leaves_no_connection_inside_a_transaction() {
    let scratch = Scratch::new();
    let config = PostgresConfig { pool_size: 2, ..scratch.config() };
    let store = PostgresStore::open(&config, Clock::system(), Random::system()).await.unwrap();
    let chat_id = group(&store, "ana", &[]).await;
    for round in 0..20_u64 {
        let edit = ChatEdit::Rename(Some(format!("name {round}")));
        let edit = store.edit(chat_id, Actor::Service, edit, None);
        // The call is dropped at an arbitrary point of its transaction.
        let _ = tokio::time::timeout(Duration::from_micros(300 * round), edit).await;
        send(&store, chat_id, "ana", &format!("m{round}")).await.unwrap();
    }
    assert_eq!(whole(&store, chat_id).await.len(), 20);
    assert!(store.chat(chat_id, None).await.unwrap().is_some());
}

#[tokio::test]
async fn a_message_that_no_synchronous_standby_has_is_not_acknowledged() {
    let postgres = Postgres::start();
    let chat_id = prepare(&postgres.url()).await;
    let store = open(&postgres.url(), chat_id).await;
    let set = |names: &str| {
        let set = format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'");
        postgres.sql(&postgres.url(), &set);
        postgres.sql(&postgres.url(), "SELECT pg_reload_conf()");
    };
    set("elsewhere");
    let has_heard = async || {
        let sql = "SELECT current_setting('synchronous_standby_names') = 'elsewhere'";
        ask::<bool>(&store, sql).await
    };
    while !has_heard().await {}
    let refused = send(&store, chat_id, "ana", "m").await.unwrap_err();
    assert_eq!(refused.outcome, Outcome::Unknown, "{refused:?}");
    set("");
    let again = send_until(&store, chat_id, "m").await;
    assert!(again.duplicate, "it was stored, and only the standby was missing");
}

#[tokio::test]
async fn calls_fail_at_once_while_the_database_is_down() {
    let postgres = Postgres::start();
    let chat_id = prepare(&postgres.url()).await;
    let store = open(&postgres.url(), chat_id).await;
    postgres.stop();
    let before = Clock::system().now();
    for _ in 0..5 {
        let refused = send(&store, chat_id, "ana", "m").await.unwrap_err();
        assert_eq!(refused.outcome, Outcome::Rejected, "{refused:?}");
    }
    assert!(before.elapsed() < Duration::from_secs(4), "nobody waits for what is not there");
    postgres.restart();
    assert_eq!(send_until(&store, chat_id, "m").await.message.sequence, 1);
}

#[tokio::test]
async fn the_next_server_is_tried_if_the_first_does_not_answer() {
    let scratch = Scratch::new();
    // The machine accepts connections, but never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let url = scratch.url.replace('@', &format!("@127.0.0.1:{port},"));
    let opened = PostgresStore::open(&patient(&url), Clock::system(), Random::system()).await;
    let store = opened.expect("the other server is there");
    let chat_id = group(&store, "ana", &[]).await;
    assert_eq!(send(&store, chat_id, "ana", "m").await.unwrap().message.sequence, 1);
}
