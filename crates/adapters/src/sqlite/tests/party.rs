use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use heartline_party::contract::{ArchiveContract, StoreContract};
use heartline_party::{
    Changes, Commit, Committed, Notice, PartyStore, Revision, SessionActivity, SessionStore,
    SessionWatch, Stored,
};
use heartline_runtime::{Clock, Random, TaskSet, Tasks};
use tokio::sync::oneshot;

use super::scratch::{Scratch, group, message};
use crate::sqlite::{
    SESSION_TTL, SqliteConfig, SqlitePartyStore, SqliteStore, Thoroughness, check_store,
};

/// Names the database in the child of [`a_commit_survives_kill_nine`].
const CHILD_DATABASE: &str = "HEARTLINE_TEST_PARTY_DATABASE";

/// Sessions of that child.
const SESSIONS: usize = 4;

async fn party(store: &SqliteStore) -> SqlitePartyStore {
    SqlitePartyStore::open(store, SESSION_TTL).await
}

fn at(version: u64) -> Revision {
    Revision { incarnation: 0, version }
}

/// The commit that leads to a version: it names it in a field and adds another.
fn to(session_id: &str, version: u64) -> Commit {
    let text = version.to_string();
    let set = vec![
        ("head".to_owned(), text.clone().into_bytes()),
        (format!("item:{}", version % 7), text.clone().into_bytes()),
    ];
    Commit {
        session_id: session_id.to_owned(),
        expected: (version > 1).then(|| at(version - 1)),
        revision: at(version),
        changes: Changes { set, remove: Vec::new() },
        entry: text.into(),
        entries_kept: 5,
        is_active: true,
    }
}

async fn go(store: &SqlitePartyStore, session_id: &str, versions: std::ops::RangeInclusive<u64>) {
    for version in versions {
        let committed = store.commit(to(session_id, version)).await.unwrap();
        assert_eq!(committed, Committed::Done, "{session_id} at {version}");
    }
}

/// The version of a session, all of whose fields must be of the same commit.
fn whole(stored: &Stored) -> u64 {
    let version = stored.revision.version;
    let text = |name: &str| {
        let field = stored.fields.iter().find(|(field, _)| field == name).unwrap();
        String::from_utf8(field.1.clone()).unwrap()
    };
    assert_eq!(text("head"), version.to_string());
    assert_eq!(text(&format!("item:{}", version % 7)), version.to_string());
    assert_eq!(stored.fields.len() as u64, 1 + version.min(7));
    version
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_party_store_keeps_every_promise_of_its_port() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(PartyStore::of_one_node(Arc::new(party(&store).await)));
    }
    StoreContract::new(nodes).run().await;
}

#[tokio::test]
async fn one_node_and_one_runtime_thread_are_enough_for_parties() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let node = PartyStore::of_one_node(Arc::new(party(&store).await));
    StoreContract::new(vec![node]).run().await;
}

#[tokio::test]
async fn the_archive_keeps_every_promise_of_its_port() {
    let scratch = Scratch::new();
    let store = scratch.open();
    ArchiveContract::new(&store).run().await;
}

#[tokio::test]
async fn a_store_that_is_opened_again_has_its_sessions() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let node = party(&store).await;
    go(&node, "one", 1..=9).await;
    go(&node, "two", 1..=3).await;
    node.inactive("two").await.unwrap();
    go(&node, "three", 1..=1).await;
    assert!(node.remove("three", at(1)).await.unwrap());
    let before = node.now_ms().await.unwrap();
    drop((node, store));

    let store = scratch.open();
    let node = party(&store).await;
    assert_eq!(node.active(9).await.unwrap(), ["one"]);
    let ids = ["one", "two", "three"].map(str::to_owned);
    assert_eq!(node.revisions(&ids).await.unwrap(), [Some(at(9)), Some(at(3)), None]);
    assert_eq!(node.keep(&ids).await.unwrap(), ["three"]);
    let entries = node.entries("one", at(4)).await.unwrap().unwrap();
    assert_eq!(entries, ["5", "6", "7", "8", "9"]);
    assert_eq!(node.entries("one", at(3)).await.unwrap(), None);
    assert_eq!(whole(&node.load("one").await.unwrap().unwrap()), 9);
    go(&node, "one", 10..=12).await;
    go(&node, "two", 4..=4).await;
    go(&node, "three", 1..=2).await;
    assert!(node.now_ms().await.unwrap() >= before);
    assert_eq!(whole(&node.load("two").await.unwrap().unwrap()), 4);
}

