//! Operations: decided on the copy, committed, and decided again if another node committed first.
//!
//! Edits that wait at the same time are committed together, in one call to the store.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::warn;

use super::{Completed, OPERATION_DEADLINE, OperationRequest, PendingOperation, Request, Room};
use crate::room::archivist::Urgency;
use crate::room::store::{Commit, Committed, PartyStoreError, Revision};
use crate::room::unavailable::Unavailable;
use crate::room::uuid::random_uuid;
use crate::value::entry::Entry;
use crate::value::error::PartyError;
use crate::value::fields::{Changes, changes};
use crate::value::operation::{Actor, Context, Decided, Membership, Operation, Outcome, decide};
use crate::value::roster::Member;
use crate::value::session::{Session, Status};

/// The pause before a failed commit is retried.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// The most edits of one commit, and their bytes: the entry must stay small enough to be part of
/// the notice to other nodes.
const GROUP_EDITS_MAX: usize = 32;
const GROUP_BYTES_MAX: usize = 24 * 1024;

impl Room {
    /// Stop 8 of the life of a party edit: gathered. Collects the edits that wait at this moment, up
    /// to the first other request.
    pub(super) fn gather(&mut self, first: PendingOperation) -> Vec<PendingOperation> {
        tracing::trace!(target: "heartline::life", party_stop = 8, "gathered");
        let mut bytes = edit_bytes(&first);
        let mut group = vec![first];
        while let Some(gathered) = bytes
            && gathered < GROUP_BYTES_MAX
            && group.len() < GROUP_EDITS_MAX
            && let Ok(request) = self.requests.try_recv()
        {
            match request {
                Request::Operate(wanted) if edit_bytes(&wanted).is_some() => {
                    bytes = edit_bytes(&wanted).map(|more| gathered + more);
                    group.push(*wanted);
                }
                // A commit of this room, or one that it has caught up with.
                Request::Committed { revision, .. } if revision <= Revision::of(&self.session) => {}
                other => {
                    self.held = Some(other);
                    break;
                }
            }
        }
        group
    }

    /// Performs operations, and sends each caller its result.
    pub(super) async fn operate_all(&mut self, group: Vec<PendingOperation>) {
        let since = group.iter().map(|wanted| wanted.since).min();
        let deadline = since.unwrap_or_else(|| self.parts.clock.now()) + OPERATION_DEADLINE;
        let (asked, answers): (Vec<OperationRequest>, Vec<_>) =
            group.into_iter().map(|wanted| (wanted.asked, wanted.answer)).unzip();
        let results = self.commit_all(&asked, deadline).await;
        for (index, answer) in answers.into_iter().enumerate() {
            let result = match &results {
                Ok(results) => results[index].clone(),
                Err(error) => Err(error.clone()),
            };
            // Sending fails if the caller gave up; it retries by itself.
            let _ = answer.send(result.map(|outcome| self.answer(outcome)));
        }
    }

    /// Performs one operation.
    pub(super) async fn operate(
        &mut self,
        asked: OperationRequest,
        deadline: Instant,
    ) -> Result<Outcome, PartyError> {
        let mut results = self.commit_all(&[asked], deadline).await?;
        results.pop().unwrap_or_else(|| Err(Unavailable::Contended.into()))
    }

    /// Decides and commits operations until the commit succeeds. An error concerns all of them.
    async fn commit_all(
        &mut self,
        asked: &[OperationRequest],
        deadline: Instant,
    ) -> Result<Vec<Result<Outcome, PartyError>>, PartyError> {
        asked.iter().for_each(|asked| self.detach(&asked.operation));
        let commit_id = random_uuid(self.parts.random);
        let mut is_certain = false;
        // The revision before the first attempt whose answer was lost.
        let mut unanswered = None;
        loop {
            if self.must_reattach && asked.iter().any(|asked| asked.actor.is_some()) {
                // Attached sockets are members, also if the session has just lost them.
                Box::pin(self.reattach_all()).await;
            }
            let decided = self.decide(asked);
            let Some(entry) = decided.entry(&commit_id) else {
                // Nothing to commit, or rejected. The copy may be behind the store, so the decision
                // counts only after catching up once.
                let may_be_old = self.parts.store.is_shared() && !decided.is_known;
                if may_be_old && !is_certain {
                    self.catch_up_before(deadline).await?;
                    is_certain = true;
                    continue;
                }
                // An earlier attempt whose answer was lost may have been applied.
                self.attach_all(asked, &decided.results);
                return Ok(decided.results);
            };
            let expected = Revision::of(&self.session);
            match self.commit(&decided.after, &entry).await {
                Ok(Committed::Done) => {
                    self.is_store_silent = false;
                    return Ok(self.done(asked, decided, &entry));
                }
                Ok(Committed::Conflict(_)) => self.parts.metrics.retried(),
                Err(error) => {
                    unanswered.get_or_insert(expected);
                    self.failed(error, deadline).await?;
                }
            }
            self.catch_up_before(deadline).await?;
            // The answer was lost, or the commit was delivered twice and conflicts with itself.
            if self.log.commit(&commit_id).is_some() {
                self.parts.archivist.note(&self.session, self.parts.now_ms(), Urgency::Now);
                self.attach_all(asked, &decided.results);
                return Ok(decided.results);
            }
            if unanswered.is_some_and(|since| !self.remembers_since(since)) {
                return Err(Unavailable::OutcomeUnknown.into());
            }
            if self.parts.clock.now() >= deadline {
                return Err(Unavailable::Contended.into());
            }
        }
    }

