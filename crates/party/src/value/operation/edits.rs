//! Edits of the queue. Any member may edit; an edit without an effect gives no event.

use std::collections::BTreeSet;

use super::draft::Draft;
use super::{Outcome, acting_member};
use crate::value::error::PartyError;
use crate::value::fact::{Contents, Fact, QueueChange};
use crate::value::item::Item;
use crate::value::limits::Limits;
use crate::value::validate;
use crate::value::validate::queue_too_large;

/// A change of the queue.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// Adds an item.
    Add {
        /// The item.
        item: Item,
        /// Its position; the end if none is given or it is beyond the end.
        position: Option<i32>,
    },
    /// Removes an item from the queue, and clears the current climb if it is that one. A current
    /// climb that is not in the queue stays.
    Remove {
        /// The item.
        uuid: String,
    },
    /// Moves an item.
    Reorder {
        /// The item.
        uuid: String,
        /// Its position as the client saw it. A hint only: others may have moved it since.
        old_index: i32,
        /// Its new position.
        new_index: i32,
    },
    /// Sets or clears the current climb.
    SetCurrent {
        /// The item.
        item: Option<Item>,
        /// Whether to add it to the queue if it is not there.
        should_add: bool,
    },
    /// Mirrors the current climb, or stops mirroring it.
    Mirror {
        /// Whether it is mirrored.
        mirrored: bool,
    },
    /// Replaces an item by another.
    Replace {
        /// The item to replace.
        uuid: String,
        /// The item.
        item: Item,
    },
    /// Replaces the whole queue.
    SetQueue {
        /// The items.
        queue: Vec<Item>,
        /// The current climb.
        current: Option<Item>,
    },
}

impl Edit {
    /// The mutation's name in the schema.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Add { .. } => "addQueueItem",
            Self::Remove { .. } => "removeQueueItem",
            Self::Reorder { .. } => "reorderQueueItem",
            Self::SetCurrent { .. } => "setCurrentClimb",
            Self::Mirror { .. } => "mirrorCurrentClimb",
            Self::Replace { .. } => "replaceQueueItem",
            Self::SetQueue { .. } => "setQueue",
        }
    }

    /// Its size in the log in bytes: its items, but not those of a whole queue.
    pub(crate) fn size_bytes(&self) -> usize {
        match self {
            Self::Add { item, .. } | Self::Replace { item, .. } => item.size_bytes(),
            Self::SetCurrent { item, .. } => item.as_ref().map_or(0, Item::size_bytes),
            Self::Remove { .. }
            | Self::Reorder { .. }
            | Self::Mirror { .. }
            | Self::SetQueue { .. } => 0,
        }
    }
}

pub(super) fn apply(draft: &mut Draft<'_>, edit: &Edit) -> Result<Outcome, PartyError> {
    let member = acting_member(draft)?;
    let unconfirmed = member.resume.as_ref().is_some_and(|resume| !resume.previous.is_empty());
    let member = member.id.clone();
    let outcome = match edit {
        Edit::Add { item, position } => add(draft, item, *position),
        Edit::Remove { uuid } => remove(draft, uuid),
        Edit::Reorder { uuid, old_index, new_index } => {
            validate::index("oldIndex", *old_index)?;
            reorder(draft, uuid, validate::index("newIndex", *new_index)?)
        }
        Edit::SetCurrent { item, should_add } => set_current(draft, item.as_ref(), *should_add),
        Edit::Mirror { mirrored } => Ok(mirror(draft, *mirrored)),
        Edit::Replace { uuid, item } => replace(draft, uuid, item),
        Edit::SetQueue { queue, current } => set_queue(draft, queue, current.as_ref()),
    }?;
    if unconfirmed {
        draft.record(Fact::ResumeConfirmed { member });
    }
    Ok(outcome)
}

fn add(draft: &mut Draft<'_>, item: &Item, position: Option<i32>) -> Result<Outcome, PartyError> {
    let position = position.map(|position| validate::index("position", position)).transpose()?;
    let state = &draft.session.queue;
    if let Some(present) = state.position(item.uuid()) {
        return Ok(Outcome::Item(state.queue[present].clone()));
    }
    check_room(draft, item)?;
    let end = state.queue.len();
    let position = position.unwrap_or(end).min(end);
    draft.queue_event(QueueChange::QueueItemAdded { item: item.clone(), position });
    Ok(Outcome::Item(item.clone()))
}

fn remove(draft: &mut Draft<'_>, uuid: &str) -> Result<Outcome, PartyError> {
    validate::item_id("uuid", uuid)?;
    if draft.session.queue.position(uuid).is_some() {
        draft.queue_event(QueueChange::QueueItemRemoved { uuid: uuid.to_owned() });
    }
    Ok(Outcome::Done)
}

