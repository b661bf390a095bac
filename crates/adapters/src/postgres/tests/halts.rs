//! Chats with a wrong counter.

use std::time::Duration;

use heartline_durability::{AppendRefusal, Chats, LazyStore, Repair, Upkeep, Watermark};

use super::scratch::{Scratch, group, message, page, send, user, whole};
use crate::append_all::AppendAll;
use crate::postgres::pool::Purpose;
use crate::postgres::{append, chats};

#[tokio::test]
async fn a_wrong_counter_halts_its_chat_alone_until_it_is_repaired() {
    let scratch = Scratch::new();
    let store = scratch.open().await;
    for damage in ["NULL", "3", "99"] {
        let (ill, well) = (group(&store, "ana", &[]).await, group(&store, "ana", &[]).await);
        for number in 1..=5 {
            send(&store, ill, "ana", &format!("m{number}")).await.unwrap();
        }
        assert_eq!(store.repair_counter(ill).await.unwrap(), Repair::NotNeeded { head: 5 });
        let ill_id = uuid(ill);
        scratch.sql(&format!(
            "UPDATE heartline.chats SET head_sequence = {damage} WHERE chat_id = '{ill_id}'"
        ));
        let batch = vec![message(ill, "ana", "m6"), message(well, "ana", "m1")];
        let answers = store.append_all(batch).await.unwrap();
        assert_eq!(answers[0].clone().err(), Some(AppendRefusal::Halted), "{damage}");
        assert_eq!(answers[1].as_ref().map(|appended| appended.message.sequence), Ok(1));
        assert_eq!(store.halted(10).await.unwrap(), [ill]);
        let again = store.append_all(vec![message(ill, "ana", "m7")]).await.unwrap();
        assert_eq!(again[0].clone().err(), Some(AppendRefusal::Halted));
        let retry = send(&store, ill, "ana", "m5").await.unwrap();
        assert!(retry.duplicate, "what is stored answers all the same");
        assert_eq!(page(&store, ill, 0).await.unwrap().messages.len(), 5, "history goes on");

        let before = damage.parse().ok();
        let repair = Repair::Done { before, after: 5 };
        assert_eq!(store.repair_counter(ill).await.unwrap(), repair);
        assert_eq!(store.halted(10).await.unwrap(), []);
        assert_eq!(send(&store, ill, "ana", "m6").await.unwrap().message.sequence, 6);
        assert_eq!(whole(&store, ill).await.len(), 6);
        let repairs = scratch.sql("SELECT head_before, head_after FROM heartline.repairs");
        assert!(repairs.contains(&format!("{}|5", damage.replace("NULL", ""))), "{repairs}");
        scratch.check_marks();
    }
    let counters = store.counters();
    assert_eq!((counters.counter_corruptions.get(), counters.duplicate_sequences.get()), (2, 1));
}

#[tokio::test]
async fn a_sender_who_is_not_a_member_does_not_learn_of_a_halt() {
    let scratch = Scratch::new();
    let store = scratch.open().await;
    let chat_id = group(&store, "ana", &[]).await;
    scratch.sql("UPDATE heartline.chats SET head_sequence = NULL");
    let answers = store.append_all(vec![message(chat_id, "bo", "m")]).await.unwrap();
    assert_eq!(answers[0].clone().err(), Some(AppendRefusal::NotAMember));
    let unknown = "chat_00000000000000000000000016".parse().unwrap();
    assert_eq!(store.repair_counter(unknown).await.unwrap(), Repair::NoSuchChat);
}

#[tokio::test]
async fn watermarks_of_a_chat_without_a_counter_stop_at_its_newest_message() {
    let scratch = Scratch::new();
    let store = scratch.open().await;
    let chat_id = group(&store, "ana", &[]).await;
    for number in 1..=5 {
        send(&store, chat_id, "ana", &format!("m{number}")).await.unwrap();
    }
    scratch.sql("UPDATE heartline.chats SET head_sequence = NULL");
    let watermark = |last_acked_sequence| {
        let user_id = user("ana");
        Watermark { user_id, chat_id, last_acked_sequence }
    };
    store.record_watermarks(vec![watermark(99)]).await.unwrap();
    let watermarks = store.watermarks(chat_id, &user("ana")).await.unwrap();
    assert_eq!(watermarks, Some(vec![watermark(5)]));
}

#[tokio::test]
async fn a_chat_that_is_repaired_while_another_node_waits_to_halt_it_is_not_halted() {
    let scratch = Scratch::new();
    let (one, other) = (scratch.open().await, scratch.open().await);
    let chat_id = group(&one, "ana", &[]).await;
    for number in 1..=5 {
        send(&one, chat_id, "ana", &format!("m{number}")).await.unwrap();
    }
    scratch.sql("UPDATE heartline.chats SET head_sequence = 3");
    let (locked, is_locked) = tokio::sync::oneshot::channel();
    let locked = std::sync::Mutex::new(Some(locked));
    let waiting = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let repair = one.0.pool.call(Purpose::Change, |mut connection| {
        let locked = locked.lock().unwrap().take().expect("one attempt");
        let scratch = &scratch;
        async move {
            connection.begin().await?;
            chats::lock(&mut connection, &[chat_id.into()]).await?;
            locked.send(()).expect("the test waits");
            while scratch.sql(waiting) == "0" {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            connection.write("UPDATE chats SET head_sequence = 6", &[]).await?;
            const INSERT: &str = "INSERT INTO messages (chat_key, sequence, sender_key, created_at,
                    message_id, client_message_id, content)
                SELECT chat_key, 6, sender_key, created_at, gen_random_uuid(), 'm6', content
                FROM messages WHERE sequence = 5";
            connection.write(INSERT, &[]).await?;
            connection.commit().await
        }
    });
    let halt = async {
        is_locked.await.unwrap();
        let halt = other.0.pool.call(Purpose::Note, |mut connection| async move {
            append::halt_wrong(&mut connection, &[chat_id.into()]).await.map(|halted| halted.len())
        });
        halt.await
    };
    let (repaired, halted) = tokio::join!(repair, halt);
    repaired.unwrap();
    assert_eq!(halted.unwrap(), 0, "its counter is right by now");
    assert_eq!(send(&other, chat_id, "ana", "m7").await.unwrap().message.sequence, 7);
}

/// A chat's id as the database writes it.
fn uuid(chat_id: heartline_protocol::ChatId) -> String {
    format!("{:032x}", chat_id.0.0)
}
