//! Chats whose rows another transaction has locked.

use std::time::Duration;

use heartline_durability::{AppendError, Chain, ChatLog};
use heartline_protocol::{ChatId, Outcome};
use heartline_runtime::{Clock, Random};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::scratch::{Scratch, group, message, send, whole};
use crate::postgres::config::Deadlines;
use crate::postgres::pool::Purpose;
use crate::postgres::rows::Id;
use crate::postgres::{PostgresConfig, PostgresStore};

/// The deadline of an append in these tests.
const DEADLINE: Duration = Duration::from_secs(10);

async fn open(scratch: &Scratch, deadline: Duration) -> PostgresStore {
    let deadlines = Deadlines { write: deadline, read: deadline };
    let config = PostgresConfig { deadlines, ..scratch.config() };
    PostgresStore::open(&config, Clock::system(), Random::system()).await.unwrap()
}

/// Locks the rows of chats in a transaction of their own until `release` is sent or dropped, as an
/// operator's shell does.
async fn hold(
    operator: &PostgresStore,
    chat_ids: &[ChatId],
    locked: oneshot::Sender<()>,
    release: oneshot::Receiver<()>,
) {
    const LOCK: &str = "SELECT 1 FROM chats WHERE chat_id = ANY ($1) FOR UPDATE";
    let ids: Vec<Id> = chat_ids.iter().copied().map(Id::from).collect();
    let channels = std::sync::Mutex::new(Some((locked, release)));
    let transaction = operator.0.pool.call(Purpose::Change, |mut connection| {
        let (locked, release) = channels.lock().unwrap().take().expect("one attempt");
        let ids = &ids;
        async move {
            connection.begin().await?;
            connection.query(LOCK, &[ids]).await?;
            locked.send(()).expect("the test waits");
            let _ = release.await;
            connection.roll_back().await
        }
    });
    transaction.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_chat_fails_alone_and_the_others_of_its_batch_are_stored() {
    let scratch = Scratch::new();
    let store = open(&scratch, DEADLINE).await;
    // Its own timeouts are longer than the test.
    let operator = open(&scratch, Duration::from_secs(600)).await;
    let mut chat_ids = Vec::new();
    for _ in 0..20 {
        chat_ids.push(group(&store, "ana", &[]).await);
    }
    let held = [chat_ids[0], chat_ids[7], chat_ids[19]];
    let batch = |name: &str| -> Vec<_> {
        let names = [format!("{name}.1"), format!("{name}.2")];
        let chats = names.iter().flat_map(|name| chat_ids.iter().map(move |id| (*id, name)));
        chats.map(|(chat_id, name)| message(chat_id, "ana", name)).collect()
    };
    let (locked, is_locked) = oneshot::channel();
    let (release, released) = oneshot::channel();
    let sends = async {
        is_locked.await.unwrap();
        for round in 0..2_u64 {
            let batch = batch(&format!("round{round}"));
            let results = timeout(DEADLINE, store.append(batch.clone())).await;
            let results = results.expect("the batch is answered within the deadline");
            assert_eq!(results.len(), batch.len());
            for (index, (new, result)) in batch.iter().zip(results).enumerate() {
                if !held.contains(&new.chat_id) {
                    let appended = result.expect("a chat that is not locked is stored");
                    let earlier = if index < chat_ids.len() { 0 } else { 1 };
                    assert_eq!(appended.message.sequence, 2 * round + earlier + 1);
                    continue;
                }
                let Err(AppendError::Store(error)) = result else {
                    panic!("a locked chat is not stored: {result:?}");
                };
                assert_eq!(error.outcome, Outcome::Rejected);
                assert!(Chain(&error).to_string().contains("lock timeout"), "{error:?}");
            }
        }
        release.send(()).unwrap();
    };
    tokio::join!(hold(&operator, &held, locked, released), sends);
    for chat_id in &chat_ids {
        let count = if held.contains(chat_id) { 0 } else { 4 };
        assert_eq!(whole(&store, *chat_id).await.len(), count);
        let next = send(&store, *chat_id, "ana", "after").await.unwrap();
        assert_eq!(next.message.sequence, count as u64 + 1);
    }
    scratch.check_marks();
    assert_eq!(store.counters().connections_lost.get(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_released_in_time_fails_nobody() {
    let scratch = Scratch::new();
    let store = open(&scratch, DEADLINE).await;
    let operator = open(&scratch, Duration::from_secs(600)).await;
    let (held, free) = (group(&store, "ana", &[]).await, group(&store, "ana", &[]).await);
    let (locked, is_locked) = oneshot::channel();
    let (release, released) = oneshot::channel();
    let sends = async {
        is_locked.await.unwrap();
        let batch = [held, free].map(|chat_id| message(chat_id, "ana", "m"));
        store.append(batch.into()).await
    };
    let releases = async {
        // The other chat is stored without the lock.
        while whole(&store, free).await.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(whole(&store, held).await.len(), 0);
        release.send(()).unwrap();
    };
    let held = [held];
    let hold = hold(&operator, &held, locked, released);
    let all = async { tokio::join!(hold, sends, releases) };
    let ((), results, ()) = timeout(DEADLINE * 3, all).await.expect("the other chat is stored");
    for result in results {
        assert_eq!(result.unwrap().message.sequence, 1);
    }
    scratch.check_marks();
}
