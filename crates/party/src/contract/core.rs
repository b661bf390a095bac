//! The purpose of a store: nodes that decide operations independently and commit them by comparing
//! revisions end with the same session.

use std::collections::BTreeMap;

use heartline_runtime::{Random, TaskSet};
use rand::Rng;
use tokio::sync::broadcast;

use super::{ENTRIES_KEPT, StoreContract, fields_of, next_commit};
use crate::room::store::{Commit, Committed, Notice, PartyStore, Revision};
use crate::value::entry::Entry;
use crate::value::fields::{Changes, changes, from_fields, to_fields};
use crate::value::item::{Item, QueueItem};
use crate::value::limits::Limits;
use crate::value::operation::{Actor, Context, Edit, Join, Membership, Operation, apply};
use crate::value::roster::Attachment;
use crate::value::session::PartySession;
use crate::value::validate;

/// Nodes that work on one session, operations of each, and items that they share.
const NODES: u64 = 5;
const OPERATIONS: usize = 25;
const ITEMS: u32 = 12;

impl StoreContract {
    /// Proves that decisions of several nodes end in one session.
    pub async fn prove_core(&self) {
        let session_id = self.session();
        let follower = self.other();
        let mut notices = follower.watch.notices();
        follower.watch.watch(&session_id).await.expect("the store works");
        let mut nodes = TaskSet::new();
        for number in 0..NODES {
            let store = &self.stores[number as usize % self.stores.len()];
            let node = Node::new(store.clone(), &session_id, number);
            nodes.spawn(node.work());
        }
        let mut ended = Vec::new();
        while let Some(node) = nodes.join_next().await {
            ended.push(node.expect("a node finishes"));
        }
        let stored = self.first().sessions.load(&session_id).await.expect("the store works");
        let truth = from_fields(stored.expect("it is there").fields).expect("it is a session");
        assert!(truth.version >= NODES, "every node has joined at least");
        for mut node in ended {
            node.catch_up().await;
            assert_eq!(node.session, truth, "every node has the same session");
        }
        let listener = Node::new(follower.clone(), &session_id, NODES);
        let followed = listener.listen(&mut notices, truth.version).await;
        assert_eq!(followed, truth, "also a node that only followed the notices");
        follower.watch.unwatch(&session_id).await;
    }
}

/// A node with its own copy of the session.
struct Node {
    store: PartyStore,
    session: PartySession,
    actor: Actor,
    commits: u64,
}

impl Node {
    fn new(store: PartyStore, session_id: &str, number: u64) -> Self {
        let node = format!("node-{number}").parse().expect("a legal node id");
        let member = format!("member-{number}").parse().expect("a legal member id");
        let attachment = Attachment { node, socket: number };
        let account = number
            .is_multiple_of(2)
            .then(|| format!("account-{number}").parse().expect("a legal user id"));
        let actor = Actor { member, account, attachment };
        Self { store, session: PartySession::new(session_id), actor, commits: 0 }
    }

    async fn work(mut self) -> Self {
        self.perform(join()).await;
        for _ in 0..OPERATIONS {
            self.perform(any_operation()).await;
        }
        self
    }

    /// Decides and commits, and decides again after a conflict.
    async fn perform(&mut self, operation: Operation) {
        self.commits += 1;
        let commit_id = format!("{}-{}", self.actor.member, self.commits);
        loop {
            let now_ms = self.store.activity.now_ms().await.expect("the store works");
            let actor = Some(self.actor.clone());
            let limits = Limits::default();
            let context = Context { now_ms, actor, correlation_id: None, limits };
            // A rejected operation, or one without an effect, has nothing to commit.
            let Ok(applied) = apply(&self.session, &operation, &context) else { return };
            let Some(entry) = applied.entry(&commit_id) else { return };
            let is_new = self.session.version == 0;
            let changes = if is_new {
                Changes { set: to_fields(&applied.after), remove: Vec::new() }
            } else {
                changes(&self.session, &applied.after)
            };
            let commit = Commit {
                session_id: self.session.id.clone(),
                expected: (!is_new).then(|| Revision::of(&self.session)),
                revision: Revision::of(&applied.after),
                changes,
                entry: entry.to_log_json().into(),
                entries_kept: ENTRIES_KEPT,
                is_active: !applied.after.roster.members.is_empty(),
            };
            match self.store.sessions.commit(commit).await.expect("the store works") {
                Committed::Done => {
                    self.session = applied.after;
                    return self.compare().await;
                }
                Committed::Conflict(_) => self.catch_up().await,
            }
        }
    }

