//! An item of the queue: a climb, and the user who added it.
//!
//! Names are those of the GraphQL schema, which mixes two styles. A null field is equal to a
//! missing one, and fields that the schema does not have are dropped.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::value::canonical::canonical_json;
use crate::value::hash::{ContentHash, content_hash};

/// An item as clients send it; [`crate::value::validate::queue_item`] turns it into an [`Item`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueItem {
    /// The id of the item. The same climb may be queued twice, as two items.
    pub uuid: String,
    /// The climb.
    pub climb: Climb,
    /// The user who added the item, as named by the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_by: Option<String>,
    /// The user who added the item, for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_by_user: Option<QueueItemUser>,
    /// The users who have climbed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticked_by: Option<Vec<String>>,
    /// Whether the client added the item as a suggestion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggested: Option<bool>,
}

/// The user who added an item, for display.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueItemUser {
    /// The account, or another id that the client uses.
    pub id: String,
    /// The name to show.
    pub username: String,
    /// The picture to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avatar_url: Option<String>,
}

/// A climb, with all fields that are needed to display it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Climb {
    /// The climb's id in its catalogue, which is not always an RFC 4122 UUID.
    pub uuid: String,
    /// The layout of the board; clients cannot set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout_id: Option<i32>,
    /// The user who set the climb.
    #[serde(rename = "setter_username")]
    pub setter_username: String,
    /// The name of the climb.
    pub name: String,
    /// The setter's description.
    pub description: String,
    /// The holds, in the notation of the board.
    pub frames: String,
    /// The angle of the board in degrees.
    pub angle: i32,
    /// The number of users who have climbed it.
    #[serde(rename = "ascensionist_count")]
    pub ascensionist_count: i32,
    /// The grade.
    pub difficulty: String,
    /// The average rating, as text.
    #[serde(rename = "quality_average")]
    pub quality_average: String,
    /// The rating.
    pub stars: f64,
    /// The deviation of the grade, as text.
    #[serde(rename = "difficulty_error")]
    pub difficulty_error: String,
    /// The lit holds, in any form that the board understands.
    pub lit_up_holds_map: Value,
    /// Whether the climb is mirrored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirrored: Option<bool>,
    /// The grade, if the climb is a benchmark.
    #[serde(default, rename = "benchmark_difficulty", skip_serializing_if = "Option::is_none")]
    pub benchmark_difficulty: Option<String>,
    /// The number of the user's ascents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_ascents: Option<i32>,
    /// The number of the user's attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_attempts: Option<i32>,
    /// The kind of board; clients cannot set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub board_type: Option<String>,
}

/// A valid item, shared by every state and event that holds it, with its size and hash computed
/// once.
#[derive(Clone)]
pub struct Item(Arc<Shared>);

struct Shared {
    value: QueueItem,
    size_bytes: usize,
    content_hash: ContentHash,
}

impl Item {
    /// An item whose form was validated: its nesting must be bounded.
    pub(crate) fn new(value: QueueItem) -> Self {
        let json = serde_json::to_value(&value).expect("an item has no key that is not text");
        let canonical = canonical_json(&json);
        let size_bytes = canonical.len();
        Self(Arc::new(Shared { value, size_bytes, content_hash: content_hash(&canonical) }))
    }

    /// The id of the item.
    pub fn uuid(&self) -> &str {
        &self.0.value.uuid
    }

    /// The item as it was given.
    pub fn value(&self) -> &QueueItem {
        &self.0.value
    }

    /// The length of the item as canonical JSON, which the limits count.
    pub fn size_bytes(&self) -> usize {
        self.0.size_bytes
    }

    /// The hash of the content: sixteen hex digits.
    pub fn content_hash(&self) -> ContentHash {
        self.0.content_hash
    }

    /// Whether the climb is mirrored; a missing field counts as false.
    pub fn is_mirrored(&self) -> bool {
        self.0.value.climb.mirrored.unwrap_or_default()
    }

    /// The same item, mirrored or not.
    #[must_use]
    pub fn mirrored(&self, mirrored: bool) -> Self {
        let mut value = self.0.value.clone();
        value.climb.mirrored = Some(mirrored);
        Self::new(value)
    }
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.value == other.0.value
    }
}

/// Writes only the uuid and the hash, because content does not belong in logs.
impl fmt::Debug for Item {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Item({} {})", self.uuid(), self.content_hash())
    }
}

impl Serialize for Item {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.value.serialize(serializer)
    }
}

/// Reads a stored item without validating it again: its reader bounds the nesting, and a limit that
/// was lowered since must not make a session unreadable.
impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        QueueItem::deserialize(deserializer).map(Self::new)
    }
}
