//! What was climbed in a session. Climbs are logged elsewhere, so that these figures are zero and
//! their events are never sent; the types are here because clients name them.

use std::collections::BTreeMap;

use async_graphql::{ID, SimpleObject};
use heartline_protocol::UserId;

use super::session::iso;
use crate::value::roster::Member;
use crate::value::session::Session;

/// A session in figures.
#[derive(Debug, SimpleObject)]
pub(super) struct SessionSummary {
    /// Which session.
    session_id: ID,
    /// Climbs that were finished.
    total_sends: i32,
    /// Tries that were not.
    total_attempts: i32,
    /// Finished climbs by grade.
    grade_distribution: Vec<SessionGradeCount>,
    /// The hardest of them.
    hardest_climb: Option<SessionHardestClimb>,
    /// The accounts that were members.
    participants: Vec<SessionParticipant>,
    /// When somebody first joined.
    started_at: Option<String>,
    /// When it ended.
    ended_at: Option<String>,
    /// How long it took.
    duration_minutes: Option<u64>,
    /// What its members were up to.
    goal: Option<String>,
}

/// How many climbs of a grade were finished.
#[derive(Debug, SimpleObject)]
pub(super) struct SessionGradeCount {
    /// The grade.
    grade: String,
    /// How many.
    count: i32,
}

/// The hardest climb that was finished.
#[derive(Debug, SimpleObject)]
pub(super) struct SessionHardestClimb {
    /// Which.
    climb_uuid: String,
    /// What it is called.
    climb_name: String,
    /// Its grade.
    grade: String,
}

/// An account that was a member.
#[derive(Debug, SimpleObject)]
pub(super) struct SessionParticipant {
    /// Which.
    user_id: String,
    /// The name to show.
    display_name: Option<String>,
    /// The picture to show.
    avatar_url: Option<String>,
    /// Climbs that it finished.
    sends: i32,
    /// Tries that it did not.
    attempts: i32,
}

impl SessionSummary {
    /// A session in figures: with its present members, and the accounts that were members before.
    pub(super) fn of(session: &Session, members: &[Member], former: &[UserId]) -> Self {
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

/// Somebody climbed something.
#[derive(Debug, SimpleObject)]
pub(super) struct SessionStatsUpdated {
    /// In which session.
    session_id: ID,
    /// Climbs that were finished.
    total_sends: i32,
    /// Those of them that took one try.
    total_flashes: i32,
    /// Tries that failed.
    total_attempts: i32,
    /// Climbs that were logged.
    tick_count: i32,
    /// The same for each participant.
    participants: Vec<SessionFeedParticipant>,
    /// The same by grade.
    grade_distribution: Vec<SessionGradeDistributionItem>,
    /// The kinds of board.
    board_types: Vec<String>,
    /// The hardest grade that was climbed.
    hardest_grade: Option<String>,
    /// How long the session has taken.
    duration_minutes: Option<i32>,
    /// What its members are up to.
    goal: Option<String>,
    /// What was logged.
    ticks: Vec<SessionDetailTick>,
}

/// What one participant has climbed.
#[derive(Debug, SimpleObject)]
pub(super) struct SessionFeedParticipant {
    /// The account.
    user_id: ID,
    /// The name to show.
    display_name: Option<String>,
    /// The picture to show.
    avatar_url: Option<String>,
    /// Climbs that it finished.
    sends: i32,
    /// Those of them that took one try.
    flashes: i32,
    /// Tries that failed.
    attempts: i32,
}

/// What was climbed of one grade.
#[derive(Debug, SimpleObject)]
pub(super) struct SessionGradeDistributionItem {
    /// The grade.
    grade: String,
    /// Climbs that took one try.
    flash: i32,
    /// Climbs that took more.
    send: i32,
    /// Tries that failed.
    attempt: i32,
}

/// One climb that was logged.
#[derive(Debug, SimpleObject)]
pub(super) struct SessionDetailTick {
    /// The entry's id.
    uuid: ID,
    /// Whose it is.
    user_id: String,
    /// Which climb.
    climb_uuid: String,
    /// What it is called.
    climb_name: Option<String>,
    /// The kind of board.
    board_type: String,
    /// The layout of the board.
    layout_id: Option<i32>,
    /// The angle of the board in degrees.
    angle: i32,
    /// What came of it.
    status: String,
    /// How many tries it took.
    attempt_count: i32,
    /// Its grade as a number.
    difficulty: Option<i32>,
    /// Its grade.
    difficulty_name: Option<String>,
    /// How good it was.
    quality: Option<i32>,
    /// Whether it was climbed mirrored.
    is_mirror: bool,
    /// Whether it is a benchmark.
    is_benchmark: bool,
    /// What the climber says.
    comment: Option<String>,
    /// The holds.
    frames: Option<String>,
    /// Who set it.
    setter_username: Option<String>,
    /// When it was climbed.
    climbed_at: String,
    /// How many like it.
    upvotes: i32,
    /// All tries since it was last climbed.
    total_attempts: Option<i32>,
}
