//! A session after an operation, and the facts of the operation.

use super::{Actor, Context};
use crate::value::fact::{
    Contents, Fact, QueueChange, QueueEvent, SessionChange, SessionEvent, Stamp,
};
use crate::value::queue::QueueState;
use crate::value::roster::{Member, MemberId};
use crate::value::session::{PartySession, Status};

/// A copy of the session. Every recorded fact is folded into it at once, so that the next decision
/// of the same operation is based on it.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub(super) context: &'a Context,
    pub(super) session: PartySession,
    pub(super) facts: Vec<Fact>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(session: &PartySession, context: &'a Context) -> Self {
        Self { context, session: session.clone(), facts: Vec::new() }
    }

    pub(super) fn actor(&self) -> Option<&'a Actor> {
        self.context.actor.as_ref()
    }

    /// The acting member, if it is present on the socket of the operation.
    pub(super) fn actor_member(&self) -> Option<&Member> {
        let actor = self.actor()?;
        self.session.present(&actor.member, &actor.attachment)
    }

    pub(super) fn record(&mut self, fact: Fact) {
        self.session.fold(&fact).expect("a fact made of this session follows from it");
        self.facts.push(fact);
    }

    pub(super) fn queue_event(&mut self, change: QueueChange) {
        let next = self.session.queue.after(&change).expect("the change was validated");
        let stamp = self.stamp(&next);
        // Folding the event would compute the same state again.
        self.session.queue = next;
        self.facts.push(Fact::Queue(QueueEvent { stamp, change }));
    }

    pub(super) fn seed(&mut self, contents: Contents) {
        let sequence = self.session.queue.sequence + 1;
        let Contents { queue, current } = contents.clone();
        let stamp = self.stamp(&QueueState::new(sequence, queue, current));
        self.record(Fact::Seeded { stamp, contents: Some(contents) });
    }

    fn stamp(&self, next: &QueueState) -> Stamp {
        Stamp {
            sequence: next.sequence,
            state_hash: next.state_hash,
            order_hash: next.order_hash,
            client_id: self.actor().map(|actor| actor.member.clone()),
            correlation_id: self.context.correlation_id.clone(),
        }
    }

    pub(super) fn session_event(&mut self, change: SessionChange) {
        let sequence = self.session.roster_sequence + 1;
        self.record(Fact::Session(SessionEvent { sequence, change }));
    }

    pub(super) fn remove(&mut self, member: MemberId) {
        self.session_event(SessionChange::MemberLeft { member });
    }

    pub(super) fn elect(&mut self, member: MemberId) {
        let epoch = self.session.roster.epoch + 1;
        self.session_event(SessionChange::LeaderElected { member, epoch });
    }

    /// Elects a leader if there is none, and sets the status, after members joined or left.
    pub(super) fn update_leader_and_status(&mut self) {
        if self.session.roster.leader.is_none()
            && let Some(senior) = self.session.roster.most_senior()
        {
            self.elect(senior.id.clone());
        }
        let status = match self.session.roster.members.is_empty() {
            true => Status::Inactive,
            false => Status::Active,
        };
        if ![status, Status::Ended].contains(&self.session.status) {
            self.record(Fact::StatusChanged { status });
        }
    }
}
