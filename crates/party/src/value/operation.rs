//! What somebody wants of a session, and what becomes of it.

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
use crate::value::session::{Session, Status};
use crate::value::validate;

use draft::Draft;

pub use edits::Edit;
pub use group::{Decided, decide};
pub use lifecycle::{Lifecycle, NewSession};
pub use membership::{Join, Membership};

/// What somebody wants.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// To change the queue.
    Edit(Edit),
    /// To come, to go, to be called something else.
    Membership(Membership),
    /// To begin or to end the session.
    Lifecycle(Lifecycle),
}

/// The connection that wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// Its member id: its own connection id, or the one that it came back as.
    pub member: MemberId,
    /// The account, if it is signed in.
    pub account: Option<UserId>,
    /// Its socket.
    pub attachment: Attachment,
}

/// Who wants it, when, and within what bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The time, by the store's clock.
    pub now_ms: u64,
    /// Who wants it; nobody if the server itself does.
    pub actor: Option<Actor>,
    /// What the caller calls it, so that asking again does not do it again.
    pub correlation_id: Option<String>,
    /// The bounds.
    pub limits: Limits,
}

/// What the caller is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is so, whether or not something had to change.
    Done,
    /// This item is in the queue.
    Item(Item),
    /// This is current.
    Current(Option<Item>),
    /// The queue is as the caller wants it. The answer is the state after the commit; a caller that
    /// asks again gets the present one.
    QueueSet,
    /// The caller is a member.
    Joined {
        /// The id by which it is known from now on.
        member: MemberId,
        /// Whether it is the member that it was before, on a former socket.
        resumed: bool,
    },
    /// The caller is no longer a member.
    Left {
        /// Whether it was one.
        was_member: bool,
    },
}

/// What becomes of an operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// What happened; nothing if nothing had to change.
    pub facts: Vec<Fact>,
    /// What the caller is told once the facts are committed.
    pub outcome: Outcome,
    /// The result under the caller's own name for it.
    pub remembered: Option<Remembered>,
    /// The session afterwards, with its new version.
    pub after: Session,
}

impl Applied {
    /// What there is to commit. Something that had no effect is committed only if its caller may
    /// ask again by name, because by then it might have one.
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

/// Decides an operation. Nothing is changed: the facts are to be committed, and then folded.
pub fn apply(
    session: &Session,
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
    /// What it is called where it is remembered. Only what gives another result when it is done
    /// again is: joining and leaving do not.
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

/// The present member who acts, in a session that has not ended.
fn acting_member<'a>(draft: &'a Draft<'_>) -> Result<&'a Member, PartyError> {
    if draft.session.status == Status::Ended {
        return Err(PartyError::session_has_ended());
    }
    draft.actor_member().ok_or_else(PartyError::not_in_a_session)
}