fn reorder(draft: &mut Draft<'_>, uuid: &str, new_index: usize) -> Result<Outcome, PartyError> {
    validate::item_id("uuid", uuid)?;
    let length = draft.session.queue.queue.len();
    if new_index >= length {
        return Err(PartyError::invalid("index", &[format!("queue has {length} items")]));
    }
    let old_index = draft.session.queue.position(uuid).ok_or_else(PartyError::item_not_found)?;
    if old_index != new_index {
        let uuid = uuid.to_owned();
        draft.queue_event(QueueChange::QueueReordered { uuid, old_index, new_index });
    }
    Ok(Outcome::Done)
}

fn set_current(
    draft: &mut Draft<'_>,
    item: Option<&Item>,
    should_add: bool,
) -> Result<Outcome, PartyError> {
    if let Some(item) = item.filter(|_| should_add) {
        // The item comes first, so that no client sees a current climb that is not yet queued.
        add(draft, item, None)?;
    }
    if draft.session.queue.current.as_ref() != item {
        draft.queue_event(QueueChange::CurrentClimbChanged { item: item.cloned() });
    }
    Ok(Outcome::Current(item.cloned()))
}

fn mirror(draft: &mut Draft<'_>, mirrored: bool) -> Outcome {
    let state = &draft.session.queue;
    let Some(current) = &state.current else { return Outcome::Current(None) };
    let queued = state.position(current.uuid()).map(|position| &state.queue[position]);
    let differs = |item: &Item| item.is_mirrored() != mirrored;
    if differs(current) || queued.is_some_and(differs) {
        draft.queue_event(QueueChange::ClimbMirrored { mirrored });
    }
    Outcome::Current(draft.session.queue.current.clone())
}

fn replace(draft: &mut Draft<'_>, uuid: &str, item: &Item) -> Result<Outcome, PartyError> {
    validate::item_id("uuid", uuid)?;
    let state = &draft.session.queue;
    let position = state.position(uuid).ok_or_else(PartyError::item_not_found)?;
    let mut contents = Contents { queue: state.queue.clone(), current: state.current.clone() };
    contents.queue[position] = item.clone();
    if contents.current.as_ref().is_some_and(|current| current.uuid() == uuid) {
        contents.current = Some(item.clone());
    }
    replace_contents(draft, "item", contents)?;
    Ok(Outcome::Item(item.clone()))
}

fn set_queue(
    draft: &mut Draft<'_>,
    queue: &[Item],
    current: Option<&Item>,
) -> Result<Outcome, PartyError> {
    let contents = Contents { queue: queue.to_vec(), current: current.cloned() };
    replace_contents(draft, "queue", contents)?;
    Ok(Outcome::QueueSet)
}

fn replace_contents(
    draft: &mut Draft<'_>,
    argument: &'static str,
    contents: Contents,
) -> Result<(), PartyError> {
    check_queue(argument, &contents.queue, &draft.context.limits)?;
    let state = &draft.session.queue;
    if (&state.queue, &state.current) != (&contents.queue, &contents.current) {
        draft.queue_event(QueueChange::QueueReplaced { contents: Some(contents) });
    }
    Ok(())
}

/// Whether one more item fits.
fn check_room(draft: &Draft<'_>, item: &Item) -> Result<(), PartyError> {
    let (state, limits) = (&draft.session.queue, &draft.context.limits);
    check_size("item", state.queue.len() + 1, state.size_bytes() + item.size_bytes(), limits)
}

/// Whether items make a legal queue together.
pub(super) fn check_queue(
    argument: &'static str,
    queue: &[Item],
    limits: &Limits,
) -> Result<(), PartyError> {
    check_size(argument, queue.len(), queue.iter().map(Item::size_bytes).sum(), limits)?;
    let mut uuids = BTreeSet::default();
    if let Some(twice) = queue.iter().find(|item| !uuids.insert(item.uuid())) {
        let reason = format!("UUID {} occurs more than once in the queue", twice.uuid());
        return Err(PartyError::invalid(argument, &[reason]));
    }
    Ok(())
}

fn check_size(
    argument: &'static str,
    items: usize,
    bytes: usize,
    limits: &Limits,
) -> Result<(), PartyError> {
    if items > limits.queue_items_max {
        return Err(PartyError::too_large(argument, &queue_too_large(limits.queue_items_max)));
    }
    if bytes > limits.queue_bytes_max {
        let reason = format!("Queue too large (at most {} bytes)", limits.queue_bytes_max);
        return Err(PartyError::too_large(argument, &reason));
    }
    Ok(())
}
