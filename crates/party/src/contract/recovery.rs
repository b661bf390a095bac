//! The promises of a store that several nodes share: one node at a time restores a session, with
//! the newest copy.

use std::time::Duration;

use tokio::time::sleep;

use super::{StoreContract, next_notice};
use crate::room::store::{LOCK_LIFETIME, Notice, PartyStore, Revision, SessionRecovery, Stored};

/// The tolerance for the expiry of a lock.
const SLACK: Duration = Duration::from_millis(500);

impl StoreContract {
    /// Proves the promises about locks and copies, except those that take ten seconds.
    pub async fn prove_recovery(&self) {
        if !self.first().is_shared() {
            return;
        }
        self.a_lock_has_one_owner_who_releases_it().await;
        self.every_node_is_asked_for_its_copy().await;
        self.the_newest_copy_wins_in_any_order().await;
    }

    /// Proves that locks expire, and that offers outlive them.
    pub async fn prove_expiry(&self) {
        if !self.first().is_shared() {
            return;
        }
        let session_id = self.session();
        assert!(self.lock(&session_id, "dead").await);
        self.offer(&session_id, &copy(1, 5, "newest")).await;
        let held = LOCK_LIFETIME / 2;
        sleep(held).await;
        assert!(!self.lock(&session_id, "heir").await, "it is still held");
        assert!(self.offered(&session_id).await.is_some(), "it is still offered");
        sleep(LOCK_LIFETIME - held + SLACK).await;
        assert!(self.lock(&session_id, "heir").await, "the lock has expired");
        self.unlock(&session_id, "dead").await;
        assert!(!self.lock(&session_id, "third").await, "a former owner cannot release it");
        self.unlock(&session_id, "heir").await;
        assert!(self.offered(&session_id).await.is_some(), "it outlives the lock");
    }

    async fn lock(&self, session_id: &str, owner: &str) -> bool {
        recovery(self.first()).lock(session_id, owner).await.expect("the store works")
    }

    async fn unlock(&self, session_id: &str, owner: &str) {
        recovery(self.other()).unlock(session_id, owner).await.expect("the store works");
    }

    async fn offer(&self, session_id: &str, copy: &Stored) {
        recovery(self.first()).offer(session_id, copy.clone()).await.expect("the store works");
    }

    /// The offered copy, with its fields in order.
    async fn offered(&self, session_id: &str) -> Option<Stored> {
        let mut offered =
            recovery(self.other()).offered(session_id).await.expect("the store works");
        if let Some(stored) = &mut offered {
            stored.fields.sort_unstable();
        }
        offered
    }

    async fn a_lock_has_one_owner_who_releases_it(&self) {
        let (one, two) = (self.session(), self.session());
        self.unlock(&one, "ana").await;
        assert!(self.lock(&one, "ana").await);
        assert!(self.lock(&two, "bo").await, "every session has a lock of its own");
        let elsewhere = recovery(self.other()).lock(&one, "bo").await.expect("the store works");
        assert!(!elsewhere, "it is held, on every node");
        assert!(!self.lock(&one, "ana").await, "it is held, also for its owner");
        self.unlock(&one, "bo").await;
        assert!(!self.lock(&one, "bo").await, "only its owner releases it");
        self.unlock(&one, "ana").await;
        assert!(self.lock(&one, "bo").await);
        self.unlock(&one, "bo").await;
        self.unlock(&two, "bo").await;
    }

    async fn every_node_is_asked_for_its_copy(&self) {
        let (watched, session_id) = (self.created().await.0, self.session());
        self.first().watch.watch(&watched).await.expect("the store works");
        for wanted in [&session_id, &watched] {
            let mut listeners: Vec<_> =
                self.stores.iter().map(|store| store.watch.notices()).collect();
            recovery(self.other()).ask(wanted).await.expect("the store works");
            for listener in &mut listeners {
                loop {
                    let notice = next_notice(listener).await;
                    if matches!(&notice, Notice::Wanted { session_id } if session_id == wanted) {
                        break;
                    }
                    assert!(!matches!(notice, Notice::Gap), "no notice was missed");
                }
            }
        }
        self.first().watch.unwatch(&watched).await;
    }

    async fn the_newest_copy_wins_in_any_order(&self) {
        let session_id = self.session();
        assert_eq!(self.offered(&session_id).await, None);
        let (oldest, middle) = (copy(0, 900, "oldest"), copy(1, 3, "middle"));
        let newest = copy(1, 4, "newest");
        self.offer(&session_id, &middle).await;
        assert_eq!(self.offered(&session_id).await, Some(middle.clone()));
        self.offer(&session_id, &oldest).await;
        assert_eq!(self.offered(&session_id).await, Some(middle.clone()), "it is older");
        self.offer(&session_id, &newest).await;
        self.offer(&session_id, &middle).await;
        assert_eq!(self.offered(&session_id).await, Some(newest));
        assert_eq!(self.offered(&self.session()).await, None);
    }
}

fn recovery(store: &PartyStore) -> &dyn SessionRecovery {
    store.recovery.as_deref().expect("the store is shared")
}

/// A copy of two fields.
fn copy(incarnation: u64, version: u64, name: &str) -> Stored {
    let field = |field: &str, value: &str| (field.to_owned(), value.as_bytes().to_vec());
    Stored {
        revision: Revision { incarnation, version },
        fields: vec![field("head", name), field(&format!("item:{name}"), "\0")],
    }
}
