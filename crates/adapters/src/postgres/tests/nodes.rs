//! Several nodes on one database.

use std::collections::BTreeSet;
use std::time::Duration;

use heartline_durability::{Announcements, Published, Unpublished, Upkeep};
use heartline_protocol::ChatId;
use heartline_runtime::{Clock, Random, TaskSet};

use super::scratch::{Scratch, group, message, page, send, whole};
use crate::append_all::AppendAll;
use crate::postgres::PostgresStore;

/// Reads a chat page by page up to the sequence `last`, and checks that no sequence is missing.
async fn follow(store: PostgresStore, chat_id: ChatId, last: u64) {
    let mut seen = 0;
    while seen < last {
        let page = page(&store, chat_id, seen).await.unwrap();
        for message in page.messages {
            assert_eq!(message.sequence, seen + 1, "a number was shown before its predecessor");
            seen = message.sequence;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_assign_the_sequences_of_a_chat_without_gaps_in_commit_order() {
    const SENDERS: usize = 50;
    const EACH: usize = 10;
    let scratch = Scratch::new();
    let stores = [scratch.open().await, scratch.open().await];
    let chat_id = group(&stores[0], "ana", &[]).await;
    let last = (SENDERS * EACH) as u64;
    let reader = heartline_runtime::TaskSet::from_iter([follow(stores[1].clone(), chat_id, last)]);
    let senders: TaskSet<Vec<u64>> = (0..SENDERS)
        .map(|sender| {
            let store = stores[sender % 2].clone();
            async move {
                let mut acknowledged = Vec::new();
                for number in 0..EACH {
                    let name = format!("s{sender}.{number}");
                    let appended = send(&store, chat_id, "ana", &name).await.unwrap();
                    assert!(!appended.duplicate);
                    acknowledged.push(appended.message.sequence);
                }
                assert!(acknowledged.is_sorted(), "one sender's messages keep their order");
                acknowledged
            }
        })
        .collect();
    let acknowledged: BTreeSet<u64> = senders.join_all().await.into_iter().flatten().collect();
    assert_eq!(acknowledged, (1..=last).collect());
    assert_eq!(whole(&stores[0], chat_id).await.len(), SENDERS * EACH);
    reader.join_all().await;
    scratch.check_marks();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_of_the_same_chats_in_any_order_do_not_deadlock() {
    let scratch = Scratch::new();
    let stores = [scratch.open().await, scratch.open().await];
    let mut chats = Vec::new();
    for _ in 0..10 {
        chats.push(group(&stores[0], "ana", &[]).await);
    }
    let lanes: TaskSet<()> = (0..8_usize)
        .map(|lane| {
            let (store, mut chats) = (stores[lane % 2].clone(), chats.clone());
            // Each lane has its own order of the same chats.
            chats.rotate_left(lane);
            if lane.is_multiple_of(2) {
                chats.reverse();
            }
            async move {
                for round in 0..20 {
                    let name = |chat: &ChatId| message(*chat, "ana", &format!("l{lane}.{round}"));
                    let answers = store.append_all(chats.iter().map(name).collect()).await.unwrap();
                    assert!(answers.iter().all(Result::is_ok));
                    let published = |chat_id: &ChatId| Published {
                        chat_id: *chat_id,
                        first: 1,
                        last: round + 1,
                    };
                    let ranges = chats.iter().map(published).collect();
                    store.record_published(ranges).await.unwrap();
                }
            }
        })
        .collect();
    lanes.join_all().await;
    for chat_id in chats {
        assert_eq!(whole(&stores[1], chat_id).await.len(), 160);
    }
    for store in &stores {
        assert_eq!(store.counters().retries.get(), 0, "nobody had to give way");
    }
    scratch.check_marks();
}

#[tokio::test]
async fn a_retry_on_another_node_finds_what_the_first_has_stored() {
    let scratch = Scratch::new();
    let (one, other) = (scratch.open().await, scratch.open().await);
    let chat_id = group(&one, "ana", &[]).await;
    let (a, b) = tokio::join!(send(&one, chat_id, "ana", "m"), send(&other, chat_id, "ana", "m"));
    let (a, b) = (a.unwrap(), b.unwrap());
    assert_eq!(a.message, b.message);
    assert_ne!(a.duplicate, b.duplicate);
}

#[tokio::test]
async fn a_claimed_chat_is_left_to_its_node_until_the_claim_expires() {
    let scratch = Scratch::new();
    let (one, other) = (scratch.open().await, scratch.open().await);
    let chat_id = group(&one, "ana", &[]).await;
    let members_version = send(&one, chat_id, "ana", "m1").await.unwrap().members_version;
    let look = async |store: &PostgresStore| store.unpublished(Duration::ZERO, 10).await.unwrap();
    let found = |published_sequence, head_sequence| {
        [Unpublished { chat_id, published_sequence, head_sequence, members_version }]
    };
    assert_eq!(one.unpublished(Duration::from_secs(60), 10).await.unwrap(), [], "too young");
    assert_eq!(look(&one).await, found(0, 1));
    assert_eq!(look(&other).await, [], "it is claimed");
    assert_eq!(look(&one).await, found(0, 1), "by the one that has it");
    let left = scratch.sql(
        "SELECT claimed_until - heartline.now_ms() BETWEEN 5000 AND 10000
        FROM heartline.unpublished_chats",
    );
    assert_eq!(left, "t", "for ten seconds");

    // The first node has been dead for ten seconds.
    scratch.sql("UPDATE heartline.unpublished_chats SET claimed_until = heartline.now_ms() - 1");
    send(&one, chat_id, "ana", "m2").await.unwrap();
    assert_eq!(look(&other).await, found(0, 2), "the other one takes it over");
    assert_eq!(look(&one).await, []);
    let first = Published { chat_id, first: 1, last: 1 };
    one.record_published(vec![first]).await.unwrap();
    assert_eq!(look(&other).await, found(1, 2));
    let second = Published { chat_id, first: 2, last: 2 };
    other.record_published(vec![second]).await.unwrap();
    assert_eq!(look(&other).await, []);
    scratch.check_marks();
}

#[tokio::test]
async fn a_node_that_cannot_announce_a_chat_leaves_it_to_others() {
    let scratch = Scratch::new();
    let (one, other) = (scratch.open().await, scratch.open().await);
    let chat_id = group(&one, "ana", &[]).await;
    send(&one, chat_id, "ana", "m1").await.unwrap();
    let look = async |store: &PostgresStore| store.unpublished(Duration::ZERO, 10).await.unwrap();
    let claimed_until = || scratch.sql("SELECT claimed_until FROM heartline.unpublished_chats");
    let past = |ms: u32| {
        let until = format!("claimed_until = heartline.now_ms() - {ms}");
        scratch.sql(&format!("UPDATE heartline.unpublished_chats SET {until}"));
    };
    assert_eq!(look(&one).await.len(), 1);
    let until = claimed_until();
    assert_eq!(look(&one).await.len(), 1, "it tries again");
    assert_eq!(claimed_until(), until, "and has no longer for that");

    past(0);
    assert_eq!(look(&one).await, [], "it had its time");
    assert_eq!(look(&other).await.len(), 1, "now it is another's turn");
    past(60_000);
    assert_eq!(look(&other).await.len(), 1, "unless nobody else is there");
}

#[tokio::test]
async fn a_query_claims_no_more_chats_than_its_limit() {
    let scratch = Scratch::new();
    let store = scratch.open().await;
    let mut chats = BTreeSet::new();
    for _ in 0..5 {
        let chat_id = group(&store, "ana", &[]).await;
        send(&store, chat_id, "ana", "m").await.unwrap();
        chats.insert(chat_id);
    }
    let some = store.unpublished(Duration::ZERO, 3).await.unwrap();
    assert_eq!(some.len(), 3);
    let other = scratch.open().await;
    let rest = other.unpublished(Duration::ZERO, 3).await.unwrap();
    let found: BTreeSet<_> = some.iter().chain(&rest).map(|found| found.chat_id).collect();
    assert_eq!(found, chats, "what one did not take is there for the other");
}

#[tokio::test]
async fn a_node_whose_clock_is_ahead_deletes_no_recent_message() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let scratch = Scratch::new();
    let ahead = Clock::simulated(Clock::system().wall().plus(365 * DAY));
    let store = PostgresStore::open(&scratch.config(), ahead, Random::system()).await.unwrap();
    let chat_id = group(&store, "ana", &[]).await;
    for name in ["old", "young"] {
        send(&store, chat_id, "ana", name).await.unwrap();
    }
    scratch.sql(
        "UPDATE heartline.messages SET created_at = created_at - 2 * 86400000
        WHERE client_message_id = 'old';
        UPDATE heartline.chats SET oldest_at = oldest_at - 2 * 86400000",
    );
    assert_eq!(store.forget(Some(DAY), 10).await.unwrap(), 1);
    let left = page(&store, chat_id, 0).await.unwrap().messages;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].client_message_id.as_str(), "young");
}
