//! The statistics of a session. Climbs are logged elsewhere, so all figures are zero and their
//! events are never sent; the types exist because the documents of clients name them.

use std::collections::BTreeMap;

use async_graphql::{ID, SimpleObject};
use heartline_protocol::UserId;

use super::session::iso;
use crate::value::roster::Member;
use crate::value::session::PartySession;

/// The summary of a session.
#[derive(Debug, SimpleObject)]
pub(super) struct SessionSummary {
    /// The session.
    session_id: ID,
    /// The number of finished climbs.
    total_sends: i32,
    /// The number of failed attempts.
    total_attempts: i32,
    /// The finished climbs by grade.
    grade_distribution: Vec<SessionGradeCount>,
    /// The hardest finished climb.
    hardest_climb: Option<SessionHardestClimb>,
    /// The accounts that were members.
    participants: Vec<SessionParticipant>,
    /// When the first member joined, in ISO 8601.
    started_at: Option<String>,
    /// When the session ended, in ISO 8601.
    ended_at: Option<String>,
    /// The duration in minutes.
    duration_minutes: Option<u64>,
    /// The goal of the members.
    goal: Option<String>,
}

/// The number of finished climbs of a grade.
#[derive(Debug, SimpleObject)]
pub(super) struct SessionGradeCount {
    /// The grade.
    grade: String,
    /// The number of finished climbs.
    count: i32,
}

/// The hardest finished climb.
#[derive(Debug, SimpleObject)]
pub(super) struct SessionHardestClimb {
    /// The id of the climb.
    climb_uuid: String,
    /// The name of the climb.
    climb_name: String,
    /// The grade.
    grade: String,
}

/// An account that is or was a member.
#[derive(Debug, SimpleObject)]
pub(super) struct SessionParticipant {
    /// The account.
    user_id: String,
    /// The name to show.
    display_name: Option<String>,
    /// The picture to show.
    avatar_url: Option<String>,
    /// The number of finished climbs.
    sends: i32,
    /// The number of failed attempts.
    attempts: i32,
}

impl SessionSummary {
    /// The summary of a session with these members and former participants.
    pub(super) fn of(session: &PartySession, members: &[Member], former: &[UserId]) -> Self {
        let former = former.iter().map(|account| (account.clone(), None));
        let present = members.iter();
        let present = present.filter_map(|member| Some((member.account.clone()?, Some(member))));
        let accounts: BTreeMap<UserId, Option<&Member>> = former.chain(present).collect();
        let participant = |(account, member): (UserId, Option<&Member>)| SessionParticipant {
            user_id: account.to_string(),
            display_name: member.map(|member| member.username.clone()),
            avatar_url: member.and_then(|member| member.avatar_url.clone()),
            sends: 0,
            attempts: 0,
        };
        let details = &session.details;
        let times = details.started_at_ms.zip(details.ended_at_ms);
        Self {
            session_id: session.id.as_str().into(),
            total_sends: 0,
            total_attempts: 0,
            grade_distribution: Vec::new(),
            hardest_climb: None,
            participants: accounts.into_iter().map(participant).collect(),
            started_at: details.started_at_ms.map(iso),
            ended_at: details.ended_at_ms.map(iso),
            duration_minutes: times.map(|(start, end)| end.saturating_sub(start) / 60_000),
            goal: details.goal.clone(),
        }
    }
}

/// The statistics of a session changed. Never sent.
#[derive(Debug, SimpleObject)]
pub(super) struct SessionStatsUpdated {
    /// The session.
    session_id: ID,
    /// The number of finished climbs.
    total_sends: i32,
    /// The number of climbs that were finished at the first attempt.
    total_flashes: i32,
    /// The number of failed attempts.
    total_attempts: i32,
    /// The number of logged climbs.
    tick_count: i32,
    /// The figures of each participant.
    participants: Vec<SessionFeedParticipant>,
    /// The figures of each grade.
    grade_distribution: Vec<SessionGradeDistributionItem>,
    /// The kinds of board.
    board_types: Vec<String>,
    /// The hardest grade that was finished.
    hardest_grade: Option<String>,
    /// The duration in minutes.
    duration_minutes: Option<i32>,
    /// The goal of the members.
    goal: Option<String>,
    /// The logged climbs.
    ticks: Vec<SessionDetailTick>,
}

/// The figures of one participant.
#[derive(Debug, SimpleObject)]
pub(super) struct SessionFeedParticipant {
    /// The account.
    user_id: ID,
    /// The name to show.
    display_name: Option<String>,
    /// The picture to show.
    avatar_url: Option<String>,
    /// The number of finished climbs.
    sends: i32,
    /// The number of climbs that were finished at the first attempt.
    flashes: i32,
    /// The number of failed attempts.
    attempts: i32,
}

/// The figures of one grade.
#[derive(Debug, SimpleObject)]
pub(super) struct SessionGradeDistributionItem {
    /// The grade.
    grade: String,
    /// The number of climbs that were finished at the first attempt.
    flash: i32,
    /// The number of climbs that were finished at a later attempt.
    send: i32,
    /// The number of failed attempts.
    attempt: i32,
}

/// A logged climb.
#[derive(Debug, SimpleObject)]
pub(super) struct SessionDetailTick {
    /// The id of the entry.
    uuid: ID,
    /// The account of the climber.
    user_id: String,
    /// The id of the climb.
    climb_uuid: String,
    /// The name of the climb.
    climb_name: Option<String>,
    /// The kind of board.
    board_type: String,
    /// The layout of the board.
    layout_id: Option<i32>,
    /// The angle of the board in degrees.
    angle: i32,
    /// The result.
    status: String,
    /// The number of attempts.
    attempt_count: i32,
    /// The grade as a number.
    difficulty: Option<i32>,
    /// The grade.
    difficulty_name: Option<String>,
    /// The rating.
    quality: Option<i32>,
    /// Whether the climb was mirrored.
    is_mirror: bool,
    /// Whether the climb is a benchmark.
    is_benchmark: bool,
    /// The climber's comment.
    comment: Option<String>,
    /// The holds, in the notation of the board.
    frames: Option<String>,
    /// The user who set the climb.
    setter_username: Option<String>,
    /// When the climb was logged.
    climbed_at: String,
    /// The number of upvotes.
    upvotes: i32,
    /// The number of attempts since the climb was last finished.
    total_attempts: Option<i32>,
}
