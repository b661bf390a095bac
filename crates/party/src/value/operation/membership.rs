//! Joining and leaving. A member is a connection, and keeps its identity on a new socket if it
//! asked for a resume token.

use heartline_protocol::{ErrorCode, NodeId};

use super::draft::Draft;
use super::edits::check_queue;
use super::{Actor, Outcome};
use crate::value::error::PartyError;
use crate::value::fact::{Contents, Fact, SessionChange};
use crate::value::item::Item;
use crate::value::limits::FORMER_TOKENS_MAX;
use crate::value::roster::{Attachment, Away, Member, MemberId, Resume, TokenDigest};
use crate::value::session::Status;
use crate::value::validate;

/// A change of the members, or of a member's name.
#[derive(Debug, Clone, PartialEq)]
pub enum Membership {
    /// The actor joins, or joins again.
    Join(Box<Join>),
    /// The actor leaves at once.
    Leave,
    /// A socket closed. Does nothing if its member has a newer one, or if no member used it.
    Depart {
        /// The socket.
        attachment: Attachment,
    },
    /// Absent members past their deadline are removed.
    Expire,
    /// A node died or is shutting down: its sockets are closed.
    NodeLost {
        /// The node.
        node: NodeId,
    },
    /// A node registers a member again whose socket is open, after the node was taken for dead or
    /// after the store lost or restored the session.
    Reattach {
        /// The member as the node knew it last.
        member: Member,
    },
    /// The actor changes its name or picture.
    UpdateUsername {
        /// The name to show.
        username: String,
        /// The picture to show; the present one stays if none is given.
        avatar_url: Option<String>,
    },
}

/// The arguments of a join. Empty text counts as not given.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Join {
    /// The board; only the first join sets it.
    pub board_path: String,
    /// The name to show.
    pub username: Option<String>,
    /// The picture to show.
    pub avatar_url: Option<String>,
    /// The session's name; only the first join sets it.
    pub session_name: Option<String>,
    /// The seed of the queue; only the first join sets it.
    pub initial_queue: Vec<Item>,
    /// The seed of the current climb; only the first join sets it.
    pub initial_current: Option<Item>,
    /// The digest of the caller's new resume token, if it asked for one. A caller that resumes
    /// without asking for a new one cannot resume again.
    pub resume_token: Option<TokenDigest>,
    /// The digest of the token with which the caller resumes.
    pub resumed_token: Option<TokenDigest>,
}

pub(super) fn apply(draft: &mut Draft<'_>, change: &Membership) -> Result<Outcome, PartyError> {
    match change {
        Membership::Join(join) => self::join(draft, join),
        Membership::Leave => Ok(leave(draft)),
        Membership::Depart { attachment } => {
            let member = draft.session.roster.by_attachment(attachment);
            if let Some(member) = member.map(|member| member.id.clone()) {
                depart(draft, &member);
                draft.update_leader_and_status();
            }
            Ok(Outcome::Done)
        }
        Membership::Expire => Ok(expire(draft)),
        Membership::NodeLost { node } => Ok(node_lost(draft, node)),
        Membership::Reattach { member } => reattach(draft, member),
        Membership::UpdateUsername { username, avatar_url } => {
            validate::username(username)?;
            let avatar_url = given(avatar_url.as_ref());
            avatar_url.map_or(Ok(()), validate::avatar_url)?;
            if let Some(member) = draft.actor_member() {
                let member = member.id.clone();
                update(draft, &member, Some(username), avatar_url);
            }
            Ok(Outcome::Done)
        }
    }
}

