//! The inputs of mutations. A null field is equal to a missing one.

use async_graphql::{ID, InputObject};
use serde_json::Value;

use crate::value::item::{Climb, QueueItem, QueueItemUser};
use crate::value::operation::NewSession;

/// An item for the queue: a climb, and the user who adds it.
#[derive(Debug, InputObject)]
#[graphql(name = "ClimbQueueItemInput")]
pub(super) struct ItemInput {
    /// The id of the item: a UUID that the client generates.
    uuid: ID,
    /// The climb.
    climb: ClimbInput,
    /// The user who adds the item, as named by the client.
    added_by: Option<String>,
    /// The user who adds the item, for display.
    added_by_user: Option<QueueItemUserInput>,
    /// The users who have climbed it.
    ticked_by: Option<Vec<String>>,
    /// Whether the client adds the item as a suggestion.
    suggested: Option<bool>,
}

/// The user who adds an item, for display.
#[derive(Debug, InputObject)]
pub(super) struct QueueItemUserInput {
    /// The account, or another id that the client uses.
    id: ID,
    /// The name to show.
    username: String,
    /// The picture to show.
    avatar_url: Option<String>,
}

/// A climb, with all fields that are needed to display it.
#[derive(Debug, InputObject)]
pub(super) struct ClimbInput {
    /// The climb's id in its catalogue.
    uuid: ID,
    /// The user who set the climb.
    #[graphql(name = "setter_username")]
    setter_username: String,
    /// The name of the climb.
    name: String,
    /// The setter's description.
    description: String,
    /// The holds, in the notation of the board.
    frames: String,
    /// The angle of the board in degrees.
    angle: i32,
    /// The number of users who have climbed it.
    #[graphql(name = "ascensionist_count")]
    ascensionist_count: i32,
    /// The grade.
    difficulty: String,
    /// The average rating, as text.
    #[graphql(name = "quality_average")]
    quality_average: String,
    /// The rating.
    stars: f64,
    /// The deviation of the grade, as text.
    #[graphql(name = "difficulty_error")]
    difficulty_error: String,
    /// The lit holds, in any form that the board understands.
    lit_up_holds_map: Value,
    /// Whether the climb is mirrored.
    mirrored: Option<bool>,
    /// The grade, if the climb is a benchmark.
    #[graphql(name = "benchmark_difficulty")]
    benchmark_difficulty: Option<String>,
    /// The number of the user's ascents.
    user_ascents: Option<i32>,
    /// The number of the user's attempts.
    user_attempts: Option<i32>,
}

/// The details of a session to create.
#[derive(Debug, InputObject)]
pub(super) struct CreateSessionInput {
    /// The board, as a path of the site.
    board_path: String,
    /// The latitude in degrees.
    latitude: f64,
    /// The longitude in degrees.
    longitude: f64,
    /// The name.
    name: Option<String>,
    /// Whether `nearbySessions` finds the session.
    discoverable: bool,
    /// The goal of the members.
    goal: Option<String>,
    /// Whether the session is exempt from being ended when unused.
    is_permanent: Option<bool>,
    /// The boards that the session uses.
    pub(super) board_ids: Option<Vec<i32>>,
    /// The colour, as `#` and six hex digits.
    color: Option<String>,
}

impl From<ItemInput> for QueueItem {
    fn from(input: ItemInput) -> Self {
        Self {
            uuid: input.uuid.0,
            climb: input.climb.into(),
            added_by: input.added_by,
            added_by_user: input.added_by_user.map(Into::into),
            ticked_by: input.ticked_by,
            suggested: input.suggested,
        }
    }
}

impl From<QueueItemUserInput> for QueueItemUser {
    fn from(input: QueueItemUserInput) -> Self {
        Self { id: input.id.0, username: input.username, avatar_url: input.avatar_url }
    }
}

impl From<ClimbInput> for Climb {
    fn from(input: ClimbInput) -> Self {
        Self {
            uuid: input.uuid.0,
            layout_id: None,
            setter_username: input.setter_username,
            name: input.name,
            description: input.description,
            frames: input.frames,
            angle: input.angle,
            ascensionist_count: input.ascensionist_count,
            difficulty: input.difficulty,
            quality_average: input.quality_average,
            stars: input.stars,
            difficulty_error: input.difficulty_error,
            lit_up_holds_map: input.lit_up_holds_map,
            mirrored: input.mirrored,
            benchmark_difficulty: input.benchmark_difficulty,
            user_ascents: input.user_ascents,
            user_attempts: input.user_attempts,
            board_type: None,
        }
    }
}

impl From<CreateSessionInput> for NewSession {
    fn from(input: CreateSessionInput) -> Self {
        Self {
            board_path: input.board_path,
            latitude: input.latitude,
            longitude: input.longitude,
            name: input.name,
            discoverable: input.discoverable,
            goal: input.goal,
            is_permanent: input.is_permanent.unwrap_or_default(),
            color: input.color,
        }
    }
}
