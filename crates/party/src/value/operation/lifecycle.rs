//! The creation, restoring and end of a session.

use heartline_protocol::ErrorCode;

use super::Outcome;
use super::draft::Draft;
use crate::value::error::PartyError;
use crate::value::fact::{Fact, SessionChange};
use crate::value::limits::{FORMER_LEADER_WITHIN_MS, RESTORED_SEQUENCES};
use crate::value::roster::FormerLeader;
use crate::value::session::{Details, Status};
use crate::value::validate::{self, Reasons};

/// A step in the life of a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Lifecycle {
    /// The actor creates the session; the first join may still seed the queue.
    Create(Box<NewSession>),
    /// The actor ends the session, which is final.
    End {
        /// The epoch in which the actor leads, as it believes. In another epoch the operation is
        /// rejected.
        expected_epoch: Option<u64>,
    },
    /// The server ends an unused session. Does nothing if it has members or is permanent.
    EndIdle,
    /// The session is restored after a loss.
    Restore {
        /// The highest incarnation and sequence that any node has seen of it, if one has.
        seen: Option<(u64, u64)>,
    },
}

/// The details of a new session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewSession {
    /// The board.
    pub board_path: String,
    /// The latitude in degrees.
    pub latitude: f64,
    /// The longitude in degrees.
    pub longitude: f64,
    /// The name.
    pub name: Option<String>,
    /// Whether a search by place finds the session.
    pub discoverable: bool,
    /// The goal of the members.
    pub goal: Option<String>,
    /// Whether the session is exempt from being ended when unused.
    pub is_permanent: bool,
    /// The colour.
    pub color: Option<String>,
}

pub(super) fn apply(draft: &mut Draft<'_>, step: &Lifecycle) -> Result<Outcome, PartyError> {
    match step {
        Lifecycle::Create(new) => create(draft, new),
        Lifecycle::End { expected_epoch } => end(draft, *expected_epoch),
        Lifecycle::EndIdle => Ok(end_idle(draft)),
        Lifecycle::Restore { seen } => restore(draft, *seen),
    }
}

fn create(draft: &mut Draft<'_>, new: &NewSession) -> Result<Outcome, PartyError> {
    validate::session_id(&draft.session.id)?;
    let mut reasons = Reasons::of("input");
    reasons.board_path(&new.board_path);
    reasons.latitude(new.latitude);
    reasons.longitude(new.longitude);
    new.name.iter().for_each(|name| reasons.session_name(name));
    new.goal.iter().for_each(|goal| reasons.goal(goal));
    new.color.iter().for_each(|color| reasons.color(color));
    reasons.finish()?;
    let account = draft.actor().and_then(|actor| actor.account.clone());
    let creator = account.ok_or_else(PartyError::authentication_required)?;
    if draft.session.exists() {
        // A repeated request with the same correlation id has the same session id.
        let is_repetition = draft.session.details.creator.as_ref() == Some(&creator)
            && draft.context.correlation_id.is_some();
        let exists = PartyError::new(ErrorCode::Conflict, "Session exists already");
        return if is_repetition { Ok(Outcome::Done) } else { Err(exists) };
    }
    let details = Details {
        name: new.name.clone(),
        board_path: Some(new.board_path.clone()),
        creator: Some(creator),
        created_at_ms: Some(draft.context.now_ms),
        started_at_ms: None,
        ended_at_ms: None,
        discoverable: new.discoverable,
        latitude: Some(new.latitude),
        longitude: Some(new.longitude),
        goal: new.goal.clone(),
        color: new.color.clone(),
        is_permanent: new.is_permanent,
        is_public: true,
        seeded: false,
    };
    draft.record(Fact::DetailsChanged { details });
    Ok(Outcome::Done)
}

fn end(draft: &mut Draft<'_>, expected_epoch: Option<u64>) -> Result<Outcome, PartyError> {
    if !draft.session.exists() {
        return Err(PartyError::session_not_found());
    }
    let creator = draft.session.details.creator.as_ref();
    let account = draft.actor().and_then(|actor| actor.account.as_ref());
    let is_creator = account.is_some() && account == creator;
    if draft.session.status == Status::Ended {
        return Err(PartyError::session_has_ended());
    }
    let leads =
        draft.actor_member().is_some_and(|member| draft.session.roster.is_leader(&member.id));
    if !leads && !is_creator {
        return Err(PartyError::only_creator_or_leader());
    }
    let epoch_differs = expected_epoch.is_some_and(|epoch| epoch != draft.session.roster.epoch);
    if epoch_differs && !is_creator {
        let message = "The leader has changed since. Read the session again before ending it";
        return Err(PartyError::new(ErrorCode::Conflict, message));
    }
    finish(draft, if leads { "Session ended by leader" } else { "Session ended by its creator" });
    Ok(Outcome::Done)
}

fn end_idle(draft: &mut Draft<'_>) -> Outcome {
    let session = &draft.session;
    let is_idle = session.status == Status::Inactive && session.roster.members.is_empty();
    if session.exists() && is_idle && !session.details.is_permanent {
        finish(draft, "Session ended after a time without members");
    }
    Outcome::Done
}

fn finish(draft: &mut Draft<'_>, reason: &str) {
    let (reason, ended_at_ms) = (reason.to_owned(), draft.context.now_ms);
    draft.session_event(SessionChange::Ended { reason, ended_at_ms });
}

/// The archived state may be older than the state that clients saw, so the numbers continue well
/// above it; the new incarnation shows that they do not follow the old ones.
fn restore(draft: &mut Draft<'_>, seen: Option<(u64, u64)>) -> Result<Outcome, PartyError> {
    if !draft.session.exists() {
        return Err(PartyError::session_not_found());
    }
    let session = &draft.session;
    if session.status == Status::Ended {
        return Ok(Outcome::Done);
    }
    let (seen_incarnation, seen_sequence) = seen.unwrap_or_default();
    let deadline_ms = draft.context.now_ms + FORMER_LEADER_WITHIN_MS;
    let former_leader =
        session.roster.leader.clone().map(|member| FormerLeader { member, deadline_ms });
    draft.record(Fact::Restored {
        former_leader,
        incarnation: session.incarnation.max(seen_incarnation) + 1,
        sequence: session.queue.sequence.max(seen_sequence) + RESTORED_SEQUENCES,
        roster_sequence: session.roster_sequence + RESTORED_SEQUENCES,
        epoch: session.roster.epoch + RESTORED_SEQUENCES,
    });
    draft.update_leader_and_status();
    Ok(Outcome::Done)
}
