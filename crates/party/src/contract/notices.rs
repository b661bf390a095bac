//! What every store promises of notices: who watches hears every commit, in order.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::{Step, StoreContract, done, entry_of, heard_of};
use crate::room::store::{PartyStore, Revision};

/// How often somebody begins and ends to watch while commits are made.
const ROUNDS: usize = 6;

/// Commits that each round hears at least.
const ROUND_COMMITS: usize = 10;

impl StoreContract {
    /// Proves watching.
    pub async fn prove_notices(&self) {
        self.who_watches_hears_every_commit_and_its_own().await;
        self.who_watches_no_more_hears_nothing().await;
        self.nothing_is_missed_from_when_watching_began().await;
        self.every_listener_hears_everything().await;
    }

    async fn who_watches_hears_every_commit_and_its_own(&self) {
        let (session_id, first) = self.made().await;
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
            let notice = heard_of(&mut notices, &session_id).await;
            assert_eq!(notice, (revision, Some(entry_of(revision))));
        }
        watcher.watch.unwatch(&session_id).await;
    }

    async fn who_watches_no_more_hears_nothing(&self) {
        let (session_id, first) = self.made().await;
        let watcher = self.first();
        let mut notices = watcher.watch.notices();
        watcher.watch.watch(&session_id).await.expect("the store works");
        let other = self.other();
        let second = done(other, Step::after(&session_id, first, &[])).await;
        assert_eq!(heard_of(&mut notices, &session_id).await.0, second);
        watcher.watch.unwatch(&session_id).await;
        let third = done(other, Step::after(&session_id, second, &[])).await;
        watcher.watch.watch(&session_id).await.expect("the store works");
        let fourth = done(other, Step::after(&session_id, third, &[])).await;
        assert_eq!(heard_of(&mut notices, &session_id).await.0, fourth, "it did not watch");
        watcher.watch.unwatch(&session_id).await;
        watcher.watch.unwatch(&session_id).await;
    }

    async fn nothing_is_missed_from_when_watching_began(&self) {
        let (session_id, first) = self.made().await;
        let allowed = Arc::new(Semaphore::new(ROUND_COMMITS));
        let mut committer = JoinSet::new();
        let store = self.other().clone();
        committer.spawn(go_on(store, session_id.clone(), first, Arc::clone(&allowed)));
        let watcher = self.first();
        for _ in 0..ROUNDS {
            let mut notices = watcher.watch.notices();
            watcher.watch.watch(&session_id).await.expect("the store works");
            let found = watcher.sessions.revisions(std::slice::from_ref(&session_id)).await;
            let began = found.expect("the store works")[0].expect("it is there").version;
            allowed.add_permits(2 * ROUND_COMMITS);
            let mut heard = heard_of(&mut notices, &session_id).await.0.version;
            assert!(heard <= began + 1, "{heard} came first, after {began}");
            while heard < began + ROUND_COMMITS as u64 {
                let next = heard_of(&mut notices, &session_id).await.0.version;
                assert_eq!(next, heard + 1, "in order and without a hole");
                heard = next;
            }
            watcher.watch.unwatch(&session_id).await;
        }
        allowed.close();
        committer.join_next().await.expect("there is one").expect("every commit is taken");
    }

    async fn every_listener_hears_everything(&self) {
        let (session_id, first) = self.made().await;
        let mut listeners = Vec::new();
        for store in &self.stores {
            listeners.push(store.watch.notices());
            listeners.push(store.watch.notices());
            store.watch.watch(&session_id).await.expect("the store works");
        }
        let second = done(self.first(), Step::after(&session_id, first, &[])).await;
        for listener in &mut listeners {
            assert_eq!(heard_of(listener, &session_id).await.0, second);
        }
        for store in &self.stores {
            store.watch.unwatch(&session_id).await;
        }
    }
}

/// Commits one version after the other, as many as are allowed.
async fn go_on(store: PartyStore, session_id: String, mut at: Revision, allowed: Arc<Semaphore>) {
    while let Ok(permit) = allowed.acquire().await {
        permit.forget();
        at = done(&store, Step::after(&session_id, at, &[("head", "x")])).await;
    }
}
