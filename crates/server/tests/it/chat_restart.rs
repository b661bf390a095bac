//! Data after a shutdown or a crash of the server, and a damaged store.

use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use heartline_testing::chat::{PATIENT, WriteLock, is_rejected, open_store};
use heartline_testing::{Files, PATIENCE};
use rusqlite::params;
use serde_json::json;
use tokio::time::timeout;

use crate::HEARTLINE;
use crate::peers::{Received, now, trickle};

/// The number of messages of a big store, unless set in the environment.
const BIG_STORE_MESSAGES: u32 = 100_000;

/// How many stored messages were not recorded as announced.
fn unpublished(files: &Files) -> u32 {
    let sql = "SELECT coalesce(sum(head_sequence - published_sequence), 0) FROM chats";
    open_store(&files.data()).query_row(sql, [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn what_a_killed_server_had_not_announced_is_delivered_without_a_sync() {
    let mut server = HEARTLINE.start().await;
    let chat = server.create_group("ana", &["bo"]).await;
    // Delivery is recorded twice a second: the kill must come in between.
    for attempt in 1.. {
        let id = format!("m{attempt}");
        server.connect("ana").await.send_acked(&chat, &id, &id).await;
        let files = server.stop_with("KILL").await;
        let left = unpublished(&files);
        server = HEARTLINE.start_on(files, "").await;
        if left > 0 {
            let mut bo = server.connect("bo").await;
            assert_eq!(bo.receives(&id).await["sequence"], attempt);
            assert_eq!(server.metric("durability_messages_relayed_total").await, f64::from(left));
            return;
        }
        assert!(attempt < 20, "every kill came too late");
    }
}

#[tokio::test]
async fn sends_in_flight_are_answered_before_the_goodbye() {
    let mut server = HEARTLINE.start().await;
    let mut ana = server.connect("ana").await;
    let chat = server.create_group("ana", &["bo"]).await;
    ana.json_of("chat_changed").await;
    let lock = WriteLock::hold(&server);
    for number in 1..=5 {
        ana.send_message(&chat, &format!("m{number}"), "hello").await;
    }
    ana.is_open().await;
    server.signal("TERM").await;
    server.logged(&["draining"]).await;
    lock.release();
    for sequence in 1..=5 {
        let ack = ana.json().await;
        assert_eq!((&ack["type"], &ack["sequence"]), (&json!("message_ack"), &json!(sequence)));
    }
    ana.closes("server_shutdown", 1001).await;
    assert_eq!(server.exit_code().await, Some(0));
}

#[tokio::test]
async fn sends_that_a_stopping_server_cannot_store_are_answered_too() {
    let mut server = HEARTLINE.start().await;
    let mut ana = server.connect("ana").await;
    let chat = server.create_group("ana", &["bo"]).await;
    ana.json_of("chat_changed").await;
    let lock = WriteLock::hold(&server);
    for number in 1..=5 {
        ana.send_message(&chat, &format!("m{number}"), "hello").await;
    }
    ana.is_open().await;
    let asked_at = now();
    server.signal("TERM").await;
    let received = trickle(&mut ana, 64 * 1024, Duration::ZERO).await;
    let [answers @ .., Received::Other(closing), Received::Close(1001, _)] = &received[..] else {
        panic!("{received:?}")
    };
    assert_eq!(closing["reason"], "server_shutdown");
    assert_eq!(answers.len(), 5, "{answers:?}");
    for answer in answers {
        let Received::Other(answer) = answer else { panic!("{answer:?}") };
        assert_eq!(answer["code"], "SERVICE_UNAVAILABLE", "{answer}");
        assert!(answer["details"]["outcome"].is_string(), "{answer}");
    }
    let told_after = now() - asked_at;
    assert!(told_after < Duration::from_secs(8), "{told_after:?}");
    assert_eq!(server.exit_code().await, Some(0));
    assert!(now() - asked_at < Duration::from_secs(30));
    lock.release();
}

/// Writes this many messages of a user into a chat of a store that is not in use.
fn fill(data: &Path, messages: u32) {
    let store = open_store(data);
    let insert = "WITH RECURSIVE numbers (n) AS
            (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1)
        INSERT INTO messages
            (id, chat_key, sender_key, client_message_id, message_id, created_at, content)
        SELECT c.chat_key << 32 | n, c.chat_key, u.user_key, 'm' || n, randomblob(16),
            c.created_at + n, 'this is message number ' || n || ' of very many'
        FROM numbers, (SELECT * FROM chats LIMIT 1) c, (SELECT * FROM users LIMIT 1) u";
    store.execute_batch("BEGIN").unwrap();
    assert_eq!(store.execute(insert, params![messages]).unwrap(), messages as usize);
    let update = "UPDATE chats SET head_sequence = ?1, published_sequence = ?1,
        oldest_at = created_at";
    store.execute(update, params![messages]).unwrap();
    store.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
}

/// A server that was killed on a store with this many messages, and their chat.
async fn killed_on_a_store_of(messages: u32) -> (Files, String) {
    let server = HEARTLINE.start().await;
    let chat = server.create_group("ana", &["bo"]).await;
    let files = server.stop_with("TERM").await;
    fill(&files.data(), messages);
    let server = HEARTLINE.start_on(files, "").await;
    let mut ana = server.connect("ana").await;
    let ack = ana.send_acked(&chat, "the-last", "hello").await;
    assert_eq!(ack["sequence"], messages + 1);
    (server.stop_with("KILL").await, chat)
}

#[tokio::test]
async fn a_server_killed_on_a_big_store_is_ready_again_within_two_seconds() {
    let messages = std::env::var("HEARTLINE_BIG_STORE_MESSAGES").ok();
    let messages = messages.map_or(BIG_STORE_MESSAGES, |count| count.parse().unwrap());
    let (files, chat) = killed_on_a_store_of(messages).await;
    let began = now();
    let server = HEARTLINE.start_on(files, "").await;
    while server.http("GET", "/readyz", "", None).await.status != 200 {}
    let ready_after = now() - began;
    println!("ready {ready_after:?} after a start on {messages} messages");
    assert!(ready_after < Duration::from_secs(2), "{ready_after:?}");
    // The server serves during the check of the store.
    let head = u64::from(messages) + 1;
    let mut ana = server.connect("ana").await;
    assert_eq!(ana.page(&chat, head - 2, None).await, (vec![head - 1, head], false, head));
    assert_eq!(ana.send_acked(&chat, "one-more", "hello").await["sequence"], head + 1);
    server.logged(&["store checked: no damage found"]).await;
}

#[tokio::test]
async fn a_disk_below_its_reserve_refuses_messages_and_still_reads() {
    let server = HEARTLINE.start().await;
    let chat = server.create_group("ana", &["bo"]).await;
    server.connect("ana").await.send_acked(&chat, "m1", "hello").await;
    let files = server.stop_with("TERM").await;
    let reserve = "[store]\ndisk_reserve = \"1024GiB\"\n";
    let server = HEARTLINE.start_on(files, reserve).await;
    let mut ana = server.connect("ana").await;
    is_rejected(&ana.send_rejected(&chat, "m2", "SERVICE_UNAVAILABLE").await);
    server.logged(&["store writes refused"]).await;
    assert_eq!(ana.page(&chat, 0, None).await, (vec![1], false, 1));
    assert_eq!(ana.manifest_of(&chat).await, Some((1, 0)));
    assert_eq!(server.history("bo", &chat).await.len(), 1);
    let server = HEARTLINE.start_on(server.stop_with("TERM").await, "").await;
    let mut ana = server.connect("ana").await;
    let ack = ana.send_acked(&chat, "m2", "hello").await;
    assert_eq!((&ack["sequence"], &ack["duplicate"]), (&json!(2), &json!(false)));
}

/// Overwrites a part of the database file.
fn damage(files: &Files, from: u64, bytes: &[u8]) {
    let mut file = OpenOptions::new().write(true).open(files.data().join("heartline.db")).unwrap();
    file.seek(SeekFrom::Start(from)).unwrap();
    file.write_all(bytes).unwrap();
}

#[tokio::test]
async fn a_store_that_is_damaged_inside_is_found_out_and_not_written_to() {
    let (files, chat) = killed_on_a_store_of(20_000).await;
    let length = std::fs::metadata(files.data().join("heartline.db")).unwrap().len();
    damage(&files, (length / 3) & !4095, &[0xa5; 64 * 1024]);
    let server = HEARTLINE.start_on(files, PATIENT).await;
    server.logged(&["the store is damaged: writes stop; restore a backup"]).await;
    let mut ana = server.connect("ana").await;
    let refused = ana.send_rejected(&chat, "m2", "SERVICE_UNAVAILABLE").await;
    is_rejected(&refused);
    let text = refused.to_string();
    assert!(!text.contains("sqlite") && !text.contains("page"), "{text}");
    // Undamaged data is still read, and the server keeps running.
    assert_eq!(ana.manifest_of(&chat).await.map(|(head, _)| head), Some(20_001));
    assert_eq!(ana.page(&chat, 20_000, None).await, (vec![20_001], false, 20_001));
    assert_eq!(server.http("GET", "/livez", "", None).await.status, 200);
}

#[tokio::test]
async fn a_store_that_has_lost_its_end_is_found_out_and_not_written_to() {
    let (files, chat) = killed_on_a_store_of(20_000).await;
    let database = OpenOptions::new().write(true).open(files.data().join("heartline.db")).unwrap();
    database.set_len((database.metadata().unwrap().len() / 2) & !4095).unwrap();
    let server = HEARTLINE.start_on(files, PATIENT).await;
    server.logged(&["the store is damaged: writes stop; restore a backup"]).await;
    let mut ana = server.connect("ana").await;
    is_rejected(&ana.send_rejected(&chat, "m2", "SERVICE_UNAVAILABLE").await);
    assert_eq!(server.http("GET", "/livez", "", None).await.status, 200);
}

#[tokio::test]
async fn a_file_that_is_no_store_any_more_is_named_and_left_as_it_is() {
    let server = HEARTLINE.start().await;
    let chat = server.create_group("ana", &["bo"]).await;
    server.connect("ana").await.send_acked(&chat, "m1", "hello").await;
    let files = server.stop_with("TERM").await;
    damage(&files, 0, &[0xa5; 4096]);
    let database = files.data().join("heartline.db");
    let before = std::fs::read(&database).unwrap();
    let mut command = HEARTLINE.command();
    let configuration = files.data().with_file_name("heartline.toml");
    command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(configuration);
    command.env("HEARTLINE__SERVER__DATA_DIR", files.data());
    let output = timeout(PATIENCE, command.output()).await.expect("it ends by itself").unwrap();
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("heartline.db is not a Heartline store"), "{complaint}");
    assert!(!complaint.contains("panicked"), "{complaint}");
    assert!(std::fs::read(&database).unwrap() == before, "the file was changed");
}