/// Clients send empty text for unknown values.
fn given(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

fn join(draft: &mut Draft<'_>, join: &Join) -> Result<Outcome, PartyError> {
    let actor = draft.actor().ok_or_else(PartyError::not_in_a_session)?;
    validate::session_id(&draft.session.id)?;
    validate::board_path(&join.board_path)?;
    given(join.username.as_ref()).map_or(Ok(()), validate::username)?;
    given(join.avatar_url.as_ref()).map_or(Ok(()), validate::avatar_url)?;
    given(join.session_name.as_ref()).map_or(Ok(()), validate::session_name)?;
    check_queue("initialQueue", &join.initial_queue, &draft.context.limits)?;
    if draft.session.status == Status::Ended {
        return Err(PartyError::session_has_ended());
    }
    let (member, resumed) = match returning(draft, actor, join)? {
        Some(member) => resume(draft, actor, member, join),
        None => (add_member(draft, actor, join)?, false),
    };
    draft.update_leader_and_status();
    Ok(Outcome::Joined { member, resumed })
}

/// The member that the actor already is: on this very socket, or by its token.
fn returning(
    draft: &Draft<'_>,
    actor: &Actor,
    join: &Join,
) -> Result<Option<MemberId>, PartyError> {
    let roster = &draft.session.roster;
    if let Some(member) = roster.by_attachment(&actor.attachment) {
        return Ok(Some(member.id.clone()));
    }
    if roster.get(&actor.member).is_some() {
        let message = "This connection was replaced by a newer one of the same member";
        return Err(PartyError::new(ErrorCode::Conflict, message));
    }
    let token = join.resumed_token.as_ref();
    let member = token.and_then(|token| roster.by_token(token, actor.account.as_ref()));
    Ok(member.map(|member| member.id.clone()))
}

/// Returns the member that resumed, and whether its socket is new.
fn resume(draft: &mut Draft<'_>, actor: &Actor, id: MemberId, join: &Join) -> (MemberId, bool) {
    let member = draft.session.roster.get(&id).expect("it was just found");
    let is_new_socket = member.attachment != actor.attachment;
    let present = member.resume.clone().filter(|_| !is_new_socket);
    let renewed = join.resume_token.clone().map(|token| {
        let presented = join.resumed_token.as_ref().filter(|_| is_new_socket);
        Resume { token, previous: former_tokens(present.as_ref(), presented) }
    });
    if is_new_socket || member.away.is_some() || renewed.is_some() {
        let (member, attachment) = (id.clone(), actor.attachment.clone());
        let resume = renewed.or(present);
        draft.record(Fact::MemberAttached { member, attachment, resume });
    }
    update(draft, &id, given(join.username.as_ref()), given(join.avatar_url.as_ref()));
    (id, is_new_socket)
}

/// The tokens that stay valid until the client is known to have the new one: on a new socket the
/// presented one, on the same socket those issued before.
fn former_tokens(present: Option<&Resume>, presented: Option<&TokenDigest>) -> Vec<TokenDigest> {
    let Some(present) = present else { return presented.cloned().into_iter().collect() };
    let mut tokens = present.previous.clone();
    tokens.push(present.token.clone());
    tokens.drain(..tokens.len().saturating_sub(FORMER_TOKENS_MAX));
    tokens
}

fn add_member(draft: &mut Draft<'_>, actor: &Actor, join: &Join) -> Result<MemberId, PartyError> {
    if draft.session.roster.members.len() >= draft.context.limits.members_max {
        return Err(PartyError::new(ErrorCode::ServerBusy, "Session is full"));
    }
    set_first_details(draft, actor, join);
    let username = given(join.username.as_ref()).map(str::to_owned);
    let member = Member {
        id: actor.member.clone(),
        account: actor.account.clone(),
        username: username.unwrap_or_else(|| actor.member.default_username()),
        avatar_url: given(join.avatar_url.as_ref()).map(str::to_owned),
        joined_at_ms: draft.session.roster.joins_at_ms(draft.context.now_ms),
        attachment: actor.attachment.clone(),
        resume: join.resume_token.clone().map(|token| Resume { token, previous: Vec::new() }),
        away: None,
    };
    draft.session_event(SessionChange::MemberJoined { member });
    Ok(actor.member.clone())
}

/// The details that only the first join sets.
fn set_first_details(draft: &mut Draft<'_>, actor: &Actor, join: &Join) {
    if draft.session.details.seeded {
        return;
    }
    let mut details = draft.session.details.clone();
    if !draft.session.exists() {
        details.created_at_ms = Some(draft.context.now_ms);
        details.creator.clone_from(&actor.account);
        details.is_public = true;
    }
    let name = given(join.session_name.as_ref()).map(str::to_owned);
    details.name = details.name.or(name);
    details.board_path = details.board_path.or(Some(join.board_path.clone()));
    details.started_at_ms = details.started_at_ms.or(Some(draft.context.now_ms));
    details.seeded = true;
    draft.record(Fact::DetailsChanged { details });
    let contents =
        Contents { queue: join.initial_queue.clone(), current: join.initial_current.clone() };
    if !contents.queue.is_empty() || contents.current.is_some() {
        draft.seed(contents);
    }
}

fn leave(draft: &mut Draft<'_>) -> Outcome {
    let member = draft.actor_member().map(|member| member.id.clone());
    let was_member = member.is_some();
    if let Some(member) = member {
        draft.remove(member);
        draft.update_leader_and_status();
    }
    Outcome::Left { was_member }
}

/// Closes a member's socket: the member is absent if it may resume, and removed otherwise.
fn depart(draft: &mut Draft<'_>, id: &MemberId) {
    let Some(member) = draft.session.roster.get(id) else { return };
    if member.resume.is_none() {
        return draft.remove(id.clone());
    }
    if member.away.is_none() {
        let since_ms = draft.context.now_ms;
        let deadline_ms = since_ms.saturating_add(draft.context.limits.resume_grace_ms);
        let away = Away { since_ms, deadline_ms };
        draft.record(Fact::MemberAway { member: id.clone(), away });
    }
}

fn expire(draft: &mut Draft<'_>) -> Outcome {
    let now_ms = draft.context.now_ms;
    let is_over = |member: &Member| member.away.is_some_and(|away| away.deadline_ms <= now_ms);
    for member in selected(draft, is_over) {
        draft.remove(member);
    }
    if !draft.facts.is_empty() {
        draft.update_leader_and_status();
    }
    Outcome::Done
}

fn node_lost(draft: &mut Draft<'_>, node: &NodeId) -> Outcome {
    for member in selected(draft, |member| member.attachment.node == *node) {
        depart(draft, &member);
    }
    if !draft.facts.is_empty() {
        draft.update_leader_and_status();
    }
    Outcome::Done
}

/// The ids of the members that a condition selects, the most senior first.
fn selected(draft: &Draft<'_>, is_selected: impl Fn(&Member) -> bool) -> Vec<MemberId> {
    let members = draft.session.roster.by_seniority().into_iter();
    members.filter(|member| is_selected(member)).map(|member| member.id.clone()).collect()
}

fn reattach(draft: &mut Draft<'_>, known: &Member) -> Result<Outcome, PartyError> {
    if draft.session.status == Status::Ended {
        return Err(PartyError::session_has_ended());
    }
    if !draft.session.exists() {
        return Err(PartyError::session_not_found());
    }
    if draft.session.roster.has_moved_on(&known.id, &known.attachment) {
        return Err(PartyError::not_in_a_session());
    }
    let outcome = Outcome::Joined { member: known.id.clone(), resumed: true };
    let Some(member) = draft.session.roster.get(&known.id) else {
        // The member was taken for lost, and returns even if the session is full by now.
        let member = Member { away: None, ..known.clone() };
        draft.session_event(SessionChange::MemberJoined { member });
        reinstate(draft, &known.id);
        draft.update_leader_and_status();
        return Ok(outcome);
    };
    if member.away.is_some() {
        let (attachment, resume) = (member.attachment.clone(), member.resume.clone());
        draft.record(Fact::MemberAttached { member: known.id.clone(), attachment, resume });
    }
    Ok(outcome)
}

/// Makes the former leader lead again, also if another member returned first.
fn reinstate(draft: &mut Draft<'_>, id: &MemberId) {
    let now_ms = draft.context.now_ms;
    let former_leader = draft.session.roster.former_leader.as_ref();
    if former_leader.is_some_and(|former| former.member == *id && now_ms < former.deadline_ms) {
        draft.elect(id.clone());
    }
}

/// Changes a member's name and picture, if they are given and differ from the present ones.
fn update(draft: &mut Draft<'_>, id: &MemberId, username: Option<&str>, avatar_url: Option<&str>) {
    let member = draft.session.roster.get(id).expect("only members are updated");
    let new_username = username.unwrap_or(&member.username).to_owned();
    let new_avatar_url = avatar_url.map(str::to_owned).or(member.avatar_url.clone());
    if (&new_username, &new_avatar_url) != (&member.username, &member.avatar_url) {
        draft.session_event(SessionChange::MemberUpdated {
            member: id.clone(),
            username: new_username,
            avatar_url: new_avatar_url,
        });
    }
}
