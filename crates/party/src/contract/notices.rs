//! The promises of every store about notices: a watcher receives every commit, in order.

use std::sync::Arc;

use heartline_runtime::TaskSet;
use tokio::sync::Semaphore;

use super::{Step, StoreContract, done, entry_of, next_commit};
use crate::room::store::{PartyStore, Revision};

/// The number of times that a watch begins and ends during commits.
const ROUNDS: usize = 6;

/// The least number of commits of each round.
const ROUND_COMMITS: usize = 10;

impl StoreContract {
    /// Proves watching.
    pub async fn prove_notices(&self) {
        self.a_watcher_receives_every_commit_also_its_own().await;
        self.nothing_is_received_after_unwatching().await;
        self.no_commit_is_missed_once_watching_has_begun().await;
        self.every_receiver_gets_every_notice().await;
    }

    async fn a_watcher_receives_every_commit_also_its_own(&self) {
        let (session_id, first) = self.created().await;
        let watcher = self.first();
        let mut notices = watcher.watch.notices();
        watcher.watch.watch(&session_id).await.expect("the store works");
        watcher.watch.watch(&session_id).await.expect("watching twice is watching once");
        let mut at = first;
        for number in 0..20 {
            let store = if number % 3 == 0 { watcher } else { self.other() };
            at = done(store, Step::after(&session_id, at, &[("head", "x")])).await;
        }
        for version in first.version + 1..=at.version {
            let revision = Revision { version, ..first };
            let notice = next_commit(&mut notices, &session_id).await;
            assert_eq!(notice, (revision, Some(entry_of(revision))));
        }
        watcher.watch.unwatch(&session_id).await;
    }

    async fn nothing_is_received_after_unwatching(&self) {
        let (session_id, first) = self.created().await;
        let watcher = self.first();
        let mut notices = watcher.watch.notices();
        watcher.watch.watch(&session_id).await.expect("the store works");
        let other = self.other();
        let second = done(other, Step::after(&session_id, first, &[])).await;
        assert_eq!(next_commit(&mut notices, &session_id).await.0, second);
        watcher.watch.unwatch(&session_id).await;
        let third = done(other, Step::after(&session_id, second, &[])).await;
        watcher.watch.watch(&session_id).await.expect("the store works");
        let fourth = done(other, Step::after(&session_id, third, &[])).await;
        assert_eq!(
            next_commit(&mut notices, &session_id).await.0,
            fourth,
            "it did not watch meanwhile"
        );
        watcher.watch.unwatch(&session_id).await;
        watcher.watch.unwatch(&session_id).await;
    }

    async fn no_commit_is_missed_once_watching_has_begun(&self) {
        let (session_id, first) = self.created().await;
        let allowed = Arc::new(Semaphore::new(ROUND_COMMITS));
        let mut committer = TaskSet::new();
        let store = self.other().clone();
        committer.spawn(commit_on(store, session_id.clone(), first, Arc::clone(&allowed)));
        let watcher = self.first();
        for _ in 0..ROUNDS {
            let mut notices = watcher.watch.notices();
            watcher.watch.watch(&session_id).await.expect("the store works");
            let found = watcher.sessions.revisions(std::slice::from_ref(&session_id)).await;
            let began = found.expect("the store works")[0].expect("it is there").version;
            allowed.add_permits(2 * ROUND_COMMITS);
            let mut received = next_commit(&mut notices, &session_id).await.0.version;
            assert!(received <= began + 1, "{received} came first, after {began}");
            while received < began + ROUND_COMMITS as u64 {
                let next = next_commit(&mut notices, &session_id).await.0.version;
                assert_eq!(next, received + 1, "in order and without a gap");
                received = next;
            }
            watcher.watch.unwatch(&session_id).await;
        }
        allowed.close();
        committer.join_next().await.expect("there is one").expect("every commit succeeds");
    }

    async fn every_receiver_gets_every_notice(&self) {
        let (session_id, first) = self.created().await;
        let mut listeners = Vec::new();
        for store in &self.stores {
            listeners.push(store.watch.notices());
            listeners.push(store.watch.notices());
            store.watch.watch(&session_id).await.expect("the store works");
        }
        let second = done(self.first(), Step::after(&session_id, first, &[])).await;
        for listener in &mut listeners {
            assert_eq!(next_commit(listener, &session_id).await.0, second);
        }
        for store in &self.stores {
            store.watch.unwatch(&session_id).await;
        }
    }
}

/// Commits one version after the other, one for each permit.
async fn commit_on(
    store: PartyStore,
    session_id: String,
    mut at: Revision,
    allowed: Arc<Semaphore>,
) {
    while let Ok(permit) = allowed.acquire().await {
        permit.forget();
        at = done(&store, Step::after(&session_id, at, &[("head", "x")])).await;
    }
}
