//! Operations on a session, and their results.

mod draft;
mod edits;
mod group;
mod lifecycle;
mod membership;

use heartline_protocol::UserId;
use serde::{Deserialize, Serialize};

use crate::value::entry::{Entry, Remembered};
use crate::value::error::PartyError;
use crate::value::fact::Fact;
use crate::value::item::Item;
use crate::value::limits::Limits;
use crate::value::roster::{Attachment, Member, MemberId};
use crate::value::session::{PartySession, Status};
use crate::value::validate;

use draft::Draft;

pub use edits::Edit;
pub use group::{Decided, decide};
pub use lifecycle::{Lifecycle, NewSession};
pub use membership::{Join, Membership};

/// An operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// An edit of the queue.
    Edit(Edit),
    /// A change of a member.
    Membership(Membership),
    /// The creation, restoring or end of the session.
    Lifecycle(Lifecycle),
}

/// The connection that performs an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// Its member id: its own connection id, or the id of the member that it resumed.
    pub member: MemberId,
    /// The account, if it is signed in.
    pub account: Option<UserId>,
    /// Its socket.
    pub attachment: Attachment,
}

/// The caller, the time and the limits of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The time, by the store's clock.
    pub now_ms: u64,
    /// The caller; none for the server itself.
    pub actor: Option<Actor>,
    /// The correlation id, under which a repeated operation gives the first result.
    pub correlation_id: Option<String>,
    /// The limits.
    pub limits: Limits,
}

/// The result for the caller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The operation succeeded, with or without an effect.
    Done,
    /// This item is in the queue.
    Item(Item),
    /// The current climb.
    Current(Option<Item>),
    /// The queue was replaced. The caller gets the state after the commit; a caller that repeats
    /// the operation gets the present state.
    QueueSet,
    /// The caller is a member.
    Joined {
        /// Its member id.
        member: MemberId,
        /// Whether it resumed as a member that had another socket.
        resumed: bool,
    },
    /// The caller is no longer a member.
    Left {
        /// Whether it was a member.
        was_member: bool,
    },
}

/// The decision about an operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// The facts; none if the operation has no effect.
    pub facts: Vec<Fact>,
    /// The result for the caller once the facts are committed.
    pub outcome: Outcome,
    /// The result to remember under the correlation id.
    pub remembered: Option<Remembered>,
    /// The session after the operation, with its new version.
    pub after: PartySession,
}

impl Applied {
    /// The entry to commit. An operation without an effect is committed only if it has a
    /// correlation id, because a repetition might have an effect.
    pub fn entry(&self, commit_id: impl Into<String>) -> Option<Entry> {
        self.is_commit().then(|| Entry {
            commit_id: commit_id.into(),
            version: self.after.version,
            facts: self.facts.clone(),
            remembered: self.remembered.iter().cloned().collect(),
        })
    }

    fn is_commit(&self) -> bool {
        !self.facts.is_empty() || self.remembered.is_some()
    }
}

/// Stop 9 of the life of a party edit: decided. Nothing is changed: the facts are to be committed,
/// and then folded.
pub fn apply(
    session: &PartySession,
    operation: &Operation,
    context: &Context,
) -> Result<Applied, PartyError> {
    if let Some(correlation_id) = &context.correlation_id {
        validate::correlation_id(correlation_id)?;
    }
    let mut draft = Draft::new(session, context);
    let outcome = match operation {
        Operation::Edit(edit) => edits::apply(&mut draft, edit),
        Operation::Membership(membership) => membership::apply(&mut draft, membership),
        Operation::Lifecycle(lifecycle) => lifecycle::apply(&mut draft, lifecycle),
    }?;
    let remembered = remembered(operation, context, &outcome);
    let Draft { session: after, facts, .. } = draft;
    let mut applied = Applied { facts, outcome, remembered, after };
    applied.after.version += u64::from(applied.is_commit());
    Ok(applied)
}

impl Operation {
    /// The kind under which its result is remembered. Joining and leaving are not remembered,
    /// because repeating them gives the same result.
    fn name(&self) -> Option<&'static str> {
        match self {
            Self::Edit(edit) => Some(edit.name()),
            Self::Lifecycle(Lifecycle::End { .. }) => Some("endSession"),
            Self::Membership(_) | Self::Lifecycle(_) => None,
        }
    }
}

fn remembered(operation: &Operation, context: &Context, outcome: &Outcome) -> Option<Remembered> {
    Some(Remembered {
        member: context.actor.as_ref()?.member.clone(),
        correlation_id: context.correlation_id.clone()?,
        operation: operation.name()?.to_owned(),
        outcome: outcome.clone(),
    })
}

/// The acting member, in a session that has not ended.
fn acting_member<'a>(draft: &'a Draft<'_>) -> Result<&'a Member, PartyError> {
    if draft.session.status == Status::Ended {
        return Err(PartyError::session_has_ended());
    }
    draft.actor_member().ok_or_else(PartyError::not_in_a_session)
}