#[tokio::test]
async fn an_unused_session_leaves_memory_and_stays_in_the_file() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let ttl = Duration::from_millis(300);
    let node = SqlitePartyStore::open(&store, ttl).await;
    go(&node, "unused", 1..=3).await;
    go(&node, "kept", 1..=3).await;
    let kept = ["kept".to_owned()];
    for _ in 0..8 {
        tokio::time::sleep(ttl / 4).await;
        assert_eq!(node.keep(&kept).await.unwrap(), [""; 0]);
    }
    assert!(!node.is_in_memory("unused"));
    assert!(node.is_in_memory("kept"));
    assert_eq!(node.active(9).await.unwrap(), ["unused", "kept"], "it still has members");
    let unused = ["unused".to_owned()];
    assert_eq!(node.revisions(&unused).await.unwrap(), [Some(at(3))]);
    assert_eq!(node.entries("unused", at(2)).await.unwrap(), None, "its log is gone");
    assert_eq!(node.entries("unused", at(3)).await.unwrap(), Some(Vec::new()));
    assert_eq!(whole(&node.load("unused").await.unwrap().unwrap()), 3);
    assert!(node.is_in_memory("unused"), "who asks for it has it in memory again");
    go(&node, "unused", 4..=5).await;
    assert_eq!(node.entries("unused", at(3)).await.unwrap().unwrap(), ["4", "5"]);
}

#[tokio::test]
async fn a_change_of_the_file_by_hand_is_noticed() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let node = party(&store).await;
    go(&node, "one", 1..=3).await;
    scratch.shell().execute("UPDATE party_sessions SET version = 8", []).unwrap();
    let conflict = node.commit(to("one", 4)).await.unwrap();
    assert_eq!(conflict, Committed::Conflict(Some(at(8))));
    assert_eq!(node.load("one").await.unwrap().unwrap().revision, at(8));
    let next = Commit { expected: Some(at(8)), ..to("one", 9) };
    assert_eq!(node.commit(next).await.unwrap(), Committed::Done);
}

#[tokio::test]
async fn a_full_disk_rejects_a_whole_commit_until_it_has_room_again() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let node = party(&store).await;
    go(&node, "one", 1..=3).await;
    node.watch("one").await.unwrap();
    let mut notices = node.notices();
    let set_room = async |pages: i64| {
        let set = move |transaction: &mut crate::sqlite::write_transaction::WriteTransaction<
            '_,
        >| {
            let used: i64 =
                transaction.connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
            let limit = used + pages;
            transaction.connection.pragma_update_and_check(
                None,
                "max_page_count",
                limit,
                |_| Ok(()),
            )
        };
        store.0.writer.write(set).await.unwrap();
    };
    set_room(2).await;
    let mut large = to("one", 4);
    large.changes.set.push(("item:large".to_owned(), vec![7; 200_000]));
    let refused = node.commit(large.clone()).await.unwrap_err();
    let reason = heartline_durability::Chain(&refused).to_string();
    assert!(reason.contains("full"), "{reason}");
    assert_eq!(whole(&node.load("one").await.unwrap().unwrap()), 3, "nothing of it is there");
    set_room(1_000_000).await;
    assert_eq!(node.commit(large).await.unwrap(), Committed::Done);
    let notice = notices.recv().await.unwrap();
    assert!(
        matches!(notice, Notice::Committed { revision, .. } if revision == at(4)),
        "{notice:?}"
    );
    assert!(notices.try_recv().is_err(), "a rejected commit sends no notice");
    drop((node, store));
    let node = party(&scratch.open()).await;
    assert_eq!(node.load("one").await.unwrap().unwrap().fields.len(), 6);
}

/// Keeps the writer busy until the sender is used; returns once the writer is busy.
async fn busy(store: &SqliteStore) -> std::sync::mpsc::SyncSender<()> {
    let (release, gate) = std::sync::mpsc::sync_channel::<()>(1);
    let (began, has_begun) = oneshot::channel();
    let held = store.clone();
    let work = async move {
        let wait = move |_: &mut crate::sqlite::write_transaction::WriteTransaction<'_>| {
            began.send(()).unwrap();
            let _ = gate.recv();
            Ok(())
        };
        held.0.writer.write(wait).await.unwrap();
    };
    // The task ends by itself when the sender is used or dropped.
    drop(Tasks::new().spawn("busy writer", work));
    has_begun.await.unwrap();
    release
}

