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
use crate::value::session::{PartySession, Status};

/// The pause before a failed commit is retried.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// The most edits of one commit, and their bytes: the entry must stay small enough to be part of
/// the notice to other nodes.
const GROUP_EDITS_MAX: usize = 32;
const GROUP_BYTES_MAX: usize = 24 * 1024;

impl Room {
    /// Stop 8 of the life of a party edit: gathered. Collects the edits that wait at this moment,
    /// up to the first other request.
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
                Request::Operate(pending) if edit_bytes(&pending).is_some() => {
                    bytes = edit_bytes(&pending).map(|more| gathered + more);
                    group.push(*pending);
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
        let since = group.iter().map(|pending| pending.since).min();
        let deadline = since.unwrap_or_else(|| self.parts.clock.now()) + OPERATION_DEADLINE;
        let (requests, replies): (Vec<OperationRequest>, Vec<_>) =
            group.into_iter().map(|pending| (pending.request, pending.reply)).unzip();
        let results = self.commit_all(&requests, deadline).await;
        for (index, reply) in replies.into_iter().enumerate() {
            let result = match &results {
                Ok(results) => results[index].clone(),
                Err(error) => Err(error.clone()),
            };
            // Sending fails if the caller gave up; it retries by itself.
            let _ = reply.send(result.map(|outcome| self.completed(outcome)));
        }
    }

    /// Performs one operation.
    pub(super) async fn operate(
        &mut self,
        request: OperationRequest,
        deadline: Instant,
    ) -> Result<Outcome, PartyError> {
        let mut results = self.commit_all(&[request], deadline).await?;
        results.pop().unwrap_or_else(|| Err(Unavailable::Contended.into()))
    }

    /// Decides and commits operations until the commit succeeds. An error concerns all of them.
    async fn commit_all(
        &mut self,
        requests: &[OperationRequest],
        deadline: Instant,
    ) -> Result<Vec<Result<Outcome, PartyError>>, PartyError> {
        requests.iter().for_each(|request| self.detach(&request.operation));
        let commit_id = random_uuid(self.parts.random);
        let mut is_certain = false;
        // The revision before the first attempt whose result was lost.
        let mut uncertain_since = None;
        loop {
            if self.must_reattach && requests.iter().any(|request| request.actor.is_some()) {
                // Attached sockets are members, also if the session has just lost them.
                Box::pin(self.reattach_all()).await;
            }
            let decided = self.decide(requests);
            let Some(entry) = decided.entry(&commit_id) else {
                // Nothing to commit, or rejected. The copy may be behind the store, so the decision
                // counts only after catching up once.
                let may_be_old = self.parts.store.is_shared() && !decided.is_known;
                if may_be_old && !is_certain {
                    self.catch_up_before(deadline).await?;
                    is_certain = true;
                    continue;
                }
                // An earlier attempt whose result was lost may have been applied.
                self.attach_all(requests, &decided.results);
                return Ok(decided.results);
            };
            let expected = Revision::of(&self.session);
            match self.commit(&decided.after, &entry).await {
                Ok(Committed::Done) => {
                    self.is_store_failing = false;
                    return Ok(self.done(requests, decided, &entry));
                }
                Ok(Committed::Conflict(_)) => self.parts.metrics.retried(),
                Err(error) => {
                    uncertain_since.get_or_insert(expected);
                    self.failed(error, deadline).await?;
                }
            }
            self.catch_up_before(deadline).await?;
            // The result was lost, or the commit was delivered twice and conflicts with itself.
            if self.log.commit(&commit_id).is_some() {
                self.parts.archivist.enqueue(&self.session, self.parts.now_ms(), Urgency::Now);
                self.attach_all(requests, &decided.results);
                return Ok(decided.results);
            }
            if uncertain_since.is_some_and(|since| !self.has_log_since(since)) {
                return Err(Unavailable::OutcomeUnknown.into());
            }
            if self.parts.clock.now() >= deadline {
                return Err(Unavailable::Contended.into());
            }
        }
    }

    /// Whether the log has every commit since a revision.
    fn has_log_since(&self, revision: Revision) -> bool {
        let next = revision.version + 1;
        let oldest = self.log.entries().next().map_or(self.session.version + 1, |it| it.version);
        self.session.incarnation == revision.incarnation && oldest <= next
    }

    fn decide(&self, requests: &[OperationRequest]) -> Decided {
        let (now_ms, limits) = (self.parts.now_ms(), self.parts.config.limits);
        let context = |request: &OperationRequest| Context {
            now_ms,
            actor: request.actor.clone(),
            correlation_id: request.correlation_id.clone(),
            limits,
        };
        let operations = requests.iter().map(|request| (&request.operation, context(request)));
        // The value itself logs nothing.
        tracing::trace!(target: "heartline::life", party_stop = 9, "decided");
        decide(&self.session, &self.log, &operations.collect::<Vec<_>>())
    }

    /// Stop 10 of the life of a party edit: committed, if no other node committed first.
    async fn commit(
        &self,
        after: &PartySession,
        entry: &Entry,
    ) -> Result<Committed, PartyStoreError> {
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
        requests: &[OperationRequest],
        decided: Decided,
        entry: &Entry,
    ) -> Vec<Result<Outcome, PartyError>> {
        let Decided { results, after, .. } = decided;
        for (request, _) in requests.iter().zip(&results).filter(|(_, result)| result.is_ok()) {
            self.parts.metrics.committed(&request.operation);
        }
        let urgency = if self.session.exists() { Urgency::Soon } else { Urgency::Now };
        self.apply(Arc::new(after), entry);
        self.attach_all(requests, &results);
        self.parts.archivist.enqueue(&self.session, self.parts.now_ms(), urgency);
        results
    }

    pub(super) fn completed(&self, outcome: Outcome) -> Completed {
        Completed { outcome, session: Arc::clone(&self.session) }
    }

    fn attach_all(
        &mut self,
        requests: &[OperationRequest],
        results: &[Result<Outcome, PartyError>],
    ) {
        for (request, result) in requests.iter().zip(results) {
            if let Ok(outcome) = result {
                self.attach(&request.operation, request.actor.as_ref(), outcome);
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
                let is_actor = |actor: &Actor, known: &Member| actor.attachment == known.attachment;
                self.attached.retain(|_, known| !actor.is_some_and(|actor| is_actor(actor, known)));
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
        let was_failing = std::mem::replace(&mut self.is_store_failing, true);
        if was_failing || self.parts.clock.now() + RETRY_AFTER >= deadline {
            warn!(%error, session_id = %self.session.id, "party store call failed");
            return Err(Unavailable::Store(error).into());
        }
        sleep(RETRY_AFTER).await;
        Ok(())
    }
}

/// The bytes of an edit; none for other operations, which are committed one at a time.
fn edit_bytes(pending: &PendingOperation) -> Option<usize> {
    let Operation::Edit(edit) = &pending.request.operation else { return None };
    Some(edit.size_bytes())
}
