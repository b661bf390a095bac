//! The promises of every store about the log: all entries from a revision to the present one, or
//! none.

use bytes::Bytes;

use super::{Step, StoreContract, done, entry_of};
use crate::room::store::Revision;

/// Entries that the log of these steps keeps.
const KEPT: usize = 5;

impl StoreContract {
    /// Proves the log.
    pub async fn prove_entries(&self) {
        self.entries_lead_to_the_present().await;
        self.incomplete_entries_are_not_returned().await;
        self.a_restored_session_has_no_former_entries().await;
        self.a_removed_session_has_no_entries().await;
        self.the_log_is_all_that_is_kept_of_an_incarnation().await;
    }

    async fn log(&self, session_id: &str, incarnation: u64) -> Vec<Bytes> {
        self.other().sessions.log(session_id, incarnation).await.expect("the store works")
    }

    async fn entries_after(&self, session_id: &str, after: Revision) -> Option<Vec<Bytes>> {
        self.other().sessions.entries(session_id, after).await.expect("the store works")
    }

    /// Commits up to a version; returns all revisions on the way, beginning with the first.
    async fn walk(&self, session_id: &str, from: Revision, to: u64, kept: usize) -> Vec<Revision> {
        let mut revisions = vec![from];
        for version in from.version + 1..=to {
            let before = revisions[revisions.len() - 1];
            let head = version.to_string();
            let step = Step::after(session_id, before, &[("head", &head)]).keeping(kept);
            let store = &self.stores[usize::from(version % 2 == 0) * (self.stores.len() - 1)];
            revisions.push(done(store, step).await);
        }
        revisions
    }

    async fn entries_lead_to_the_present(&self) {
        let (session_id, first) = self.created().await;
        let revisions = self.walk(&session_id, first, 20, 100).await;
        for (index, after) in revisions.iter().enumerate() {
            let led: Vec<_> = revisions[index + 1..].iter().copied().map(entry_of).collect();
            assert_eq!(self.entries_after(&session_id, *after).await, Some(led), "{after:?}");
        }
    }

    async fn incomplete_entries_are_not_returned(&self) {
        let (session_id, first) = self.created().await;
        let revisions = self.walk(&session_id, first, 12, KEPT).await;
        let present = revisions[revisions.len() - 1];
        for after in &revisions {
            let missing = present.version - after.version;
            let entries = self.entries_after(&session_id, *after).await;
            if missing > KEPT as u64 {
                assert_eq!(entries, None, "{missing} were requested and {KEPT} are kept");
            } else {
                assert_eq!(entries.map(|entries| entries.len() as u64), Some(missing));
            }
        }
        let future = Revision { version: present.version + 1, ..present };
        assert_eq!(
            self.entries_after(&session_id, future).await,
            None,
            "the revision is in the future"
        );
        let elsewhere = Revision { incarnation: 1, ..present };
        assert_eq!(self.entries_after(&session_id, elsewhere).await, None);
    }

    async fn a_restored_session_has_no_former_entries(&self) {
        let (session_id, first) = self.created().await;
        let revisions = self.walk(&session_id, first, 4, 100).await;
        let before = revisions[3];
        let restored = Revision { incarnation: 1, version: before.version + 1 };
        let step = Step::to(&session_id, Some(before), restored, &[("head", "restored")]);
        done(self.first(), step).await;
        let next = self.walk(&session_id, restored, 7, 100).await;
        for after in revisions {
            assert_eq!(self.entries_after(&session_id, after).await, None, "{after:?}");
        }
        let led: Vec<_> = next[1..].iter().copied().map(entry_of).collect();
        assert_eq!(self.entries_after(&session_id, restored).await, Some(led));
    }

    async fn a_removed_session_has_no_entries(&self) {
        let (session_id, first) = self.created().await;
        assert_eq!(self.entries_after(&self.session(), first).await, None);
        let removed =
            self.other().sessions.remove(&session_id, first).await.expect("the store works");
        assert!(removed);
        assert_eq!(self.entries_after(&session_id, first).await, None);
        // A new session with the same id has its own log.
        let anew = Revision { incarnation: 0, version: 2 };
        done(self.first(), Step::to(&session_id, None, anew, &[("head", "2")])).await;
        let beginning = Revision { incarnation: 0, version: 0 };
        assert_eq!(self.entries_after(&session_id, beginning).await, None);
        assert_eq!(self.entries_after(&session_id, anew).await, Some(Vec::new()));
    }

    async fn the_log_is_all_that_is_kept_of_an_incarnation(&self) {
        assert_eq!(self.log(&self.session(), 0).await, Vec::<Bytes>::new());
        let (session_id, first) = self.created().await;
        assert_eq!(self.log(&session_id, 0).await, [entry_of(first)]);
        let revisions = self.walk(&session_id, first, 12, KEPT).await;
        let newest = revisions[revisions.len() - KEPT..].iter().copied().map(entry_of);
        assert_eq!(self.log(&session_id, 0).await, newest.collect::<Vec<_>>());
        assert_eq!(self.log(&session_id, 1).await, Vec::<Bytes>::new(), "it was not restored");
        let present = revisions[revisions.len() - 1];
        let restored = Revision { incarnation: 1, version: present.version + 1 };
        let step = Step::to(&session_id, Some(present), restored, &[("head", "restored")]);
        done(self.first(), step).await;
        assert_eq!(self.log(&session_id, 0).await, Vec::<Bytes>::new());
        assert_eq!(self.log(&session_id, 1).await, [entry_of(restored)]);
    }
}
