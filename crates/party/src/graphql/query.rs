//! The queries.

use std::sync::Arc;

use async_graphql::{Context, ID, Object, SimpleObject};
use heartline_protocol::UserId;

use super::Caller;
use super::event::QueueEventView;
use super::session::{DiscoverableSession, SessionView};
use super::statistics::SessionSummary;
use crate::room::archive::SearchArea;
use crate::room::rooms::Rooms;
use crate::room::unavailable::Unavailable;
use crate::value::error::PartyError;
use crate::value::log::Replay;
use crate::value::roster::Member;
use crate::value::session::{PartySession, Status};
use crate::value::validate;

/// The most sessions of a list.
const LIST_MAX: usize = 50;

/// The events after a sequence.
#[derive(Debug, SimpleObject)]
pub(super) struct EventsReplayResponse {
    /// All events after the sequence without a gap, or one `FullSync` instead.
    events: Vec<QueueEventView>,
    /// The number of the last event.
    current_sequence: u64,
    /// The number of times that the session was restored after a loss. Sequences of different
    /// incarnations are not comparable.
    incarnation: u64,
}

/// The queries.
#[derive(Debug)]
pub(super) struct Query;

/// Queries.
#[Object]
impl Query {
    /// A session; null if it has no members.
    async fn session(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The session")] session_id: ID,
    ) -> Result<Option<SessionView>, PartyError> {
        take_query(context)?;
        validate::session_id(&session_id)?;
        let session = rooms(context).read(&session_id).await?;
        if session.status == Status::Ended || session.roster.members.is_empty() {
            return Ok(None);
        }
        let actor = caller(context).socket().map(|socket| socket.actor());
        let viewer = actor.and_then(|actor| {
            session.present(&actor.member, &actor.attachment).map(|member| member.id.clone())
        });
        Ok(Some(SessionView { session, viewer, is_own: false, resume_token: None }))
    }

    /// The events of the queue after a sequence. Only members may read them.
    async fn events_replay(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The session that the connection has joined")] session_id: ID,
        #[graphql(desc = "The last sequence that the caller has received")] since_sequence: i64,
    ) -> Result<EventsReplayResponse, PartyError> {
        take_query(context)?;
        validate::session_id(&session_id)?;
        let since = validate::since_sequence(since_sequence)?;
        let socket = caller(context).socket().ok_or_else(PartyError::not_in_any_session)?;
        let actor = socket.actor_in(&session_id).await?;
        let replayed = rooms(context).replay(&session_id, since, actor).await?;
        let session = replayed.session;
        let events = match replayed.replay {
            Replay::Events(events) => {
                events.iter().map(|event| QueueEventView::of(event, session.incarnation)).collect()
            }
            Replay::FullSync => None,
        };
        Ok(EventsReplayResponse {
            events: events.unwrap_or_else(|| vec![QueueEventView::full_sync(&session)]),
            current_sequence: session.queue.sequence,
            incarnation: session.incarnation,
        })
    }

    /// Discoverable sessions around a place, the nearest first.
    async fn nearby_sessions(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The latitude in degrees")] latitude: f64,
        #[graphql(desc = "The longitude in degrees")] longitude: f64,
        #[graphql(desc = "The radius in metres, 500 by default")] radius_meters: Option<f64>,
    ) -> Result<Vec<DiscoverableSession>, PartyError> {
        take_query(context)?;
        let radius_metres = validate::nearby(latitude, longitude, radius_meters)?;
        let area = SearchArea { latitude, longitude, radius_metres };
        let found = rooms(context).archive().nearby(area, LIST_MAX).await;
        Ok(found.map_err(Unavailable::Search)?.into_iter().map(Into::into).collect())
    }

    /// Sessions that the caller's account has created or been a member of, the last active first.
    async fn my_sessions(
        &self,
        context: &Context<'_>,
    ) -> Result<Vec<DiscoverableSession>, PartyError> {
        take_query(context)?;
        let Some(account) = caller(context).account() else { return Ok(Vec::new()) };
        let found = rooms(context).archive().of_account(account, LIST_MAX).await;
        Ok(found.map_err(Unavailable::Search)?.into_iter().map(Into::into).collect())
    }

    /// The summary of a session. Only its creator and its participants may read it.
    async fn session_summary(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The session")] session_id: ID,
    ) -> Result<Option<SessionSummary>, PartyError> {
        take_query(context)?;
        let account = caller(context).account().ok_or_else(PartyError::authentication_required)?;
        validate::session_id(&session_id)?;
        let session = rooms(context).read(&session_id).await?;
        if !session.exists() {
            return Ok(None);
        }
        let former = participants(rooms(context), &session_id).await?;
        let members = members(&session);
        let is_present = members.iter().any(|member| member.account.as_ref() == Some(account));
        let is_creator = session.details.creator.as_ref() == Some(account);
        let may_see = is_present || is_creator || former.contains(account);
        Ok(may_see.then(|| SessionSummary::of(&session, &members, &former)))
    }
}

/// Counts one query of a connection.
fn take_query(context: &Context<'_>) -> Result<(), PartyError> {
    caller(context).socket().map_or(Ok(()), |socket| socket.take_query())
}

/// The present members of a session.
pub(super) fn members(session: &PartySession) -> Vec<Member> {
    session.roster.by_seniority().into_iter().cloned().collect()
}

/// The accounts that are known to have been members of a session.
pub(super) async fn participants(
    rooms: &Rooms,
    session_id: &str,
) -> Result<Vec<UserId>, PartyError> {
    let archived = rooms.archive().get(session_id).await.map_err(Unavailable::Search)?;
    Ok(archived.map(|archived| archived.participants).unwrap_or_default())
}

pub(super) fn rooms<'a>(context: &Context<'a>) -> &'a Rooms {
    context.data_unchecked::<Rooms>()
}

pub(super) fn caller<'a>(context: &Context<'a>) -> &'a Arc<Caller> {
    context.data_unchecked::<Arc<Caller>>()
}