    /// Whether the log has every commit since a revision.
    fn remembers_since(&self, revision: Revision) -> bool {
        let next = revision.version + 1;
        let oldest = self.log.entries().next().map_or(self.session.version + 1, |it| it.version);
        self.session.incarnation == revision.incarnation && oldest <= next
    }

    fn decide(&self, asked: &[OperationRequest]) -> Decided {
        let (now_ms, limits) = (self.parts.now_ms(), self.parts.config.limits);
        let context = |asked: &OperationRequest| Context {
            now_ms,
            actor: asked.actor.clone(),
            correlation_id: asked.correlation_id.clone(),
            limits,
        };
        let wanted = asked.iter().map(|asked| (&asked.operation, context(asked)));
        // The value itself logs nothing.
        tracing::trace!(target: "heartline::life", party_stop = 9, "decided");
        decide(&self.session, &self.log, &wanted.collect::<Vec<_>>())
    }

    /// Stop 10 of the life of a party edit: committed, if nobody else was first.
    async fn commit(&self, after: &Session, entry: &Entry) -> Result<Committed, PartyStoreError> {
        tracing::trace!(target: "heartline::life", party_stop = 10, "committed");
        let json = entry.to_log_json();
        let expected = (self.session.version > 0).then(|| Revision::of(&self.session));
        let commit = Commit {
            session_id: self.session.id.clone(),
            expected,
            revision: Revision::of(after),
            changes: match expected {
                Some(_) => changes(&self.session, after),
                None => Changes::all(after),
            },
            entries_kept: self.log.kept_with(entry, json.len()),
            entry: json.into(),
            is_active: after.status == Status::Active,
        };
        self.parts.store.sessions.commit(commit).await
    }

    fn done(
        &mut self,
        asked: &[OperationRequest],
        decided: Decided,
        entry: &Entry,
    ) -> Vec<Result<Outcome, PartyError>> {
        let Decided { results, after, .. } = decided;
        for (asked, _) in asked.iter().zip(&results).filter(|(_, result)| result.is_ok()) {
            self.parts.metrics.committed(&asked.operation);
        }
        let urgency = if self.session.exists() { Urgency::Soon } else { Urgency::Now };
        self.take(Arc::new(after), entry);
        self.attach_all(asked, &results);
        self.parts.archivist.note(&self.session, self.parts.now_ms(), urgency);
        results
    }

    pub(super) fn answer(&self, outcome: Outcome) -> Completed {
        Completed { outcome, session: Arc::clone(&self.session) }
    }

    fn attach_all(&mut self, asked: &[OperationRequest], results: &[Result<Outcome, PartyError>]) {
        for (asked, result) in asked.iter().zip(results) {
            if let Ok(outcome) = result {
                self.attach(&asked.operation, asked.actor.as_ref(), outcome);
            }
        }
    }

    /// Records which members are attached to this node.
    fn attach(&mut self, operation: &Operation, actor: Option<&Actor>, outcome: &Outcome) {
        match (operation, outcome) {
            (Operation::Membership(Membership::Join(_)), Outcome::Joined { member, .. }) => {
                if let Some(member) = self.session.roster.get(member) {
                    self.attached.insert(member.id.clone(), member.clone());
                }
            }
            (Operation::Membership(Membership::Leave), _) => {
                let is_it = |actor: &Actor, known: &Member| actor.attachment == known.attachment;
                self.attached.retain(|_, known| !actor.is_some_and(|actor| is_it(actor, known)));
                self.end_streams_of_former_members();
            }
            _ => {}
        }
    }

    /// Detaches closed sockets at once, so that the room does not add them again if storing their
    /// departure fails.
    fn detach(&mut self, operation: &Operation) {
        match operation {
            Operation::Membership(Membership::Depart { attachment }) => {
                self.attached.retain(|_, known| known.attachment != *attachment);
            }
            Operation::Membership(Membership::NodeLost { node }) => {
                self.attached.retain(|_, known| known.attachment.node != *node);
            }
            _ => {}
        }
    }

    pub(super) async fn failed(
        &mut self,
        error: PartyStoreError,
        deadline: Instant,
    ) -> Result<(), PartyError> {
        let was_silent = std::mem::replace(&mut self.is_store_silent, true);
        if was_silent || self.parts.clock.now() + RETRY_AFTER >= deadline {
            warn!(%error, session_id = %self.session.id, "party store call failed");
            return Err(Unavailable::Store(error).into());
        }
        sleep(RETRY_AFTER).await;
        Ok(())
    }
}

/// The bytes of an edit; none for other operations, which are committed one at a time.
fn edit_bytes(wanted: &PendingOperation) -> Option<usize> {
    let Operation::Edit(edit) = &wanted.asked.operation else { return None };
    Some(edit.size_bytes())
}
