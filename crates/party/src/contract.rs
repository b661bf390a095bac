//! The suites that every [`PartyStore`] and every
//! [`PartyArchive`](crate::room::archive::PartyArchive) must pass: each promise of their comments,
//! proved through the ports alone. A store without
//! [`SessionRecovery`](crate::room::store::SessionRecovery) skips the proofs of that port.
//!
//! Every run names sessions and accounts of its own, so that one engine can serve any number of
//! runs.

mod archive;
mod commits;
mod core;
mod entries;
mod lists;
mod nearby;
mod notices;
mod recovery;

pub use archive::ArchiveContract;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use heartline_runtime::Random;
use rand::RngCore;
use tokio::sync::broadcast;
use tokio::time::timeout;

use crate::room::store::{Commit, Committed, Notice, PartyStore, Revision, Stored};
use crate::value::fields::Changes;

/// The longest wait for a notice on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// The default number of entries that a log keeps.
const ENTRIES_KEPT: usize = 200;

/// The stores of several nodes on one engine, and unused names.
#[derive(Debug)]
pub struct StoreContract {
    stores: Vec<PartyStore>,
    names: Names,
}

impl StoreContract {
    /// A suite for stores that share an engine, one for each of several nodes.
    pub fn new(stores: Vec<PartyStore>) -> Self {
        assert!(!stores.is_empty(), "there is a store");
        Self { stores, names: Names::new() }
    }

    /// Runs the suites of all ports that the stores have. Proofs that wait for time run beside the
    /// rest.
    pub async fn run(&self) {
        tokio::join!(self.prove_expiry(), async {
            self.prove_commits().await;
            self.prove_entries().await;
            self.prove_lists().await;
            self.prove_notices().await;
            self.prove_recovery().await;
            self.prove_core().await;
        });
    }

    /// The store of one node.
    fn first(&self) -> &PartyStore {
        &self.stores[0]
    }

    /// The store of another node, if there is one.
    fn other(&self) -> &PartyStore {
        &self.stores[self.stores.len() - 1]
    }

    /// An unused session id.
    fn session(&self) -> String {
        self.names.next("session")
    }

    /// Creates a session with one field at version 1; returns its id and revision.
    async fn created(&self) -> (String, Revision) {
        let session_id = self.session();
        let step = Step::first(&session_id, &[("head", "1")]);
        (session_id, done(self.first(), step).await)
    }

    /// A session as another node loads it.
    async fn loaded(&self, session_id: &str) -> Option<(Revision, BTreeMap<String, Vec<u8>>)> {
        let stored = self.other().sessions.load(session_id).await.expect("the store works");
        stored.map(|stored| (stored.revision, fields_of(stored)))
    }
}

/// Names that no run has used.
#[derive(Debug)]
struct Names {
    run: u64,
    given: AtomicU64,
}

impl Names {
    fn new() -> Self {
        Self { run: Random::system().next_u64(), given: AtomicU64::new(0) }
    }

    fn next(&self, kind: &str) -> String {
        format!("{kind}-{:x}-{}", self.run, self.given.fetch_add(1, Ordering::Relaxed))
    }
}

/// A commit, with shorthands to build it.
struct Step(Commit);

impl Step {
    /// The commit that creates a session at version 1.
    fn first(session_id: &str, set: &[(&str, &str)]) -> Self {
        let revision = Revision { incarnation: 0, version: 1 };
        Self::to(session_id, None, revision, set)
    }

    /// The commit that follows a revision.
    fn after(session_id: &str, expected: Revision, set: &[(&str, &str)]) -> Self {
        let revision = Revision { version: expected.version + 1, ..expected };
        Self::to(session_id, Some(expected), revision, set)
    }

    fn to(
        session_id: &str,
        expected: Option<Revision>,
        revision: Revision,
        set: &[(&str, &str)],
    ) -> Self {
        let set = set.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()));
        Self(Commit {
            session_id: session_id.to_owned(),
            expected,
            revision,
            changes: Changes { set: set.collect(), remove: Vec::new() },
            entry: entry_of(revision),
            entries_kept: ENTRIES_KEPT,
            is_active: false,
        })
    }

    fn removing(mut self, names: &[&str]) -> Self {
        self.0.changes.remove = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    fn keeping(mut self, entries_kept: usize) -> Self {
        self.0.entries_kept = entries_kept;
        self
    }

    fn active(mut self) -> Self {
        self.0.is_active = true;
        self
    }
}

/// The default entry of a revision.
fn entry_of(revision: Revision) -> Bytes {
    Bytes::from(format!("entry \0 of {}.{}", revision.incarnation, revision.version))
}

async fn committed(store: &PartyStore, step: Step) -> Committed {
    store.sessions.commit(step.0).await.expect("the store works")
}

/// Makes a commit that must succeed; returns the new revision.
async fn done(store: &PartyStore, step: Step) -> Revision {
    let revision = step.0.revision;
    assert_eq!(committed(store, step).await, Committed::Done, "{revision:?}");
    revision
}

fn fields_of(stored: Stored) -> BTreeMap<String, Vec<u8>> {
    let count = stored.fields.len();
    let fields: BTreeMap<_, _> = stored.fields.into_iter().collect();
    assert_eq!(fields.len(), count, "a field is there once");
    fields
}

fn fields(pairs: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), value.as_bytes().to_vec());
    pairs.iter().map(owned).collect()
}

/// The next notice.
async fn next_notice(notices: &mut broadcast::Receiver<Notice>) -> Notice {
    let notice = timeout(PATIENCE, notices.recv()).await.expect("a notice comes in time");
    notice.expect("no receiver falls behind in a small test")
}

/// The next notice of a commit of this session. Other sessions share the engine and the receiver.
async fn next_commit(
    notices: &mut broadcast::Receiver<Notice>,
    session_id: &str,
) -> (Revision, Option<Bytes>) {
    loop {
        match next_notice(notices).await {
            Notice::Committed { session_id: of, revision, entry } if of == session_id => {
                return (revision, entry);
            }
            Notice::Gap => panic!("no notice was missed"),
            _ => {}
        }
    }
}
