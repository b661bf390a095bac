//! The promises of every [`PartyArchive`]: no state goes back, and every session is found again.

use heartline_protocol::UserId;

use super::Names;
use crate::room::archive::{Archived, Discovered, PartyArchive};
use crate::room::store::{Revision, Stored};
use crate::value::session::{Details, PartySession, Status};

/// More sessions than any run creates.
const ALL: usize = 100_000;

/// An archive, and unused names.
#[derive(Debug)]
pub struct ArchiveContract<'engine> {
    pub(super) archive: &'engine dyn PartyArchive,
    names: Names,
}

impl<'engine> ArchiveContract<'engine> {
    /// A suite for this archive.
    pub fn new(archive: &'engine dyn PartyArchive) -> Self {
        Self { archive, names: Names::new() }
    }

    /// Runs the whole suite.
    pub async fn run(&self) {
        self.an_archived_session_is_read_back_whole().await;
        self.an_older_state_does_not_overwrite_a_newer_one().await;
        self.participants_are_added_and_never_removed().await;
        self.a_large_batch_is_written_at_once().await;
        self.sessions_of_an_account_are_found().await;
        self.idle_sessions_are_found().await;
        self.prove_nearby().await;
    }

    /// A new session in its archived form.
    pub(super) fn session(&self, version: u64, details: Details) -> Archived {
        let mut session = PartySession::new(self.names.next("session"));
        (session.version, session.details) = (version, details);
        Archived::of(&session, 1_000)
    }

    fn account(&self) -> UserId {
        self.names.next("account").parse().expect("a legal user id")
    }

    pub(super) async fn put(&self, sessions: &[&Archived]) {
        let sessions = sessions.iter().map(|session| (*session).clone()).collect();
        self.archive.put(sessions).await.expect("the archive works");
    }

    /// An archived session, with its participants in order.
    async fn get(&self, session_id: &str) -> Option<Archived> {
        let mut found = self.archive.get(session_id).await.expect("the archive works");
        if let Some(found) = &mut found {
            found.participants.sort_unstable();
        }
        found
    }

    async fn an_archived_session_is_read_back_whole(&self) {
        assert_eq!(self.get(&self.names.next("session")).await, None);
        self.put(&[]).await;
        let mut one = self.session(7, everything(self.account()));
        one.stored.fields.push(("item:\u{1f9d7}".to_owned(), (0..=u8::MAX).collect()));
        one.stored.fields.push(("empty".to_owned(), Vec::new()));
        one.stored.revision.incarnation = 2;
        (one.status, one.members, one.active_at_ms) = (Status::Active, 3, 1_700_000_000_123);
        one.participants = vec![self.account(), self.account()];
        let two = self.session(1, Details::default());
        self.put(&[&one, &two]).await;
        assert_eq!(self.get(&two.session_id).await, Some(two));
        assert_eq!(self.get(&one.session_id).await, Some(one));
    }

    async fn an_older_state_does_not_overwrite_a_newer_one(&self) {
        let first = self.session(5, Details::default());
        let at = |incarnation, version, name: &str| Archived {
            stored: Stored {
                revision: Revision { incarnation, version },
                fields: vec![("head".to_owned(), name.as_bytes().to_vec())],
            },
            active_at_ms: 1_000 + version,
            details: Details { name: Some(name.to_owned()), ..Details::default() },
            ..first.clone()
        };
        self.put(&[&first]).await;
        self.put(&[&at(0, 4, "older")]).await;
        self.put(&[&at(0, 5, "the same")]).await;
        assert_eq!(self.get(&first.session_id).await, Some(first.clone()));
        let newer = at(0, 9, "newer");
        self.put(&[&newer]).await;
        assert_eq!(self.get(&first.session_id).await, Some(newer));
        let restored = at(1, 2, "restored");
        self.put(&[&restored]).await;
        self.put(&[&at(0, 100, "before the loss")]).await;
        assert_eq!(self.get(&first.session_id).await, Some(restored));
        let [one, two, three] = [3, 5, 4].map(|version| at(1, version, "of one batch"));
        self.put(&[&one, &two, &three]).await;
        assert_eq!(self.get(&first.session_id).await, Some(two), "the newest of a batch");
    }

    async fn participants_are_added_and_never_removed(&self) {
        let mut session = self.session(1, Details::default());
        let mut accounts = [self.account(), self.account(), self.account()];
        accounts.sort_unstable();
        let [ana, bo, cy] = accounts.clone();
        session.participants = vec![bo.clone(), bo.clone()];
        self.put(&[&session]).await;
        let found = self.get(&session.session_id).await.expect("it is there");
        assert_eq!(found.participants, std::slice::from_ref(&bo), "each once");
        session.stored.revision.version = 2;
        session.participants = vec![ana];
        self.put(&[&session]).await;
        let mut late = session.clone();
        late.stored.revision.version = 1;
        late.participants = vec![cy, bo];
        self.put(&[&late]).await;
        let found = self.get(&session.session_id).await.expect("it is there");
        assert_eq!(found.participants, accounts, "participants are never removed");
        assert_eq!(found.stored.revision.version, 2);
    }

