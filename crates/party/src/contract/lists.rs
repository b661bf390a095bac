//! The promises of every store about its sessions: revisions, activity, removal and the clock.

use std::time::Duration;

use tokio::time::sleep;

use super::{Step, StoreContract, committed, done, fields};
use crate::room::store::{Committed, Revision};

/// More sessions than any run creates.
const ALL: usize = 1_000_000;

impl StoreContract {
    /// Proves the lists of sessions, and the clock.
    pub async fn prove_lists(&self) {
        self.revisions_come_in_the_order_of_the_ids().await;
        self.sessions_with_members_are_listed().await;
        self.a_removed_session_cannot_be_kept().await;
        self.a_session_is_removed_only_at_the_given_revision().await;
        self.the_clock_rises_on_every_node().await;
    }

    async fn revisions_come_in_the_order_of_the_ids(&self) {
        let (one, first) = self.created().await;
        let (two, _) = self.created().await;
        let second = done(self.first(), Step::after(&two, first, &[])).await;
        let ids = [two.clone(), self.session(), one.clone(), two];
        let found = self.other().sessions.revisions(&ids).await.expect("the store works");
        assert_eq!(found, [Some(second), None, Some(first), Some(second)]);
        let none = self.other().sessions.revisions(&[]).await.expect("the store works");
        assert_eq!(none, []);
    }

    /// The active ones of these sessions, in the order of the list.
    async fn active_of(&self, session_ids: &[&String]) -> Vec<String> {
        let mut active = self.other().activity.active(ALL).await.expect("the store works");
        active.retain(|session_id| session_ids.contains(&session_id));
        active
    }

    async fn sessions_with_members_are_listed(&self) {
        let [one, two, empty] = [(); 3].map(|()| self.session());
        let all = [&one, &two, &empty];
        let store = self.first();
        let mut at = Revision { incarnation: 0, version: 1 };
        for session_id in [&one, &two] {
            done(store, Step::first(session_id, &[("head", "1")]).active()).await;
            sleep(Duration::from_millis(5)).await;
        }
        done(store, Step::first(&empty, &[("head", "1")])).await;
        assert_eq!(self.active_of(&all).await, [one.clone(), two.clone()], "the oldest first");
        let few = self.other().activity.active(1).await.expect("the store works");
        assert_eq!(few.len(), 1, "the limit holds");
        at = done(store, Step::after(&one, at, &[("head", "2")]).active()).await;
        assert_eq!(
            self.active_of(&all).await,
            [two.clone(), one.clone()],
            "a commit is a sign of life"
        );
        sleep(Duration::from_millis(5)).await;
        let gone =
            self.other().activity.keep(std::slice::from_ref(&two)).await.expect("the store works");
        assert_eq!(gone, [""; 0]);
        assert_eq!(self.active_of(&all).await, [one.clone(), two.clone()], "so is keeping");

        done(store, Step::after(&one, at, &[("head", "3")])).await;
        assert_eq!(self.active_of(&all).await, std::slice::from_ref(&two), "it has no members");
        let kept = self.first().activity.keep(std::slice::from_ref(&empty)).await;
        assert_eq!(kept.expect("the store works"), [""; 0]);
        sleep(Duration::from_millis(5)).await;
        assert_eq!(self.active_of(&all).await, [two.clone(), empty.clone()]);
        for session_id in [&two, &empty, &one] {
            self.other().activity.inactive(session_id).await.expect("the store works");
        }
        assert_eq!(self.active_of(&all).await, [""; 0]);
        assert!(self.loaded(&two).await.is_some(), "the session itself is unchanged");
    }

    async fn a_removed_session_cannot_be_kept(&self) {
        let (there, first) = self.created().await;
        let (gone, never) = (self.session(), self.session());
        done(self.first(), Step::first(&gone, &[("head", "1")]).active()).await;
        self.first().sessions.remove(&gone, first).await.expect("the store works");
        let ids = [gone.clone(), there.clone(), never.clone()];
        let mut lost = self.other().activity.keep(&ids).await.expect("the store works");
        lost.sort_unstable();
        let mut expected = vec![gone.clone(), never.clone()];
        expected.sort_unstable();
        assert_eq!(lost, expected);
        assert_eq!(self.active_of(&[&gone, &never, &there]).await, [there]);
        let none = self.other().activity.keep(&[]).await.expect("the store works");
        assert_eq!(none, [""; 0]);
    }

    async fn a_session_is_removed_only_at_the_given_revision(&self) {
        let (session_id, first) = self.created().await;
        let store = self.other();
        let second = done(store, Step::after(&session_id, first, &[("b", "2")])).await;
        let remove = async |revision| {
            self.first().sessions.remove(&session_id, revision).await.expect("the store works")
        };
        for other in [first, Revision { incarnation: 1, ..second }] {
            assert!(!remove(other).await, "it is not at {other:?}");
        }
        assert!(self.loaded(&session_id).await.is_some());
        assert!(remove(second).await);
        assert_eq!(self.loaded(&session_id).await, None);
        assert!(!remove(second).await, "it is gone");
        let late = Step::after(&session_id, second, &[("head", "3")]);
        assert_eq!(committed(store, late).await, Committed::Conflict(None));
        let anew = done(store, Step::first(&session_id, &[("head", "anew")])).await;
        let expected = Some((anew, fields(&[("head", "anew")])));
        assert_eq!(
            self.loaded(&session_id).await,
            expected,
            "the new session has no field of the old one"
        );
    }

    async fn the_clock_rises_on_every_node(&self) {
        let mut last = 0;
        for _ in 0..20 {
            for store in &self.stores {
                let now = store.activity.now_ms().await.expect("the store works");
                assert!(now >= last, "{now} after {last}");
                last = now;
            }
            sleep(Duration::from_millis(2)).await;
        }
        let before = last;
        sleep(Duration::from_millis(20)).await;
        let after = self.other().activity.now_ms().await.expect("the store works");
        assert!(after > before, "time goes on");
        assert!(after > 1_700_000_000_000, "it counts milliseconds since 1970");
    }
}
