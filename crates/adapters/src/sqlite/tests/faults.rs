use std::time::Duration;

use heartline_durability::{AppendRefusal, Chain, ChatLog, LogRead, Position, Repair, Upkeep};
use heartline_protocol::{ChatId, Outcome};
use heartline_runtime::{Clock, Random};

use super::scratch::{Scratch, group, message};
use crate::append_all::AppendAll;
use crate::sqlite::{SqliteConfig, SqliteStore};

async fn send(store: &SqliteStore, chat_id: ChatId, name: &str) -> Result<u64, AppendRefusal> {
    let answer = store.append_all(vec![message(chat_id, "ana", name)]).await.unwrap().remove(0);
    answer.map(|appended| appended.message.sequence)
}

async fn head_and_count(store: &SqliteStore, chat_id: ChatId) -> (u64, usize) {
    let read = LogRead {
        chat_id,
        reader: None,
        position: Position::After(0),
        limit: 1000,
        content_bytes_max: usize::MAX,
    };
    let page = store.read(read).await.unwrap().unwrap();
    (page.head_sequence, page.messages.len())
}

#[tokio::test]
async fn a_job_that_fails_does_not_affect_the_others() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let chat_id = group(&store, "ana").await;
    let bad = store.0.writer.write(|transaction| {
        transaction.connection.execute_batch("INSERT INTO users (user_id) VALUES ('half')")?;
        transaction.connection.execute_batch("INSERT INTO nowhere VALUES (1)")
    });
    let good = store.append_all(vec![message(chat_id, "ana", "good")]);
    let (bad, good) = tokio::join!(bad, good);
    assert_eq!(bad.unwrap_err().outcome, Outcome::Rejected);
    assert_eq!(good.unwrap().remove(0).unwrap().message.sequence, 1);
    let half = "SELECT count(*) FROM users WHERE user_id = 'half'";
    let halves: i64 = scratch.shell().query_row(half, [], |row| row.get(0)).unwrap();
    assert_eq!(halves, 0, "what failed left nothing");
    assert_eq!(send(&store, chat_id, "next").await, Ok(2));
}

#[tokio::test]
async fn waiting_jobs_are_committed_together() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let chat_id = group(&store, "ana").await;
    let before = store.counters().commits.get();
    // The first job keeps the writer busy until all the others wait.
    let (release, gate) = std::sync::mpsc::sync_channel::<()>(0);
    let (began, has_begun) = tokio::sync::oneshot::channel();
    let slow = store.0.writer.write(move |_| {
        began.send(()).unwrap();
        let _ = gate.recv();
        Ok(())
    });
    let mut tasks = heartline_runtime::TaskSet::new();
    let (slow, ()) = tokio::join!(slow, async {
        has_begun.await.unwrap();
        for number in 0..50 {
            let store = store.clone();
            tasks.spawn(async move {
                send(&store, chat_id, &format!("m{number}")).await.unwrap();
            });
        }
        while store.0.writer.waiting() < 50 {
            tokio::task::yield_now().await;
        }
        release.send(()).unwrap();
    });
    slow.unwrap();
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(store.counters().commits.get() - before, 2);
    assert_eq!(head_and_count(&store, chat_id).await, (50, 50));
}

#[tokio::test]
async fn a_full_disk_rejects_writes_until_it_has_room_again() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let chat_id = group(&store, "ana").await;
    assert_eq!(send(&store, chat_id, "before").await, Ok(1));
    let set_room = async |pages: Option<i64>| {
        let set = move |transaction: &mut crate::sqlite::write_transaction::WriteTransaction<
            '_,
        >| {
            let used: i64 =
                transaction.connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
            let limit = pages.map_or(1_000_000_000, |pages| used + pages);
            transaction.connection.pragma_update_and_check(
                None,
                "max_page_count",
                limit,
                |_| Ok(()),
            )
        };
        store.0.writer.write(set).await.unwrap();
    };
    set_room(Some(2)).await;
    let large = |name: &str| {
        let mut large = message(chat_id, "ana", name);
        large.content = "x".repeat(4096);
        large
    };
    let batch: Vec<_> = (0..20).map(|number| large(&format!("large{number}"))).collect();
    let refused = store.append_all(batch.clone()).await.unwrap_err();
    assert_eq!(refused.outcome, Outcome::Rejected);
    assert!(Chain(&refused).to_string().contains("full"), "{refused:?}");
    assert_eq!(head_and_count(&store, chat_id).await, (1, 1), "none of it was stored");
    set_room(None).await;
    let answers = store.append_all(batch).await.unwrap();
    let last = answers.into_iter().map(|answer| answer.unwrap().message.sequence).max();
    assert_eq!(last, Some(21));
    assert_eq!(head_and_count(&store, chat_id).await, (21, 21));
}

#[tokio::test]
async fn writes_are_rejected_below_the_reserve_of_the_disk() {
    let scratch = Scratch::new();
    drop(scratch.open());
    let config = SqliteConfig { disk_reserve_bytes: u64::MAX, ..scratch.config() };
    let store = SqliteStore::open(&config, Clock::system(), Random::system()).unwrap();
    let refused = store.append_all(vec![message(ChatId(1.into()), "ana", "x")]).await.unwrap_err();
    assert_eq!(refused.outcome, Outcome::Rejected);
    assert!(Chain(&refused).to_string().contains("less than the reserve"), "{refused:?}");
    assert_eq!(store.manifest(&"ana".parse().unwrap(), None, 1).await.unwrap(), []);
}

