//! What members want: decided on the copy, committed, and decided again if another was first.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::warn;

use super::{Answer, Room, busy, unavailable};
use crate::archivist::Haste;
use crate::entry::Entry;
use crate::error::PartyError;
use crate::fields::{Changes, changes};
use crate::operation::{Actor, Applied, Context, Membership, Operation, Outcome, apply};
use crate::party_socket::random_uuid;
use crate::session::Status;
use crate::store::{Commit, Committed, PartyStoreError, Revision};

/// How long to wait before asking a store again that failed.
const RETRY_AFTER: Duration = Duration::from_millis(100);

impl Room {
    pub(super) async fn operate(
        &mut self,
        operation: Operation,
        actor: Option<Actor>,
        correlation_id: Option<String>,
        deadline: Instant,
    ) -> Result<Answer, PartyError> {
        self.detach(&operation);
        let commit_id = random_uuid();
        let mut is_certain = false;
        loop {
            if self.must_reattach && actor.is_some() {
                // Who is here is a member, also where the session has just lost it.
                Box::pin(self.reattach_all()).await;
            }
            let now_ms = self.parts.now_ms();
            let limits = self.parts.config.limits;
            let context = Context {
                now_ms,
                actor: actor.clone(),
                correlation_id: correlation_id.clone(),
                limits,
            };
            if let Some(outcome) = self.remembered(&operation, &context) {
                return Ok(self.answer(outcome));
            }
            let applied = apply(&self.session, &operation, &context);
            let commit = applied.as_ref().ok().and_then(|applied| applied.entry(&commit_id));
            let Some(entry) = commit else {
                // Nothing to commit, or refused: true of the session as it is, not of an old copy.
                if !is_certain && self.parts.config.is_store_shared {
                    self.catch_up_before(deadline).await?;
                    is_certain = true;
                    continue;
                }
                return applied.map(|applied| self.answer(applied.outcome));
            };
            let applied = applied?;
            match self.commit(&applied, &entry).await {
                Ok(Committed::Done) => {
                    self.is_store_silent = false;
                    return Ok(self.done(&operation, actor.as_ref(), applied, &entry));
                }
                Ok(Committed::Conflict(_)) => self.parts.metrics.retried(),
                Err(error) => self.failed(&error, deadline).await?,
            }
            self.catch_up_before(deadline).await?;
            // Its answer was lost, or it was sent twice on the way and conflicts with itself.
            if self.log.commit(&commit_id).is_some() {
                self.attach(&operation, actor.as_ref(), &applied.outcome);
                return Ok(self.answer(applied.outcome));
            }
            if self.parts.clock.now() >= deadline {
                return Err(busy());
            }
        }
    }

    pub(super) fn remembered(&self, operation: &Operation, context: &Context) -> Option<Outcome> {
        let Operation::Edit(edit) = operation else { return None };
        let (actor, correlation_id) = (context.actor.as_ref()?, context.correlation_id.as_ref()?);
        self.log.remembered(&actor.member, edit.name(), correlation_id).cloned()
    }

    pub(super) async fn commit(
        &self,
        applied: &Applied,
        entry: &Entry,
    ) -> Result<Committed, PartyStoreError> {
        let json = entry.to_log_json();
        let expected = (self.session.version > 0).then(|| Revision::of(&self.session));
        let commit = Commit {
            session_id: self.session.id.clone(),
            expected,
            revision: Revision::of(&applied.after),
            changes: match expected {
                Some(_) => changes(&self.session, &applied.after),
                None => Changes::all(&applied.after),
            },
            entries_kept: self.log.kept_with(entry, json.len()),
            entry: json.into(),
            is_active: applied.after.status == Status::Active,
        };
        self.parts.store.commit(commit).await
    }

    fn done(
        &mut self,
        operation: &Operation,
        actor: Option<&Actor>,
        applied: Applied,
        entry: &Entry,
    ) -> Answer {
        let Applied { outcome, after, .. } = applied;
        self.parts.metrics.committed(operation);
        let is_new = !self.session.exists();
        let is_last = after.status != Status::Active && self.session.status == Status::Active;
        let haste = if is_new || is_last || after.status == Status::Ended {
            Haste::Now
        } else {
            Haste::Soon
        };
        self.take(Arc::new(after), entry);
        self.attach(operation, actor, &outcome);
        self.parts.archivist.note(&self.session, self.parts.now_ms(), haste);
        self.answer(outcome)
    }

    pub(super) fn answer(&self, outcome: Outcome) -> Answer {
        Answer { outcome, session: Arc::clone(&self.session) }
    }

    /// Remembers which members are here through a socket of this node.
    fn attach(&mut self, operation: &Operation, actor: Option<&Actor>, outcome: &Outcome) {
        match (operation, outcome) {
            (Operation::Membership(Membership::Join(_)), Outcome::Joined { member, .. }) => {
                if let Some(member) = self.session.roster.get(member) {
                    self.attached.insert(member.id.clone(), member.clone());
                }
            }
            (Operation::Membership(Membership::Leave), _) => {
                self.attached.retain(|id, _| actor.is_none_or(|actor| actor.member != *id));
                self.settle();
            }
            _ => {}
        }
    }

    /// A socket that has closed is not claimed again, whatever becomes of its departure.
    fn detach(&mut self, operation: &Operation) {
        match operation {
            Operation::Membership(Membership::Depart { member, attachment }) => {
                self.attached.retain(|id, known| id != member || known.attachment != *attachment);
            }
            Operation::Membership(Membership::NodeLost { node }) => {
                self.attached.retain(|_, known| known.attachment.node != *node);
            }
            _ => {}
        }
    }

    pub(super) async fn failed(
        &mut self,
        error: &PartyStoreError,
        deadline: Instant,
    ) -> Result<(), PartyError> {
        let was_silent = std::mem::replace(&mut self.is_store_silent, true);
        if was_silent || self.parts.clock.now() + RETRY_AFTER >= deadline {
            warn!(%error, session_id = %self.session.id, "the party store does not answer");
            return Err(unavailable(error));
        }
        sleep(RETRY_AFTER).await;
        Ok(())
    }
}
