//! Random walks: after any operations in any order, all copies agree and all rules hold.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::value::log::{LogLimits, Replay};
use crate::value::operation::NewSession;
use crate::value::session::Status;
use crate::{Entry, Head, QueueState, changes, from_fields, to_fields};

const QUEUE_ITEMS_MAX: usize = 6;
const NODES: [&str; 2] = ["node-1", "node-2"];

/// A random operation of a client. Numbers select its arguments.
#[derive(Debug, Clone)]
struct Step {
    kind: u32,
    who: usize,
    one: u32,
    other: u32,
    flag: bool,
    named: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![12 => 0..8_u32, 6 => 8..15_u32, 1 => 15..19_u32];
    (kind, 0..4_usize, 0..9_u32, 0..9_u32, any::<bool>(), prop::bool::weighted(0.2)).prop_map(
        |(kind, who, one, other, flag, named)| Step { kind, who, one, other, flag, named },
    )
}

/// Four clients, each with a connection and a resume token, and all copies that must agree.
struct Walk {
    party: Party,
    clients: Vec<Actor>,
    tokens: Vec<Option<TokenDigest>>,
    made: u64,
    replica: PartySession,
    fields: BTreeMap<String, Vec<u8>>,
    states: BTreeMap<u64, QueueState>,
    epochs: BTreeSet<u64>,
    records: Vec<crate::Member>,
}

impl Walk {
    fn new() -> Self {
        let mut party = Party::new();
        party.limits.queue_items_max = QUEUE_ITEMS_MAX;
        party.limits.resume_grace_ms = 20;
        party.log =
            EventLog::new(LogLimits { events_max: 12, entries_max: 30, bytes_max: 100_000 });
        let replica = party.session.clone();
        Self {
            fields: to_fields(&replica).into_iter().collect(),
            states: BTreeMap::from([(0, replica.queue.clone())]),
            party,
            replica,
            clients: ["ana", "bo", "CY", "DEE"].map(actor).to_vec(),
            tokens: vec![None; 4],
            made: 0,
            epochs: BTreeSet::default(),
            records: Vec::new(),
        }
    }

    fn operation(&mut self, step: &Step) -> Operation {
        let (one, other, flag) = (step.one, step.other, step.flag);
        let (item, named) = (item(one), uuid(one));
        let edit = match step.kind {
            0 | 1 => Edit::Add { item, position: flag.then_some(other as i32 - 1) },
            2 => Edit::Remove { uuid: named },
            3 => {
                let (old_index, new_index) = (one as i32, other as i32 - 1);
                Edit::Reorder { uuid: named, old_index, new_index }
            }
            4 => Edit::SetCurrent { item: (other > 0).then_some(item), should_add: flag },
            5 => Edit::Mirror { mirrored: flag },
            6 => Edit::Replace { uuid: uuid(other), item: other_item(one, "replaced") },
            7 => {
                let queue = (one..one + other).map(|number| super::item(number % 7)).collect();
                Edit::SetQueue { queue, current: flag.then_some(item) }
            }
            8..15 => return Operation::Membership(self.membership(step)),
            _ => return Operation::Lifecycle(lifecycle(step)),
        };
        Operation::Edit(edit)
    }

    fn membership(&mut self, step: &Step) -> Membership {
        let client = self.clients[step.who].clone();
        match step.kind {
            8 | 9 => Membership::Join(Box::new(self.join(step))),
            10 if step.flag => Membership::Leave,
            10 | 11 => Membership::Depart { attachment: client.attachment },
            12 if step.flag => Membership::NodeLost { node: NODES[step.who % 2].parse().unwrap() },
            12 => Membership::Expire,
            13 if !self.records.is_empty() => {
                let index = (step.one * 9 + step.other) as usize % self.records.len();
                Membership::Reattach { member: self.records[index].clone() }
            }
            _ => Membership::UpdateUsername {
                username: "x".repeat(step.one as usize * 8),
                avatar_url: step.flag.then(|| "/picture.png".to_owned()),
            },
        }
    }

    fn join(&mut self, step: &Step) -> Join {
        self.made += 1;
        let seed = if step.other > 5 { vec![item(step.one)] } else { Vec::new() };
        Join {
            board_path: if step.one == 8 { "//bad" } else { "/kilter" }.to_owned(),
            initial_queue: seed,
            initial_current: (step.other == 8).then(|| item(step.one)),
            resume_token: step.flag.then(|| TokenDigest(format!("token-{}", self.made))),
            resumed_token: self.tokens[step.who].clone(),
            ..Join::default()
        }
    }

    /// The client connects with a new socket; the departure of the old one may come later or never.
    fn reconnect(&mut self, who: usize) {
        self.made += 1;
        let account = self.clients[who].account.clone();
        let attachment =
            Attachment { node: NODES[self.made as usize % 2].parse().unwrap(), socket: self.made };
        let member = member(&format!("connection-{}", self.made));
        self.clients[who] = Actor { member, account, attachment };
    }

    fn step(&mut self, step: &Step) {
        if step.kind == 9 && step.flag {
            self.reconnect(step.who);
        }
        self.party.now_ms += u64::from(step.one);
        self.party.correlation_id = step.named.then(|| format!("name-{}", self.made + 1));
        let operation = self.operation(step);
        let before = self.party.session.clone();
        let by = Some(self.clients[step.who].clone());
        match self.party.perform(by, &operation) {
            Err(_) => assert_eq!(self.party.session, before, "a refusal changes nothing"),
            Ok(applied) => {
                self.follow(&before, &applied);
                self.update_client(step.who, &operation, &applied.outcome);
            }
        }
        self.check(&before);
    }

