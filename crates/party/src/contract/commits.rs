//! The promises of every store about commits: each is applied whole on its expected revision, or
//! not at all.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use heartline_runtime::TaskSet;

use super::{Step, StoreContract, committed, done, fields, fields_of};
use crate::room::store::{Committed, PartyStore, Revision};

/// Concurrent committers of one session.
const COMMITTERS: usize = 50;

/// Items of the largest session, and bytes of each.
const ITEMS: usize = 500;
const ITEM_BYTES: usize = 8 * 1024;

/// Versions with the committers that won them.
type Wins = Arc<Mutex<Vec<(u64, usize)>>>;

impl StoreContract {
    /// Proves loading and committing.
    pub async fn prove_commits(&self) {
        self.a_commit_is_loaded_by_every_node().await;
        self.a_commit_on_another_revision_changes_nothing().await;
        self.a_session_may_begin_anywhere().await;
        self.any_bytes_are_a_value().await;
        self.of_concurrent_commits_one_wins_each_revision().await;
        self.a_large_session_is_one_commit().await;
    }

    async fn a_commit_is_loaded_by_every_node(&self) {
        let session_id = self.session();
        assert_eq!(self.loaded(&session_id).await, None);
        let step = Step::first(&session_id, &[("head", "1"), ("a", "one"), ("b", "two")]);
        let first = done(self.first(), step).await;
        let all = fields(&[("head", "1"), ("a", "one"), ("b", "two")]);
        assert_eq!(self.loaded(&session_id).await, Some((first, all)));
        let step = Step::after(&session_id, first, &[("head", "2"), ("c", "three")]);
        let second = done(self.other(), step.removing(&["a", "never there"])).await;
        let all = fields(&[("head", "2"), ("b", "two"), ("c", "three")]);
        assert_eq!(self.loaded(&session_id).await, Some((second, all.clone())));
        let here = self.first().sessions.load(&session_id).await.expect("the store works");
        assert_eq!(here.map(fields_of), Some(all));
    }

    async fn a_commit_on_another_revision_changes_nothing(&self) {
        let store = self.other();
        let absent = self.session();
        let nowhere = Revision { incarnation: 0, version: 1 };
        let step = Step::after(&absent, nowhere, &[("head", "2")]);
        assert_eq!(committed(store, step).await, Committed::Conflict(None), "it does not exist");
        assert_eq!(self.loaded(&absent).await, None);

        let (session_id, first) = self.created().await;
        let second = done(store, Step::after(&session_id, first, &[("head", "2")])).await;
        let conflict = Committed::Conflict(Some(second));
        let again = Step::first(&session_id, &[("head", "other")]);
        assert_eq!(committed(store, again).await, conflict, "it exists already");
        let late = Step::after(&session_id, first, &[("head", "other"), ("more", "x")]);
        assert_eq!(committed(store, late.active()).await, conflict, "another commit came first");
        let future = Revision { version: 9, ..second };
        let early = Step::after(&session_id, future, &[]).removing(&["head"]);
        assert_eq!(committed(store, early).await, conflict, "the revision is in the future");
        let elsewhere = Revision { incarnation: 1, ..second };
        let lost = Step::after(&session_id, elsewhere, &[("head", "other")]);
        assert_eq!(committed(store, lost).await, conflict, "it is another incarnation");
        assert_eq!(self.loaded(&session_id).await, Some((second, fields(&[("head", "2")]))));
        let kept =
            self.first().sessions.entries(&session_id, first).await.expect("the store works");
        assert_eq!(kept.expect("it is kept").len(), 1, "a rejected commit leaves no entry");
    }

    async fn a_session_may_begin_anywhere(&self) {
        let session_id = self.session();
        let restored = Revision { incarnation: 3, version: 10_007 };
        let step = Step::to(&session_id, None, restored, &[("head", "restored")]);
        done(self.first(), step).await;
        let expected = Some((restored, fields(&[("head", "restored")])));
        assert_eq!(self.loaded(&session_id).await, expected);
        // A loss that is noticed after the session exists again raises only the incarnation.
        let again = Revision { incarnation: 4, version: 10_008 };
        let step = Step::to(&session_id, Some(restored), again, &[("head", "again")]);
        done(self.other(), step).await;
        let expected = Some((again, fields(&[("head", "again")])));
        assert_eq!(self.loaded(&session_id).await, expected);
    }

