//! What clients write. Null and omission are alike.

use async_graphql::{ID, InputObject};
use serde_json::Value;

use crate::value::item::{Climb, QueueItem, QueueItemUser};
use crate::value::operation::NewSession;

/// A climb for the queue, and who puts it there.
#[derive(Debug, InputObject)]
#[graphql(name = "ClimbQueueItemInput")]
pub(super) struct ItemInput {
    /// The item's own id, a UUID that the client makes.
    uuid: ID,
    /// What is to be climbed.
    climb: ClimbInput,
    /// Who adds it, as the client names them.
    added_by: Option<String>,
    /// Who adds it, for display.
    added_by_user: Option<QueueItemUserInput>,
    /// Who has climbed it.
    ticked_by: Option<Vec<String>>,
    /// Whether the client suggests it by itself.
    suggested: Option<bool>,
}

/// Who adds an item, for display.
#[derive(Debug, InputObject)]
pub(super) struct QueueItemUserInput {
    /// The account, or whatever the client uses for one.
    id: ID,
    /// The name to show.
    username: String,
    /// The picture to show.
    avatar_url: Option<String>,
}

/// A climb, with everything that is needed to show it.
#[derive(Debug, InputObject)]
pub(super) struct ClimbInput {
    /// The climb's id in its catalogue.
    uuid: ID,
    /// Who set it.
    #[graphql(name = "setter_username")]
    setter_username: String,
    /// What it is called.
    name: String,
    /// What its setter says about it.
    description: String,
    /// The holds, in the notation of the board.
    frames: String,
    /// The angle of the board in degrees.
    angle: i32,
    /// How many have climbed it.
    #[graphql(name = "ascensionist_count")]
    ascensionist_count: i32,
    /// Its grade.
    difficulty: String,
    /// Its average rating, as text.
    #[graphql(name = "quality_average")]
    quality_average: String,
    /// Its rating.
    stars: f64,
    /// How far the grade is off, as text.
    #[graphql(name = "difficulty_error")]
    difficulty_error: String,
    /// Which holds are lit, in any form that the board understands.
    lit_up_holds_map: Value,
    /// Whether it is climbed mirrored.
    mirrored: Option<bool>,
    /// Its grade if it is a benchmark.
    #[graphql(name = "benchmark_difficulty")]
    benchmark_difficulty: Option<String>,
    /// How often the user climbed it.
    user_ascents: Option<i32>,
    /// How often the user tried it.
    user_attempts: Option<i32>,
}

/// A session that is to be.
#[derive(Debug, InputObject)]
pub(super) struct CreateSessionInput {
    /// The board, as a path of the site.
    board_path: String,
    /// Where it is.
    latitude: f64,
    /// Where it is.
    longitude: f64,
    /// Its name.
    name: Option<String>,
    /// Whether those nearby find it.
    discoverable: bool,
    /// What its members are up to.
    goal: Option<String>,
    /// Whether it is never ended for lack of use.
    is_permanent: Option<bool>,
    /// The boards that it uses.
    pub(super) board_ids: Option<Vec<i32>>,
    /// Its colour, as `#` and six hex digits.
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