    fn update_client(&mut self, who: usize, operation: &Operation, outcome: &Outcome) {
        let Operation::Membership(Membership::Join(join)) = operation else { return };
        let Outcome::Joined { member, .. } = outcome else { panic!("joined is joined") };
        self.clients[who].member = member.clone();
        self.tokens[who] = join.resume_token.clone().or(self.tokens[who].take());
        self.records.push(self.party.session.roster.get(member).unwrap().clone());
    }

    /// Updates every copy after a commit, each in its own way.
    fn follow(&mut self, before: &PartySession, applied: &Applied) {
        let after = &self.party.session;
        let Some(entry) = applied.entry("commit") else {
            assert_eq!(after, before, "no commit, no change");
            return;
        };
        let json = serde_json::to_vec(&entry).unwrap();
        self.replica.fold_entry(&Entry::from_json(&json).unwrap()).unwrap();
        assert_eq!(self.replica, *after, "folding the facts gives the same session");

        let written = changes(before, after);
        self.fields.extend(written.set);
        written.remove.iter().for_each(|name| assert!(self.fields.remove(name).is_some()));
        assert_eq!(self.fields, to_fields(after).into_iter().collect(), "the changes suffice");
        assert_eq!(from_fields(self.fields.clone()).unwrap(), *after);
        assert_eq!(Head::from_field(&self.fields["head"]).unwrap(), Head::of(after));

        let (mut sequence, mut roster_sequence) = (before.queue.sequence, before.roster_sequence);
        for fact in &applied.facts {
            match fact {
                Fact::Queue(_) => sequence += 1,
                Fact::Seeded { .. } => {
                    assert!(!before.details.seeded, "only one seed");
                    sequence += 1;
                }
                Fact::Restored { sequence: restored, roster_sequence: roster, .. } => {
                    (sequence, roster_sequence) = (*restored, *roster);
                }
                Fact::Session(event) => {
                    roster_sequence += 1;
                    if let SessionChange::LeaderElected { epoch, .. } = event.change {
                        assert!(self.epochs.insert(epoch), "an epoch has one leader");
                    }
                }
                _ => {}
            }
        }
        assert_eq!((sequence, roster_sequence), (after.queue.sequence, after.roster_sequence));
        self.states.insert(sequence, after.queue.clone());
    }

    fn check(&self, before: &PartySession) {
        let session = &self.party.session;
        let PartySession { queue, roster, .. } = session;
        let anew = QueueState::new(queue.sequence, queue.queue.clone(), queue.current.clone());
        assert_eq!(*queue, anew, "the hashes are those of the state");
        let uuids: BTreeSet<&str> = queue.queue.iter().map(Item::uuid).collect();
        assert_eq!(uuids.len(), queue.queue.len(), "no uuid twice");
        assert!(queue.queue.len() <= QUEUE_ITEMS_MAX);
        assert_eq!(roster.leader.is_none(), roster.members.is_empty(), "one leader, if any");
        assert!(roster.leader.iter().all(|leader| roster.members.contains_key(leader)));
        assert!(roster.epoch >= before.roster.epoch);
        assert_eq!(session.status == Status::Active, !roster.members.is_empty());
        if before.status == Status::Ended {
            assert_eq!(session, before, "an ended session does not change");
        }
        assert!(queue.sequence >= before.queue.sequence);
    }

    /// A replay from any former state leads to the present one.
    fn check_replays(&self) {
        let present = &self.party.session.queue;
        for (since, state) in &self.states {
            let Replay::Events(events) = self.party.log.replay(*since, present.sequence) else {
                continue;
            };
            let mut copy = self.party.session.clone();
            copy.queue = state.clone();
            for event in events {
                copy.fold(&Fact::Queue(event)).unwrap();
            }
            assert_eq!(copy.queue, *present);
        }
        let newest = self.party.log.replay(present.sequence, present.sequence);
        assert_eq!(newest, Replay::Events(Vec::new()));
    }
}

fn lifecycle(step: &Step) -> Lifecycle {
    match step.kind {
        15 => Lifecycle::Create(Box::new(NewSession {
            board_path: "/created".to_owned(),
            is_permanent: step.flag,
            ..NewSession::default()
        })),
        16 => Lifecycle::End { expected_epoch: step.flag.then_some(u64::from(step.one)) },
        17 => Lifecycle::EndIdle,
        _ => Lifecycle::Restore { seen: step.flag.then_some((3, u64::from(step.other))) },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_copy_agrees_and_every_rule_holds(steps in prop::collection::vec(step(), 1..80)) {
        let mut walk = Walk::new();
        // The session begins with a member, because most operations need one.
        walk.step(&Step { kind: 8, who: 0, one: 0, other: 0, flag: true, named: false });
        for step in &steps {
            walk.step(step);
        }
        walk.check_replays();
    }

    #[test]
    fn any_steps_keep_the_rules_in_a_session_without_members(
        steps in prop::collection::vec(step(), 1..20),
    ) {
        let mut walk = Walk::new();
        steps.iter().for_each(|step| walk.step(step));
        walk.check_replays();
    }
}