#[tokio::test]
async fn a_write_waits_for_another_process() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let chat_id = group(&store, "ana").await;
    let shell = scratch.shell();
    shell.execute_batch("BEGIN IMMEDIATE").unwrap();
    let sent = send(&store, chat_id, "patient");
    let release = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        shell.execute_batch("COMMIT").unwrap();
    };
    assert_eq!(tokio::join!(sent, release).0, Ok(1));

    shell.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = store.append_all(vec![message(chat_id, "ana", "late")]).await.unwrap_err();
    assert_eq!(refused.outcome, Outcome::Rejected);
    assert!(Chain(&refused).to_string().contains("locked"), "{refused:?}");
    assert_eq!(head_and_count(&store, chat_id).await, (1, 1), "reads go on");
    shell.execute_batch("ROLLBACK").unwrap();
    assert_eq!(send(&store, chat_id, "late").await, Ok(2));
}

#[tokio::test]
async fn a_lost_counter_halts_its_chat_alone_until_it_is_repaired() {
    for damage in ["NULL", "3", "99"] {
        let scratch = Scratch::new();
        let store = scratch.open();
        let (chat_id, other) = (group(&store, "ana").await, group(&store, "ana").await);
        for number in 1..=5 {
            send(&store, chat_id, &format!("m{number}")).await.unwrap();
        }
        let sql = format!("UPDATE chats SET head_sequence = {damage} WHERE chat_id = ?1");
        scratch.shell().execute(&sql, [chat_id.0.to_bytes()]).unwrap();

        assert_eq!(send(&store, chat_id, "m6").await, Err(AppendRefusal::Halted), "{damage}");
        assert_eq!(send(&store, chat_id, "m6").await, Err(AppendRefusal::Halted), "{damage}");
        assert_eq!(send(&store, chat_id, "m5").await, Ok(5), "a retry is still answered");
        let stranger = store.append_all(vec![message(chat_id, "bo", "x")]).await.unwrap().remove(0);
        assert_eq!(stranger.err(), Some(AppendRefusal::NotAMember));
        assert_eq!(send(&store, other, "m1").await, Ok(1), "others go on");
        assert_eq!(head_and_count(&store, chat_id).await.1, 5, "and it can be read");
        assert_eq!(store.counters().counter_corruptions.get(), 1);
        assert_eq!(store.halted(9).await.unwrap(), [chat_id]);
        drop(store);

        let store = scratch.open();
        assert_eq!(send(&store, chat_id, "m6").await, Err(AppendRefusal::Halted), "it is kept");
        let before = damage.parse().ok();
        let repaired = store.repair_counter(chat_id).await.unwrap();
        assert_eq!(repaired, Repair::Done { before, after: 5 });
        assert_eq!(store.halted(9).await.unwrap(), []);
        assert_eq!(send(&store, chat_id, "m6").await, Ok(6), "without a hole");
        let again = store.repair_counter(chat_id).await.unwrap();
        assert_eq!(again, Repair::NotNeeded { head: 6 });
        let missing = store.repair_counter(ChatId(7.into())).await.unwrap();
        assert_eq!(missing, Repair::NoSuchChat);
        let count = "SELECT count(*) FROM repairs";
        let recorded: i64 = scratch.shell().query_row(count, [], |row| row.get(0)).unwrap();
        assert_eq!(recorded, 1);
    }
}

#[tokio::test]
async fn a_sequence_that_is_taken_halts_the_chat() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let chat_id = group(&store, "ana").await;
    assert_eq!(send(&store, chat_id, "m1").await, Ok(1));
    // Through the writer itself, which does not notice its own change of the file.
    let plant = |transaction: &mut crate::sqlite::write_transaction::WriteTransaction<'_>| {
        transaction.connection.execute_batch(
            "INSERT INTO messages SELECT id + 1, chat_key, 99, client_message_id, message_id,
             created_at, content_type, content FROM messages",
        )
    };
    store.0.writer.write(plant).await.unwrap();
    assert_eq!(send(&store, chat_id, "m2").await, Err(AppendRefusal::Halted));
    assert_eq!(store.counters().duplicate_sequences.get(), 1);
    assert_eq!(
        store.repair_counter(chat_id).await.unwrap(),
        Repair::Done { before: Some(1), after: 2 }
    );
    assert_eq!(send(&store, chat_id, "m2").await, Ok(3));
}

#[tokio::test]
async fn a_closed_store_rejects_writes_and_keeps_earlier_ones() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let chat_id = group(&store, "ana").await;
    let (said, ()) = tokio::join!(send(&store, chat_id, "last"), store.close());
    assert_eq!(said, Ok(1));
    let refused = store.append_all(vec![message(chat_id, "ana", "late")]).await.unwrap_err();
    assert_eq!(refused.outcome, Outcome::Rejected);
    assert_eq!(head_and_count(&store, chat_id).await, (1, 1));
    store.close().await;
    drop(store);
    let store = scratch.open();
    assert!(store.0._check.is_none(), "it was closed in order");
    assert_eq!(head_and_count(&store, chat_id).await, (1, 1));
}
