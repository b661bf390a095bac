//! Validation of an item and of a whole queue.

use serde_json::Value;

use super::{Reasons, length};
use crate::value::error::PartyError;
use crate::value::item::{Climb, Item, QueueItem, QueueItemUser};
use crate::value::limits::{ITEM_BYTES_MAX, ITEM_NESTING_MAX};

/// Validates an item.
pub fn queue_item(argument: &'static str, item: QueueItem) -> Result<Item, PartyError> {
    let mut reasons = Reasons::of(argument);
    reasons.item(&item);
    reasons.finish()?;
    within_bytes(argument, Item::new(item))
}

/// Validates the items of a queue. Rules about several items are checked when they are applied.
pub fn queue(
    argument: &'static str,
    items: Vec<QueueItem>,
    items_max: usize,
) -> Result<Vec<Item>, PartyError> {
    if items.len() > items_max {
        return Err(PartyError::too_large(argument, &queue_too_large(items_max)));
    }
    let mut reasons = Reasons::of(argument);
    items.iter().for_each(|item| reasons.item(item));
    reasons.finish()?;
    items.into_iter().map(|item| within_bytes(argument, Item::new(item))).collect()
}

/// The reason for a queue with too many items.
pub(crate) fn queue_too_large(items_max: usize) -> String {
    format!("Queue too large (at most {items_max} items)")
}

fn within_bytes(argument: &'static str, item: Item) -> Result<Item, PartyError> {
    if item.size_bytes() > ITEM_BYTES_MAX {
        let reason = format!("Queue item too large (at most {ITEM_BYTES_MAX} bytes)");
        return Err(PartyError::too_large(argument, &reason));
    }
    Ok(item)
}

impl Reasons {
    fn item(&mut self, item: &QueueItem) {
        self.require(is_uuid(&item.uuid), "Invalid UUID format");
        self.climb(&item.climb);
        if let Some(added_by) = &item.added_by {
            self.not_longer(added_by, 100, "Added by");
        }
        if let Some(user) = &item.added_by_user {
            self.added_by_user(user);
        }
        if let Some(ticked_by) = &item.ticked_by {
            self.require(ticked_by.len() <= 100, "Ticked by has too many entries");
            let short = ticked_by.iter().all(|user| length(user) <= 100);
            self.require(short, "Ticked by too long");
        }
    }

    fn added_by_user(&mut self, user: &QueueItemUser) {
        self.not_longer(&user.id, 100, "User ID");
        self.not_longer(&user.username, 100, "Username");
        if let Some(avatar_url) = &user.avatar_url {
            self.not_longer(avatar_url, 500, "Avatar URL");
        }
    }

    fn climb(&mut self, climb: &Climb) {
        self.not_empty(&climb.uuid, 50, "UUID");
        self.not_longer(&climb.name, 200, "Climb name");
        self.not_longer(&climb.description, 2000, "Climb description");
        self.not_longer(&climb.frames, 10_000, "Climb frames");
        self.not_longer(&climb.setter_username, 100, "Setter username");
        self.not_longer(&climb.difficulty, 50, "Difficulty");
        self.not_longer(&climb.quality_average, 20, "Quality average");
        self.not_longer(&climb.difficulty_error, 50, "Difficulty error");
        if let Some(benchmark) = &climb.benchmark_difficulty {
            self.not_longer(benchmark, 50, "Benchmark difficulty");
        }
        self.require((0..=90).contains(&climb.angle), "Angle must be between 0 and 90");
        self.require((0.0..=15.0).contains(&climb.stars), "Stars must be between 0 and 15");
        let counts = [Some(climb.ascensionist_count), climb.user_ascents, climb.user_attempts];
        let natural = counts.into_iter().flatten().all(|count| count >= 0);
        self.require(natural, "Counts cannot be negative");
        let shallow = is_within(&climb.lit_up_holds_map, ITEM_NESTING_MAX);
        self.require(shallow, "Lit up holds map nested too deeply");
    }
}

/// Whether a value is nested at most this deep. Recurses no deeper, so the stack is bounded.
fn is_within(value: &Value, levels: usize) -> bool {
    let inside = |value: &Value| levels > 0 && is_within(value, levels - 1);
    match value {
        Value::Array(values) => values.iter().all(inside),
        Value::Object(members) => members.values().all(inside),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// Whether the text has the form of a UUID of RFC 4122, of any version.
fn is_uuid(text: &str) -> bool {
    let groups = [8, 4, 4, 4, 12];
    let mut parts = text.split('-');
    let each_fits = groups.into_iter().all(|digits| {
        parts.next().is_some_and(|part| {
            part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    });
    each_fits && parts.next().is_none()
}