    /// Compares the copy with the stored session, unless another node has committed meanwhile.
    async fn compare(&self) {
        let stored = self.store.sessions.load(&self.session.id).await.expect("the store works");
        let stored = stored.expect("what was committed is there");
        if stored.revision == Revision::of(&self.session) {
            let copy: BTreeMap<_, _> = to_fields(&self.session).into_iter().collect();
            assert_eq!(fields_of(stored), copy, "the store holds what was decided");
        } else {
            let session = from_fields(stored.fields).expect("it is a session");
            assert!(session.version > self.session.version, "versions never fall");
        }
    }

    /// Updates the copy from the entries, or reloads it if these are incomplete.
    async fn catch_up(&mut self) {
        let after = Revision::of(&self.session);
        let entries =
            self.store.sessions.entries(&self.session.id, after).await.expect("the store works");
        let folded = entries.is_some_and(|entries| {
            let mut entries = entries.iter().map(|entry| read(entry));
            entries.all(|entry| self.session.fold_entry(&entry).is_ok())
        });
        if !folded {
            self.reload().await;
        }
    }

    async fn reload(&mut self) {
        let stored = self.store.sessions.load(&self.session.id).await.expect("the store works");
        let stored = stored.expect("what was committed is there");
        let revision = stored.revision;
        self.session = from_fields(stored.fields).expect("it is a session");
        assert_eq!(Revision::of(&self.session), revision, "the revision is that of the fields");
    }

    /// Follows the notices until the session is at a version.
    async fn listen(
        mut self,
        notices: &mut broadcast::Receiver<Notice>,
        version: u64,
    ) -> PartySession {
        while self.session.version < version {
            let (revision, entry) = next_commit(notices, &self.session.id.clone()).await;
            if revision.version <= self.session.version {
                continue;
            }
            assert_eq!(revision.version, self.session.version + 1, "no notice is missing");
            let entry = entry.map(|entry| read(&entry));
            if entry.is_none_or(|entry| self.session.fold_entry(&entry).is_err()) {
                self.reload().await;
            }
        }
        self.session
    }
}

fn read(entry: &[u8]) -> Entry {
    Entry::from_json(entry).expect("an entry is what was committed")
}

fn join() -> Operation {
    let join = Join { board_path: "/kilter/1/2/3".to_owned(), ..Join::default() };
    Operation::Membership(Membership::Join(Box::new(join)))
}

fn any_operation() -> Operation {
    let mut random = Random::system();
    let item = item(random.random_range(0..ITEMS));
    let uuid = item.uuid().to_owned();
    let (flag, index) = (random.random::<bool>(), random.random_range(0..8));
    let edit = match random.random_range(0..12) {
        0..=4 => Edit::Add { item, position: flag.then_some(index) },
        5 => Edit::Remove { uuid },
        6 => Edit::Reorder { uuid, old_index: 0, new_index: index },
        7 => Edit::SetCurrent { item: Some(item), should_add: flag },
        8 => Edit::Mirror { mirrored: flag },
        9 => Edit::SetQueue { queue: vec![item], current: None },
        10 => return Operation::Membership(Membership::Leave),
        _ => return join(),
    };
    Operation::Edit(edit)
}

fn item(number: u32) -> Item {
    let json = serde_json::json!({
        "uuid": format!("{number:08x}-0000-4000-8000-000000000000"),
        "climb": {
            "uuid": format!("climb{number}"),
            "setter_username": "setter",
            "name": format!("Climb {number}"),
            "description": "",
            "frames": "p1r12",
            "angle": 40,
            "ascensionist_count": 3,
            "difficulty": "6a/V3",
            "quality_average": "2.5",
            "stars": 2.5,
            "difficulty_error": "0.1",
            "litUpHoldsMap": {},
        },
    });
    let item: QueueItem = serde_json::from_value(json).expect("it has every field");
    validate::queue_item("item", item).expect("a legal item")
}