    async fn a_large_batch_is_written_at_once(&self) {
        let large: Vec<_> = (0..30_u8)
            .map(|number| {
                let mut session = self.session(1, Details::default());
                session.stored.fields.push(("item:large".to_owned(), vec![number; 1 << 20]));
                session
            })
            .collect();
        self.put(&large.iter().collect::<Vec<_>>()).await;
        for session in large {
            assert_eq!(self.get(&session.session_id).await, Some(session));
        }
    }

    async fn of_account(&self, account: &UserId, limit: usize) -> Vec<Discovered> {
        self.archive.of_account(account, limit).await.expect("the archive works")
    }

    async fn sessions_of_an_account_are_found(&self) {
        let (ana, bo) = (self.account(), self.account());
        assert_eq!(self.of_account(&ana, ALL).await, []);
        let active_at = |mut session: Archived, active_at_ms| {
            session.active_at_ms = active_at_ms;
            session
        };
        let by_ana = Details { creator: Some(ana.clone()), ..Details::default() };
        let created = active_at(self.session(1, by_ana.clone()), 2_000);
        let mut joined = active_at(self.session(1, everything(bo.clone())), 3_000);
        (joined.members, joined.status) = (2, Status::Active);
        joined.participants = vec![ana.clone(), bo.clone()];
        let mut both = active_at(self.session(1, by_ana), 1_000);
        both.participants = vec![ana.clone()];
        let mut ended = both.clone();
        (ended.session_id, ended.status) = (self.names.next("session"), Status::Ended);
        self.put(&[&created, &joined, &both, &ended]).await;
        let expected = [&joined, &created, &both].map(|session| discovered(session, None));
        assert_eq!(self.of_account(&ana, ALL).await, expected, "the last active first, each once");
        assert_eq!(self.of_account(&ana, 2).await, expected[..2]);
        assert_eq!(self.of_account(&bo, ALL).await, expected[..1]);
        joined.stored.revision.version = 2;
        joined.participants.clear();
        (joined.status, joined.active_at_ms) = (Status::Inactive, 500);
        self.put(&[&joined]).await;
        let expected = [&created, &both, &joined].map(|session| discovered(session, None));
        assert_eq!(
            self.of_account(&ana, ALL).await,
            expected,
            "a member that has left stays a participant"
        );
    }

    async fn idle_sessions_are_found(&self) {
        let idle_since = |active_at_ms| {
            let mut session = self.session(1, Details::default());
            session.active_at_ms = active_at_ms;
            session
        };
        // Long ago, so that the sessions of other runs come after these.
        let [old, older, recent, busy] = [20, 10, 900, 10].map(idle_since);
        let busy = Archived { members: 1, status: Status::Active, ..busy };
        let ended = Archived { status: Status::Ended, ..idle_since(10) };
        let mut permanent = idle_since(10);
        permanent.details.is_permanent = true;
        self.put(&[&old, &older, &recent, &busy, &ended, &permanent]).await;
        let ours = [&old, &older, &recent, &busy, &ended, &permanent];
        let idle = async |before_ms, limit| {
            let mut found = self.archive.idle(before_ms, limit).await.expect("the archive works");
            found.retain(|id| ours.iter().any(|session| session.session_id == *id));
            found
        };
        let expected = [older.session_id.clone(), old.session_id.clone()];
        assert_eq!(idle(900, ALL).await, expected, "the oldest first");
        assert_eq!(idle(20, ALL).await, expected[..1]);
        assert_eq!(idle(900, 0).await, [""; 0]);
        assert_eq!(self.archive.idle(900, 1).await.expect("the archive works").len(), 1);
        let mut again = Archived { members: 1, status: Status::Active, ..older.clone() };
        again.stored.revision.version = 2;
        self.put(&[&again]).await;
        assert_eq!(idle(900, ALL).await, expected[1..]);
    }
}

/// The search result for an archived session.
pub(super) fn discovered(session: &Archived, distance_metres: Option<f64>) -> Discovered {
    Discovered {
        session_id: session.session_id.clone(),
        status: session.status,
        details: session.details.clone(),
        members: session.members,
        distance_metres,
    }
}

/// Details with every field set.
fn everything(creator: UserId) -> Details {
    Details {
        name: Some("Ünder \0 the roof".to_owned()),
        board_path: Some("/kilter/1/2/3".to_owned()),
        creator: Some(creator),
        created_at_ms: Some(1),
        started_at_ms: Some(2),
        ended_at_ms: Some(3),
        discoverable: true,
        latitude: Some(-12.345_678_9),
        longitude: Some(170.000_000_1),
        goal: Some("'; DROP TABLE".to_owned()),
        color: Some("#ff0000".to_owned()),
        is_permanent: true,
        is_public: true,
        seeded: true,
    }
}
