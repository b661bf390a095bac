//! The edits of a queue that tests make, and the events that must follow.

use heartline_testing::party::{ADD, Outcome, item, uuid};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::party_replica::Replica;

pub(crate) const REMOVE: &str = "mutation($uuid: ID!, $id: ID) {
    removeQueueItem(uuid: $uuid, correlationId: $id) }";
const REORDER: &str = "mutation($uuid: ID!, $from: Int!, $to: Int!, $id: ID) {
    reorderQueueItem(uuid: $uuid, oldIndex: $from, newIndex: $to, correlationId: $id) }";
const SET_CURRENT: &str = "mutation($item: ClimbQueueItemInput, $adds: Boolean, $id: ID) {
    setCurrentClimb(item: $item, shouldAddToQueue: $adds, correlationId: $id) { uuid } }";
const MIRROR: &str = "mutation($mirrored: Boolean!, $id: ID) {
    mirrorCurrentClimb(mirrored: $mirrored, correlationId: $id) { uuid } }";
const REPLACE: &str = "mutation($uuid: ID!, $item: ClimbQueueItemInput!, $id: ID) {
    replaceQueueItem(uuid: $uuid, item: $item, correlationId: $id) { uuid } }";
pub(crate) const SET_QUEUE: &str = "mutation($queue: [ClimbQueueItemInput!]!, $id: ID) {
    setQueue(queue: $queue, correlationId: $id) { sequence } }";

/// An edit. Items are known by their numbers, and no number is added twice.
#[derive(Debug, Clone)]
pub(crate) enum Edit {
    Add { number: usize, position: Option<usize> },
    Remove { number: usize },
    Reorder { number: usize, from: usize, to: usize },
    SetCurrent { number: usize, adds: bool },
    Mirror { mirrored: bool },
    Replace { number: usize, by: usize },
    SetQueue { numbers: Vec<usize> },
}

/// An edit that was asked for, and what became of it.
#[derive(Debug, Clone)]
pub(crate) struct Edited {
    pub(crate) name: String,
    pub(crate) edit: Edit,
    pub(crate) asked_at: Instant,
    pub(crate) answered_at: Instant,
    pub(crate) outcome: Outcome,
}

impl Edit {
    /// Something to do. New items get the number `next` and those that follow; the others are some
    /// that were acknowledged.
    pub(crate) fn any(random: &mut StdRng, next: usize, known: &[usize]) -> Self {
        let Some(number) = known.choose(random).copied() else {
            return Self::Add { number: next, position: None };
        };
        let place = random.random_range(0..8);
        match random.random_range(0..100) {
            0..36 => Self::Add { number: next, position: Some(place).filter(|place| *place < 6) },
            36..62 => Self::Remove { number },
            62..76 => Self::Reorder { number, from: 0, to: place },
            76..86 => Self::SetCurrent { number: next, adds: random.random_bool(0.5) },
            86..92 => Self::Mirror { mirrored: random.random_bool(0.5) },
            92..98 => Self::Replace { number, by: next },
            _ => Self::SetQueue { numbers: (next..next + 5).collect() },
        }
    }

    /// The mutation and its variables.
    pub(crate) fn request(&self, name: &str) -> (&'static str, Value) {
        let (query, mut variables) = match self {
            Self::Add { number, position } => {
                (ADD, json!({ "item": item(*number), "at": position }))
            }
            Self::Remove { number } => (REMOVE, json!({ "uuid": uuid(*number) })),
            Self::Reorder { number, from, to } => {
                (REORDER, json!({ "uuid": uuid(*number), "from": from, "to": to }))
            }
            Self::SetCurrent { number, adds } => {
                (SET_CURRENT, json!({ "item": item(*number), "adds": adds }))
            }
            Self::Mirror { mirrored } => (MIRROR, json!({ "mirrored": mirrored })),
            Self::Replace { number, by } => {
                (REPLACE, json!({ "uuid": uuid(*number), "item": item(*by) }))
            }
            Self::SetQueue { numbers } => {
                let queue: Vec<Value> = numbers.iter().map(|number| item(*number)).collect();
                (SET_QUEUE, json!({ "queue": queue }))
            }
        };
        variables["id"] = json!(name);
        (query, variables)
    }

    /// The events that it comes to if it changes something, by the names of the log.
    pub(crate) fn events(&self) -> Vec<&'static str> {
        match self {
            Self::Add { .. } => vec!["QueueItemAdded"],
            Self::Remove { .. } => vec!["QueueItemRemoved"],
            Self::Reorder { .. } => vec!["QueueReordered"],
            Self::SetCurrent { adds: true, .. } => vec!["QueueItemAdded", "CurrentClimbChanged"],
            Self::SetCurrent { adds: false, .. } => vec!["CurrentClimbChanged"],
            Self::Mirror { .. } => vec!["ClimbMirrored"],
            Self::Replace { .. } | Self::SetQueue { .. } => vec!["QueueReplaced"],
        }
    }

    /// Whether it changes something whenever it is done: others may find it done already.
    pub(crate) fn is_always_seen(&self) -> bool {
        !matches!(self, Self::Remove { .. } | Self::Reorder { .. } | Self::Mirror { .. })
    }

    /// The item that is gone for good once it is done.
    pub(crate) fn removes(&self) -> Option<usize> {
        match self {
            Self::Remove { number } | Self::Replace { number, .. } => Some(*number),
            _ => None,
        }
    }

    /// The items that are there once it is done.
    pub(crate) fn adds(&self) -> Vec<usize> {
        match self {
            Self::Add { number, .. }
            | Self::SetCurrent { number, adds: true }
            | Self::Replace { by: number, .. } => vec![*number],
            Self::SetQueue { numbers } => numbers.clone(),
            _ => Vec::new(),
        }
    }

    /// The state after it, where it puts another in the place of the whole.
    pub(crate) fn replace(&self, before: &Replica) -> Value {
        let mut state = before.state();
        match self {
            Self::Replace { number, by } => {
                let former = json!(uuid(*number));
                let items = state["queue"].as_array_mut().unwrap();
                let replaced = items.iter_mut().find(|item| item["uuid"] == former);
                *replaced.expect("what is replaced is there") = item(*by);
                if state["currentClimbQueueItem"]["uuid"] == former {
                    state["currentClimbQueueItem"] = item(*by);
                }
            }
            Self::SetQueue { numbers } => {
                let queue: Vec<Value> = numbers.iter().map(|number| item(*number)).collect();
                state = json!({ "queue": queue });
            }
            _ => panic!("{self:?} replaces nothing"),
        }
        state
    }
}
