use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use heartline_durability::{Chain, ChatLog, LogRead, Position};
use heartline_protocol::{ChatId, Outcome};
use heartline_runtime::{Clock, Random, TaskSet, blocking};

use super::scratch::{Scratch, group, message};
use crate::append_all::AppendAll;
use crate::sqlite::{SqliteConfig, SqliteStore, Thoroughness, back_up, check_store, restore};

/// Names the database in the child of [`an_answered_message_survives_kill_nine`].
const CHILD_DATABASE: &str = "HEARTLINE_TEST_DATABASE";

async fn all_sequences(store: &SqliteStore, chat_id: ChatId) -> Vec<u64> {
    let read = LogRead {
        chat_id,
        reader: None,
        position: Position::After(0),
        limit: usize::MAX,
        content_bytes_max: usize::MAX,
    };
    let page = store.read(read).await.unwrap().unwrap();
    assert_eq!(page.head_sequence, page.messages.len() as u64);
    page.messages.into_iter().map(|message| message.sequence).collect()
}

/// The child: stores messages and prints every one, until it is killed. Does nothing without its
/// variable.
#[tokio::test]
async fn a_child_stores_until_it_is_killed() {
    let Some(database) = std::env::var_os(CHILD_DATABASE) else { return };
    let config = SqliteConfig { disk_reserve_bytes: 0, ..SqliteConfig::new(database) };
    let store = SqliteStore::open(&config, Clock::system(), Random::system()).unwrap();
    let chat_id = group(&store, "ana").await;
    let mut output = std::io::stdout();
    writeln!(output, "\nchat {chat_id}").unwrap();
    for round in 0.. {
        let batch = (0..8).map(|number| message(chat_id, "ana", &format!("{round}.{number}")));
        for answer in store.append_all(batch.collect()).await.unwrap() {
            writeln!(output, "stored {}", answer.unwrap().message.sequence).unwrap();
        }
    }
}

#[tokio::test]
async fn an_answered_message_survives_kill_nine() {
    let scratch = Scratch::new();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sqlite::tests::recovery::a_child_stores_until_it_is_killed"])
        .arg("--nocapture")
        .env(CHILD_DATABASE, scratch.database())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let chat_id = lines.find_map(|line| line.strip_prefix("chat ").map(str::to_owned)).unwrap();
    let chat_id: ChatId = chat_id.parse().unwrap();
    let mut answered = lines.by_ref().take(500).count();
    child.kill().unwrap();
    answered += lines.filter(|line| line.starts_with("stored ")).count();
    child.wait().unwrap();

    let store = scratch.open();
    assert!(store.0._check.is_some(), "an unclean stop is noticed");
    let stored = all_sequences(&store, chat_id).await;
    assert!(stored.len() >= answered, "{answered} answered, {} stored", stored.len());
    assert_eq!(stored, (1..=stored.len() as u64).collect::<Vec<_>>());
    drop(store);
    assert_eq!(check_store(&scratch.database(), Thoroughness::Full).unwrap(), [""; 0]);
}

#[tokio::test]
async fn damage_is_found_in_the_background_and_stops_writes() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let chat_id = group(&store, "ana").await;
    for round in 0..20 {
        let batch = (0..50).map(|number| message(chat_id, "ana", &format!("{round}.{number}")));
        store.append_all(batch.collect()).await.unwrap();
    }
    drop(store);
    let shell = scratch.shell();
    let mark = "UPDATE meta SET value = 1 WHERE name = 'is_open'";
    shell.execute_batch(mark).unwrap();
    shell.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(shell);
    let file = std::fs::OpenOptions::new().write(true).open(scratch.database()).unwrap();
    let pages = file.metadata().unwrap().len() / 4096;
    for page in pages / 2..pages / 2 + 5 {
        file.write_all_at(&[0xa5; 4096], page * 4096).unwrap();
    }

    let store = scratch.open();
    while store.damage().is_none() {
        tokio::task::yield_now().await;
    }
    let refused = store.append_all(vec![message(chat_id, "ana", "late")]).await.unwrap_err();
    assert_eq!(refused.outcome, Outcome::Rejected);
    assert!(Chain(&refused).to_string().contains("the store is damaged"), "{refused:?}");
    drop(store);
    let store = scratch.open();
    assert!(store.0._check.is_some(), "it is checked again until it is mended");
    drop(store);
    assert_ne!(check_store(&scratch.database(), Thoroughness::Quick).unwrap(), [""; 0]);
}

#[tokio::test]
async fn a_backup_made_while_writing_has_no_gap() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let chat_id = group(&store, "ana").await;
    let copy = scratch.directory().join("copy.db");
    store.append_all(vec![message(chat_id, "ana", "first")]).await.unwrap();
    let (database, target) = (scratch.database(), copy.clone());
    let mut tasks = TaskSet::new();
    let backup = tasks.spawn(blocking(move || back_up(&database, &target, false)));
    let mut round = 0;
    while !backup.is_finished() {
        let batch = (0..8).map(|number| message(chat_id, "ana", &format!("{round}.{number}")));
        store.append_all(batch.collect()).await.unwrap();
        round += 1;
    }
    let written = tasks.join_next().await.unwrap().unwrap().unwrap();
    written.unwrap();
    drop(store);
    restore(&scratch.database(), &copy, true).unwrap();
    let store = scratch.open();
    let restored = all_sequences(&store, chat_id).await;
    assert_eq!(restored, (1..=restored.len() as u64).collect::<Vec<_>>());
    assert!(!restored.is_empty());
}
