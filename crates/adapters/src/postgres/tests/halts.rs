//! Counters that are wrong.

use heartline_durability::{AppendError, ChatLog, Repair};

use super::scratch::{Scratch, group, message, page, send, whole};

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
        let answers = store.append(batch).await.unwrap();
        assert_eq!(answers[0].clone().err(), Some(AppendError::Halted), "{damage}");
        assert_eq!(answers[1].as_ref().map(|appended| appended.message.sequence), Ok(1));
        assert_eq!(store.halted(10).await.unwrap(), [ill]);
        let again = store.append(vec![message(ill, "ana", "m7")]).await.unwrap();
        assert_eq!(again[0].clone().err(), Some(AppendError::Halted));
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
async fn a_stranger_learns_nothing_of_a_halt() {
    let scratch = Scratch::new();
    let store = scratch.open().await;
    let chat_id = group(&store, "ana", &[]).await;
    scratch.sql("UPDATE heartline.chats SET head_sequence = NULL");
    let answers = store.append(vec![message(chat_id, "bo", "m")]).await.unwrap();
    assert_eq!(answers[0].clone().err(), Some(AppendError::NotAMember));
    let unknown = "chat_00000000000000000000000016".parse().unwrap();
    assert_eq!(store.repair_counter(unknown).await.unwrap(), Repair::NoSuchChat);
}

/// A chat's id as the database writes it.
fn uuid(chat_id: heartline_protocol::ChatId) -> String {
    format!("{:032x}", chat_id.0.0)
}
