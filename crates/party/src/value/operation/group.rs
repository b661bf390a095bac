//! Operations that wait for the same session: decided one after the other, committed as one.
//!
//! Each is decided on the state after those before it, and has its own result, events and
//! remembered result. They share the commit, which is applied as a whole or not at all.

use super::{Context, Operation, Outcome, apply};
use crate::value::entry::{Entry, Remembered};
use crate::value::error::PartyError;
use crate::value::fact::Fact;
use crate::value::log::EventLog;
use crate::value::session::PartySession;

/// The decision about operations that are committed together.
#[derive(Debug)]
pub struct Decided {
    /// The results of the operations once they are committed, in order.
    pub results: Vec<Result<Outcome, PartyError>>,
    /// The session after the operations, with its new version.
    pub after: PartySession,
    /// Whether all of them are repetitions whose results are remembered.
    pub is_known: bool,
    facts: Vec<Fact>,
    remembered: Vec<Remembered>,
}

impl Decided {
    /// The entry to commit; none if no operation has an effect or must be remembered.
    pub fn entry(&self, commit_id: &str) -> Option<Entry> {
        self.is_commit().then(|| Entry {
            commit_id: commit_id.to_owned(),
            version: self.after.version,
            facts: self.facts.clone(),
            remembered: self.remembered.clone(),
        })
    }

    fn is_commit(&self) -> bool {
        !self.facts.is_empty() || !self.remembered.is_empty()
    }
}

/// Decides operations. Those whose correlation id is in the log or among them give the first
/// result.
pub fn decide(
    session: &PartySession,
    log: &EventLog,
    operations: &[(&Operation, Context)],
) -> Decided {
    let (mut results, mut facts) = (Vec::with_capacity(operations.len()), Vec::new());
    let (mut after, mut newly_remembered, mut is_known) = (None, Vec::new(), true);
    for (operation, context) in operations {
        if let Some(outcome) = remembered(log, &newly_remembered, operation, context) {
            results.push(Ok(outcome));
            continue;
        }
        is_known = false;
        let present = after.as_ref().unwrap_or(session);
        results.push(apply(present, operation, context).map(|applied| {
            after = Some(applied.after);
            facts.extend(applied.facts);
            newly_remembered.extend(applied.remembered);
            applied.outcome
        }));
    }
    let after = after.unwrap_or_else(|| session.clone());
    let mut decided = Decided { results, after, is_known, facts, remembered: newly_remembered };
    decided.after.version = session.version + u64::from(decided.is_commit());
    decided
}

/// The first result of a repeated operation.
fn remembered(
    log: &EventLog,
    group: &[Remembered],
    operation: &Operation,
    context: &Context,
) -> Option<Outcome> {
    let name = operation.name()?;
    let (actor, correlation_id) = (context.actor.as_ref()?, context.correlation_id.as_ref()?);
    let is_same = |known: &&Remembered| known.is_of(&actor.member, name, correlation_id.as_str());
    let in_group = group.iter().find(is_same).map(|known| &known.outcome);
    in_group.or_else(|| log.remembered(&actor.member, name, correlation_id)).cloned()
}
