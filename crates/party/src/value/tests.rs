//! The rules of a session, one test each, and random walks over all of them.

mod edits;
mod fields;
mod group;
mod lifecycle;
mod log;
mod membership;
mod resume;
mod walks;

use heartline_protocol::ErrorCode;

use crate::value::item::Item;
use crate::value::limits::Limits;
use crate::value::log::EventLog;
use crate::value::operation::{
    Actor, Applied, Context, Edit, Join, Lifecycle, Membership, Operation, Outcome, apply,
};
use crate::value::roster::{Attachment, MemberId, TokenDigest};
use crate::value::session::PartySession;
use crate::value::validate;
use crate::{Fact, PartyError, QueueChange, QueueItem, SessionChange};

fn uuid(number: u32) -> String {
    format!("{number:08x}-0000-4000-8000-000000000000")
}

fn queue_item(number: u32) -> QueueItem {
    serde_json::from_value(serde_json::json!({
        "uuid": uuid(number),
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
            "litUpHoldsMap": { "12": { "state": "HAND" } },
        },
        "addedBy": null,
    }))
    .unwrap()
}

fn item(number: u32) -> Item {
    validate::queue_item("item", queue_item(number)).unwrap()
}

/// Another item of the same uuid.
fn other_item(number: u32, name: &str) -> Item {
    let mut item = queue_item(number);
    item.climb.name = name.to_owned();
    validate::queue_item("item", item).unwrap()
}

pub(crate) fn member(name: &str) -> MemberId {
    name.parse().unwrap()
}

fn token(text: &str) -> Option<TokenDigest> {
    Some(TokenDigest(text.to_owned()))
}

/// A connection, signed in if its name is in capitals, on its own socket of the first node.
pub(crate) fn actor(name: &str) -> Actor {
    let account = name.chars().all(char::is_uppercase).then(|| name.parse().unwrap());
    let socket = name.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(257) + u64::from(byte));
    let attachment = Attachment { node: "node-1".parse().unwrap(), socket };
    Actor { member: member(name), account, attachment }
}

fn on_node(name: &str, node: &str, socket: u64) -> Actor {
    Actor { attachment: Attachment { node: node.parse().unwrap(), socket }, ..actor(name) }
}

fn plain_join() -> Join {
    Join { board_path: "/kilter/1/2/3".to_owned(), ..Join::default() }
}

/// A session with its log and its time, as a store would hold them.
pub(crate) struct Party {
    pub(crate) session: PartySession,
    log: EventLog,
    now_ms: u64,
    correlation_id: Option<String>,
    limits: Limits,
}

impl Party {
    fn new() -> Self {
        Self {
            session: PartySession::new("party-1"),
            log: EventLog::default(),
            now_ms: 1_000,
            correlation_id: None,
            limits: Limits::default(),
        }
    }

    /// A party with these members, the first of whom leads.
    pub(crate) fn of(names: &[&str]) -> Self {
        let mut party = Self::new();
        for name in names {
            party.join(name);
        }
        party
    }

    fn apply(&self, by: Option<Actor>, operation: &Operation) -> Result<Applied, PartyError> {
        let (now_ms, limits) = (self.now_ms, self.limits);
        let context =
            Context { now_ms, actor: by, correlation_id: self.correlation_id.clone(), limits };
        apply(&self.session, operation, &context)
    }

    /// Decides, commits and folds.
    fn perform(&mut self, by: Option<Actor>, operation: &Operation) -> Result<Applied, PartyError> {
        self.now_ms += 1;
        let applied = self.apply(by, operation)?;
        if let Some(entry) = applied.entry(format!("commit-{}", self.now_ms)) {
            self.session.fold_entry(&entry).unwrap();
            let expected = self.log.kept_with(&entry, entry.to_log_json().len());
            self.log.append(&entry);
            assert_eq!(self.log.entries().count(), expected, "the number that a store keeps");
        }
        assert_eq!(self.session, applied.after);
        Ok(applied)
    }

    pub(crate) fn edit(&mut self, by: &str, edit: Edit) -> Result<Applied, PartyError> {
        self.perform(Some(actor(by)), &Operation::Edit(edit))
    }

    pub(crate) fn add(&mut self, by: &str, number: u32) -> Applied {
        self.edit(by, Edit::Add { item: item(number), position: None }).unwrap()
    }

    fn member(&mut self, by: Option<Actor>, change: Membership) -> Result<Applied, PartyError> {
        self.perform(by, &Operation::Membership(change))
    }

    fn join_as(&mut self, by: Actor, join: Join) -> Result<Applied, PartyError> {
        self.member(Some(by), Membership::Join(Box::new(join)))
    }

    pub(crate) fn join(&mut self, name: &str) -> Applied {
        self.join_as(actor(name), plain_join()).unwrap()
    }

    pub(crate) fn leave(&mut self, name: &str) -> Applied {
        self.member(Some(actor(name)), Membership::Leave).unwrap()
    }

    fn depart(&mut self, by: &Actor) -> Applied {
        let attachment = by.attachment.clone();
        self.member(None, Membership::Depart { attachment }).unwrap()
    }

    fn live(&mut self, by: &str, step: Lifecycle) -> Result<Applied, PartyError> {
        self.perform(Some(actor(by)), &Operation::Lifecycle(step))
    }

    fn leader(&self) -> Option<&str> {
        self.session.roster.leader.as_ref().map(MemberId::as_str)
    }

    fn uuids(&self) -> Vec<&str> {
        self.session.queue.queue.iter().map(Item::uuid).collect()
    }

    fn current(&self) -> Option<&str> {
        self.session.queue.current.as_ref().map(Item::uuid)
    }
}

/// The names of the events in the order in which subscribers receive them.
fn events(applied: &Applied) -> Vec<&'static str> {
    applied.facts.iter().filter_map(event_name).collect()
}

fn event_name(fact: &Fact) -> Option<&'static str> {
    match fact {
        Fact::Queue(event) => Some(match event.change {
            QueueChange::QueueItemAdded { .. } => "QueueItemAdded",
            QueueChange::QueueItemRemoved { .. } => "QueueItemRemoved",
            QueueChange::QueueReordered { .. } => "QueueReordered",
            QueueChange::CurrentClimbChanged { .. } => "CurrentClimbChanged",
            QueueChange::ClimbMirrored { .. } => "ClimbMirrored",
            QueueChange::QueueReplaced { .. } => "FullSync",
        }),
        Fact::Session(event) => Some(match event.change {
            SessionChange::MemberJoined { .. } | SessionChange::MemberUpdated { .. } => {
                "UserJoined"
            }
            SessionChange::MemberLeft { .. } => "UserLeft",
            SessionChange::LeaderElected { .. } => "LeaderChanged",
            SessionChange::Ended { .. } => "SessionEnded",
        }),
        _ => None,
    }
}

fn refusal(result: Result<Applied, PartyError>) -> (ErrorCode, String) {
    let error = result.unwrap_err();
    (error.code, error.message)
}
