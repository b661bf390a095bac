mod access;
mod commit;
mod contract;
mod outage;
mod restore;
mod watch;

use std::time::Duration;

use bytes::Bytes;
use heartline_party::{Changes, Commit, Committed, Notice, Revision, SessionStore, Stored};
use heartline_runtime::Clock;
use tokio::sync::broadcast::Receiver;
use tokio::time::timeout;

use super::{client, patient_client};
use crate::redis::{RedisPartyConfig, RedisPartyStore};

const PATIENCE: Duration = Duration::from_secs(20);

/// The store of a node that waits, for tests about something else than time.
async fn store(url: &str) -> RedisPartyStore {
    RedisPartyStore::connect(patient_client(url), RedisPartyConfig::default(), Clock::system())
        .await
        .unwrap()
}

/// The store of a node with the usual deadline.
async fn hasty_store(url: &str) -> RedisPartyStore {
    RedisPartyStore::connect(client(url), RedisPartyConfig::default(), Clock::system())
        .await
        .unwrap()
}

fn at(incarnation: u64, version: u64) -> Revision {
    Revision { incarnation, version }
}

/// A step that writes the field `head`. Its entry names the version that it leads to.
fn step(session_id: &str, expected: Option<Revision>, revision: Revision) -> Commit {
    let head = format!("head {}", revision.version).into_bytes();
    Commit {
        session_id: session_id.to_owned(),
        expected,
        revision,
        changes: Changes { set: vec![("head".to_owned(), head)], remove: Vec::new() },
        entry: entry(revision.version),
        entries_kept: 100,
        is_active: true,
    }
}

fn entry(version: u64) -> Bytes {
    Bytes::from(format!("entry {version}"))
}

/// Creates a session at version 1, and takes steps up to a version.
async fn advance(store: &RedisPartyStore, session_id: &str, version: u64) {
    let mut present = None;
    for version in 1..=version {
        let step = step(session_id, present, at(1, version));
        assert_eq!(store.commit(step).await.unwrap(), Committed::Done);
        present = Some(at(1, version));
    }
}

/// The session of one field, as [`step`] leaves it.
fn stored(revision: Revision) -> Stored {
    let head = format!("head {}", revision.version).into_bytes();
    Stored { revision, fields: vec![("head".to_owned(), head)] }
}

async fn next(notices: &mut Receiver<Notice>) -> Notice {
    timeout(PATIENCE, notices.recv()).await.expect("a notice comes in time").unwrap()
}

/// The next notice as a short text.
async fn heard(notices: &mut Receiver<Notice>) -> String {
    match next(notices).await {
        Notice::Committed { session_id, revision, entry } => {
            let entry = entry.map(|entry| String::from_utf8_lossy(&entry).into_owned());
            let Revision { incarnation, version } = revision;
            format!("{session_id} {incarnation}/{version} {}", entry.unwrap_or("-".to_owned()))
        }
        Notice::Wanted { session_id } => format!("wanted {session_id}"),
        Notice::Gap => "gap".to_owned(),
    }
}

/// Waits for a gap and passes over what was heard before it.
async fn gap(notices: &mut Receiver<Notice>) {
    while heard(notices).await != "gap" {}
}
