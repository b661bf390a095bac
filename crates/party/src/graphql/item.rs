//! Items of the queue as the schema shows them, read from the shared ones.

use async_graphql::{ID, Object};
use serde_json::Value;

use crate::value::item::{Climb, Item, QueueItemUser};

/// An item of the queue: a climb, and the user who added it.
#[derive(Debug, Clone)]
pub(super) struct ItemView(pub(super) Item);

/// An item of the queue: a climb, and the user who added it.
#[Object(name = "ClimbQueueItem")]
impl ItemView {
    /// The id of the item. The same climb may be queued twice, as two items.
    async fn uuid(&self) -> ID {
        self.0.uuid().into()
    }

    /// The climb.
    async fn climb(&self) -> ClimbView<'_> {
        ClimbView(&self.0.value().climb)
    }

    /// The user who added the item, as named by the client.
    async fn added_by(&self) -> Option<&str> {
        self.0.value().added_by.as_deref()
    }

    /// The user who added the item, for display.
    async fn added_by_user(&self) -> Option<QueueItemUserView<'_>> {
        self.0.value().added_by_user.as_ref().map(QueueItemUserView)
    }

    /// The users who have climbed it.
    async fn ticked_by(&self) -> Option<&Vec<String>> {
        self.0.value().ticked_by.as_ref()
    }

    /// Whether the client added the item as a suggestion.
    async fn suggested(&self) -> Option<bool> {
        self.0.value().suggested
    }
}

/// The user who added an item, for display.
#[derive(Debug)]
pub(super) struct QueueItemUserView<'a>(&'a QueueItemUser);

/// The user who added an item, for display.
#[Object(name = "QueueItemUser")]
impl QueueItemUserView<'_> {
    /// The account, or another id that the client uses.
    async fn id(&self) -> ID {
        self.0.id.as_str().into()
    }

    /// The name to show.
    async fn username(&self) -> &str {
        &self.0.username
    }

    /// The picture to show.
    async fn avatar_url(&self) -> Option<&str> {
        self.0.avatar_url.as_deref()
    }
}

/// A climb, with all fields that are needed to display it.
#[derive(Debug)]
pub(super) struct ClimbView<'a>(&'a Climb);

/// A climb, with all fields that are needed to display it.
#[Object(name = "Climb")]
impl ClimbView<'_> {
    /// The climb's id in its catalogue.
    async fn uuid(&self) -> ID {
        self.0.uuid.as_str().into()
    }

    /// The layout of the board; clients cannot set it.
    async fn layout_id(&self) -> Option<i32> {
        self.0.layout_id
    }

    /// The user who set the climb.
    #[graphql(name = "setter_username")]
    async fn setter_username(&self) -> &str {
        &self.0.setter_username
    }

    /// The name of the climb.
    async fn name(&self) -> &str {
        &self.0.name
    }

    /// The setter's description.
    async fn description(&self) -> &str {
        &self.0.description
    }

    /// The holds, in the notation of the board.
    async fn frames(&self) -> &str {
        &self.0.frames
    }

    /// The angle of the board in degrees.
    async fn angle(&self) -> i32 {
        self.0.angle
    }

    /// The number of users who have climbed it.
    #[graphql(name = "ascensionist_count")]
    async fn ascensionist_count(&self) -> i32 {
        self.0.ascensionist_count
    }

    /// The grade.
    async fn difficulty(&self) -> &str {
        &self.0.difficulty
    }

    /// The average rating, as text.
    #[graphql(name = "quality_average")]
    async fn quality_average(&self) -> &str {
        &self.0.quality_average
    }

    /// The rating.
    async fn stars(&self) -> f64 {
        self.0.stars
    }

    /// The deviation of the grade, as text.
    #[graphql(name = "difficulty_error")]
    async fn difficulty_error(&self) -> &str {
        &self.0.difficulty_error
    }

    /// The lit holds, in any form that the board understands.
    async fn lit_up_holds_map(&self) -> &Value {
        &self.0.lit_up_holds_map
    }

    /// Whether the climb is mirrored.
    async fn mirrored(&self) -> Option<bool> {
        self.0.mirrored
    }

    /// The grade, if the climb is a benchmark.
    #[graphql(name = "benchmark_difficulty")]
    async fn benchmark_difficulty(&self) -> Option<&str> {
        self.0.benchmark_difficulty.as_deref()
    }

    /// The number of the user's ascents.
    async fn user_ascents(&self) -> Option<i32> {
        self.0.user_ascents
    }

    /// The number of the user's attempts.
    async fn user_attempts(&self) -> Option<i32> {
        self.0.user_attempts
    }

    /// The kind of board; clients cannot set it.
    async fn board_type(&self) -> Option<&str> {
        self.0.board_type.as_deref()
    }
}
