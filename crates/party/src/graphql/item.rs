//! Items of the queue as the schema shows them, read from the shared ones.

use async_graphql::{ID, Object};
use serde_json::Value;

use crate::value::item::{Climb, Item, QueueItemUser};

/// A climb in the queue, and who put it there.
#[derive(Debug, Clone)]
pub(super) struct ItemView(pub(super) Item);

/// A climb in the queue, and who put it there.
#[Object(name = "ClimbQueueItem")]
impl ItemView {
    /// The item's own id: the same climb may be queued twice, under two of them.
    async fn uuid(&self) -> ID {
        self.0.uuid().into()
    }

    /// What is to be climbed.
    async fn climb(&self) -> ClimbView<'_> {
        ClimbView(&self.0.value().climb)
    }

    /// Who added it, as its client names them.
    async fn added_by(&self) -> Option<&str> {
        self.0.value().added_by.as_deref()
    }

    /// Who added it, for display.
    async fn added_by_user(&self) -> Option<QueueItemUserView<'_>> {
        self.0.value().added_by_user.as_ref().map(QueueItemUserView)
    }

    /// Who has climbed it.
    async fn ticked_by(&self) -> Option<&Vec<String>> {
        self.0.value().ticked_by.as_ref()
    }

    /// Whether the client suggested it by itself.
    async fn suggested(&self) -> Option<bool> {
        self.0.value().suggested
    }
}

/// Who added an item, for display.
#[derive(Debug)]
pub(super) struct QueueItemUserView<'a>(&'a QueueItemUser);

/// Who added an item, for display.
#[Object(name = "QueueItemUser")]
impl QueueItemUserView<'_> {
    /// The account, or whatever the client uses for one.
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

/// A climb, with everything that is needed to show it.
#[derive(Debug)]
pub(super) struct ClimbView<'a>(&'a Climb);

/// A climb, with everything that is needed to show it.
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

    /// Who set it.
    #[graphql(name = "setter_username")]
    async fn setter_username(&self) -> &str {
        &self.0.setter_username
    }

    /// What it is called.
    async fn name(&self) -> &str {
        &self.0.name
    }

    /// What its setter says about it.
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

    /// How many have climbed it.
    #[graphql(name = "ascensionist_count")]
    async fn ascensionist_count(&self) -> i32 {
        self.0.ascensionist_count
    }

    /// Its grade.
    async fn difficulty(&self) -> &str {
        &self.0.difficulty
    }

    /// Its average rating, as text.
    #[graphql(name = "quality_average")]
    async fn quality_average(&self) -> &str {
        &self.0.quality_average
    }

    /// Its rating.
    async fn stars(&self) -> f64 {
        self.0.stars
    }

    /// How far the grade is off, as text.
    #[graphql(name = "difficulty_error")]
    async fn difficulty_error(&self) -> &str {
        &self.0.difficulty_error
    }

    /// Which holds are lit, in any form that the board understands.
    async fn lit_up_holds_map(&self) -> &Value {
        &self.0.lit_up_holds_map
    }

    /// Whether it is climbed mirrored.
    async fn mirrored(&self) -> Option<bool> {
        self.0.mirrored
    }

    /// Its grade if it is a benchmark.
    #[graphql(name = "benchmark_difficulty")]
    async fn benchmark_difficulty(&self) -> Option<&str> {
        self.0.benchmark_difficulty.as_deref()
    }

    /// How often the user climbed it.
    async fn user_ascents(&self) -> Option<i32> {
        self.0.user_ascents
    }

    /// How often the user tried it.
    async fn user_attempts(&self) -> Option<i32> {
        self.0.user_attempts
    }

    /// The kind of board; clients cannot set it.
    async fn board_type(&self) -> Option<&str> {
        self.0.board_type.as_deref()
    }
}
