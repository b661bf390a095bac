//! An item of the queue: a climb, and who put it there.
//!
//! Names are those of the GraphQL schema, which mixes two styles. Null and omission are alike, and
//! fields that the schema does not have are left out.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::value::canonical::canonical_json;
use crate::value::hash::{ContentHash, content_hash};

/// An item as clients write it; [`crate::value::validate::queue_item`] makes an [`Item`] of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueItem {
    /// The item's own id: the same climb may be queued twice, under two of them.
    pub uuid: String,
    /// What is to be climbed.
    pub climb: Climb,
    /// Who added it, as its client names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_by: Option<String>,
    /// Who added it, for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_by_user: Option<QueueItemUser>,
    /// Who has climbed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticked_by: Option<Vec<String>>,
    /// Whether the client suggested it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggested: Option<bool>,
}

/// Who added an item, for display.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueItemUser {
    /// The account, or whatever the client uses for one.
    pub id: String,
    /// The name to show.
    pub username: String,
    /// The picture to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avatar_url: Option<String>,
}

/// A climb, with everything that is needed to show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Climb {
    /// The climb's id in its catalogue, which is not always an RFC 4122 UUID.
    pub uuid: String,
    /// The layout of the board; clients cannot set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout_id: Option<i32>,
    /// Who set it.
    #[serde(rename = "setter_username")]
    pub setter_username: String,
    /// What it is called.
    pub name: String,
    /// What its setter says about it.
    pub description: String,
    /// The holds, in the notation of the board.
    pub frames: String,
    /// The angle of the board in degrees.
    pub angle: i32,
    /// How many have climbed it.
    #[serde(rename = "ascensionist_count")]
    pub ascensionist_count: i32,
    /// Its grade.
    pub difficulty: String,
    /// Its average rating, as text.
    #[serde(rename = "quality_average")]
    pub quality_average: String,
    /// Its rating.
    pub stars: f64,
    /// How far the grade is off, as text.
    #[serde(rename = "difficulty_error")]
    pub difficulty_error: String,
    /// Which holds are lit, in any form that the board understands.
    pub lit_up_holds_map: Value,
    /// Whether it is climbed mirrored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirrored: Option<bool>,
    /// Its grade if it is a benchmark.
    #[serde(default, rename = "benchmark_difficulty", skip_serializing_if = "Option::is_none")]
    pub benchmark_difficulty: Option<String>,
    /// How often the user climbed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_ascents: Option<i32>,
    /// How often the user tried it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_attempts: Option<i32>,
    /// The kind of board; clients cannot set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub board_type: Option<String>,
}

/// An item that was found valid, shared by every state and event that holds it, with what is asked
/// of it again and again computed once.
#[derive(Clone)]
pub struct Item(Arc<Shared>);

struct Shared {
    value: QueueItem,
    size_bytes: usize,
    content_hash: ContentHash,
}

impl Item {
    /// Takes an item whose form was checked: its nesting must be bounded.
    pub(crate) fn new(value: QueueItem) -> Self {
        let json = serde_json::to_value(&value).expect("an item has no key that is not text");
        let canonical = canonical_json(&json);
        let size_bytes = canonical.len();
        Self(Arc::new(Shared { value, size_bytes, content_hash: content_hash(&canonical) }))
    }

    /// The item's own id.
    pub fn uuid(&self) -> &str {
        &self.0.value.uuid
    }

    /// The item as it was given.
    pub fn value(&self) -> &QueueItem {
        &self.0.value
    }

    /// How long the item is as canonical JSON, which is what the limits count.
    pub fn size_bytes(&self) -> usize {
        self.0.size_bytes
    }

    /// What the item contains, in sixteen hex digits.
    pub fn content_hash(&self) -> ContentHash {
        self.0.content_hash
    }

    /// Whether the climb is mirrored; not saying so means no.
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

/// Only the uuid, because content does not belong in logs.
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

/// Reads what a store kept. Its reader bounds the nesting, and a limit that was lowered since must
/// not make a session unreadable, so the item's form is not checked again.
impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        QueueItem::deserialize(deserializer).map(Self::new)
    }
}