    async fn any_bytes_are_a_value(&self) {
        let session_id = self.session();
        let all: Vec<u8> = (0..=u8::MAX).chain([0, 0]).collect();
        let mut step = Step::first(&session_id, &[("empty", "")]);
        step.0.changes.set.push(("item:ä \u{1f9d7} %s".to_owned(), all.clone()));
        step.0.entry = all.clone().into();
        done(self.first(), step).await;
        let (_, seen) = self.loaded(&session_id).await.expect("it is there");
        assert_eq!(seen["item:ä \u{1f9d7} %s"], all);
        assert_eq!(seen["empty"], b"");
    }

    async fn of_concurrent_commits_one_wins_each_revision(&self) {
        let (session_id, first) = self.created().await;
        let wins = Wins::default();
        let mut committers = TaskSet::new();
        for number in 0..COMMITTERS {
            let store = self.stores[number % self.stores.len()].clone();
            committers.spawn(win_once(store, session_id.clone(), number, Arc::clone(&wins)));
        }
        while let Some(ended) = committers.join_next().await {
            ended.expect("a committer wins in the end");
        }
        let mut wins = wins.lock().unwrap_or_else(PoisonError::into_inner).clone();
        wins.sort_unstable();
        let versions: Vec<u64> = wins.iter().map(|(version, _)| *version).collect();
        let last = first.version + COMMITTERS as u64;
        assert_eq!(versions, (first.version + 1..=last).collect::<Vec<_>>(), "one wins each");
        let (revision, seen) = self.loaded(&session_id).await.expect("it is there");
        assert_eq!(revision, Revision { version: last, ..first });
        for (version, number) in &wins {
            assert_eq!(seen[&format!("by:{number}")], version.to_string().as_bytes());
        }
        let (_, last_winner) = wins[COMMITTERS - 1];
        assert_eq!(seen["last"], last_winner.to_string().as_bytes());
        let entries =
            self.other().sessions.entries(&session_id, first).await.expect("the store works");
        let entries = entries.expect("they are kept");
        let expected: Vec<_> = wins.iter().map(|(_, number)| number.to_string()).collect();
        assert_eq!(entries, expected, "the log has them in their order");
        let winners: BTreeSet<_> = wins.iter().map(|(_, number)| number).collect();
        assert_eq!(winners.len(), COMMITTERS);
    }

    async fn a_large_session_is_one_commit(&self) {
        let session_id = self.session();
        let name = |number: usize| format!("item:{number:036}");
        let value = |number: usize| vec![u8::try_from(number % 251).unwrap_or(0); ITEM_BYTES];
        let mut step = Step::first(&session_id, &[("head", "1")]);
        step.0.changes.set.extend((0..ITEMS).map(|number| (name(number), value(number))));
        let first = done(self.first(), step).await;
        let mut step = Step::after(&session_id, first, &[("head", "2")]);
        step.0.changes.set.push((name(7), b"small".to_vec()));
        let second = done(self.other(), step).await;
        let (revision, seen) = self.loaded(&session_id).await.expect("it is there");
        assert_eq!((revision, seen.len()), (second, ITEMS + 1));
        for number in (0..ITEMS).filter(|number| *number != 7) {
            assert_eq!(seen[&name(number)], value(number));
        }
        assert_eq!(seen[&name(7)], b"small");
        let mut step = Step::after(&session_id, second, &[("head", "3")]);
        step.0.changes.remove = (0..ITEMS).map(name).collect();
        done(self.first(), step).await;
        let (_, seen) = self.loaded(&session_id).await.expect("it is there");
        assert_eq!(seen, fields(&[("head", "3")]));
    }
}

/// Retries until it has won a revision.
async fn win_once(store: PartyStore, session_id: String, number: usize, wins: Wins) {
    let stored = store.sessions.load(&session_id).await.expect("the store works");
    let mut revision = stored.expect("it is there").revision;
    loop {
        let version = (revision.version + 1).to_string();
        let name = format!("by:{number}");
        let set = [(name.as_str(), version.as_str()), ("last", &number.to_string())];
        let mut step = Step::after(&session_id, revision, &set);
        step.0.entry = number.to_string().into();
        match committed(&store, step).await {
            Committed::Done => {
                let mut wins = wins.lock().unwrap_or_else(PoisonError::into_inner);
                wins.push((revision.version + 1, number));
                return;
            }
            Committed::Conflict(found) => {
                let found = found.expect("it is there");
                assert!(found > revision, "a commit conflicts only with a newer revision");
                revision = found;
            }
        }
    }
}