async fn until_waiting(store: &SqliteStore, jobs: usize) {
    while store.0.writer.waiting() < jobs {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn waiting_commits_and_messages_are_committed_together() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let chat_id = group(&store, "ana").await;
    let node = Arc::new(party(&store).await);
    let before = store.counters().commits.get();
    let release = busy(&store).await;
    let mut tasks = TaskSet::new();
    for number in 0..50_u64 {
        let node = Arc::clone(&node);
        tasks.spawn(async move { go(&node, &format!("session-{number}"), 1..=1).await });
    }
    let messages = store.clone();
    tasks.spawn(async move {
        let batch = vec![message(chat_id, "ana", "hello")];
        let stored = heartline_durability::ChatLog::append(&messages, batch).await;
        assert!(stored.iter().all(Result::is_ok));
    });
    until_waiting(&store, 51).await;
    release.send(()).unwrap();
    tasks.join_all().await;
    assert_eq!(store.counters().commits.get() - before, 2);
}

#[tokio::test]
async fn a_commit_whose_caller_has_gone_is_cached_and_notified() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let node = Arc::new(party(&store).await);
    go(&node, "one", 1..=3).await;
    node.watch("one").await.unwrap();
    let mut notices = node.notices();
    // The second job holds the transaction of the commit open.
    let release_first = busy(&store).await;
    let (began, has_begun) = oneshot::channel();
    let (release, gate) = std::sync::mpsc::sync_channel::<()>(1);
    let mut tasks = TaskSet::new();
    let held = store.clone();
    tasks.spawn(async move {
        let wait = move |_: &mut crate::sqlite::write_transaction::WriteTransaction<'_>| {
            began.send(()).unwrap();
            let _ = gate.recv();
            Ok(())
        };
        held.0.writer.write(wait).await.unwrap();
    });
    until_waiting(&store, 1).await;
    let caller = Arc::clone(&node);
    let commit = tasks.spawn(async move { drop(caller.commit(to("one", 4)).await) });
    until_waiting(&store, 2).await;
    release_first.send(()).unwrap();
    has_begun.await.unwrap();
    commit.abort();
    while !commit.is_finished() {
        tokio::task::yield_now().await;
    }
    release.send(()).unwrap();
    let notice = notices.recv().await.unwrap();
    assert!(
        matches!(notice, Notice::Committed { revision, .. } if revision == at(4)),
        "{notice:?}"
    );
    assert_eq!(whole(&node.load("one").await.unwrap().unwrap()), 4);
    go(&node, "one", 5..=5).await;
}

/// The child: commits and prints every commit, until it is killed. Does nothing without its
/// variable.
#[tokio::test]
async fn a_child_commits_until_it_is_killed() {
    let Some(database) = std::env::var_os(CHILD_DATABASE) else { return };
    let config = SqliteConfig { disk_reserve_bytes: 0, ..SqliteConfig::new(database) };
    let store = SqliteStore::open(&config, Clock::system(), Random::system()).unwrap();
    let node = Arc::new(party(&store).await);
    let mut sessions = TaskSet::new();
    for session in 0..SESSIONS {
        let node = Arc::clone(&node);
        sessions.spawn(async move {
            for version in 1.. {
                go(&node, &format!("session-{session}"), version..=version).await;
                let mut output = std::io::stdout();
                writeln!(output, "\ncommitted {session} {version}").unwrap();
            }
        });
    }
    sessions.join_all().await;
}

#[tokio::test]
async fn a_commit_survives_kill_nine() {
    let scratch = Scratch::new();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sqlite::tests::party::a_child_commits_until_it_is_killed"])
        .arg("--nocapture")
        .env(CHILD_DATABASE, scratch.database())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut answered = [0; SESSIONS];
    let mut count = 0;
    for line in lines {
        let Some(committed) = line.strip_prefix("committed ") else { continue };
        let (session, version) = committed.split_once(' ').unwrap();
        answered[session.parse::<usize>().unwrap()] = version.parse::<u64>().unwrap();
        count += 1;
        if count == 300 {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(count >= 300, "{count} commits");

    let store = scratch.open();
    let node = party(&store).await;
    for (session, answered) in answered.into_iter().enumerate() {
        let session_id = format!("session-{session}");
        let version = whole(&node.load(&session_id).await.unwrap().unwrap());
        assert!(version >= answered, "{answered} answered, {version} there");
        let kept = version.min(5);
        let entries = node.entries(&session_id, at(version - kept)).await.unwrap().unwrap();
        let expected: Vec<_> = (version - kept + 1..=version).map(|v| v.to_string()).collect();
        assert_eq!(entries, expected);
        go(&node, &session_id, version + 1..=version + 1).await;
    }
    assert_eq!(node.active(9).await.unwrap().len(), SESSIONS);
    drop((node, store));
    assert_eq!(check_store(&scratch.database(), Thoroughness::Full).unwrap(), [""; 0]);
}
