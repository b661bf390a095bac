//! The shared queue: its items, which of them is current, and the number and hashes of that state.

use crate::value::fact::{Contents, QueueChange, Stamp};
use crate::value::hash::{OrderHash, StateHash, order_hash, state_hash};
use crate::value::item::Item;

/// A queue at one sequence. No two items have the same uuid. The current item may be one that is
/// not in the queue, or differ in content from the one in the queue that has its uuid.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueState {
    /// The number of events, counting the seed as one.
    pub sequence: u64,
    /// The hash of the set of items and of the current one.
    pub state_hash: StateHash,
    /// The hash of the items in order with their content.
    pub order_hash: OrderHash,
    /// The items.
    pub queue: Vec<Item>,
    /// The current climb.
    pub current: Option<Item>,
}

/// The reason for which a fact does not follow from a state. The copy has missed a commit and must
/// be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    /// The sequence is not the next one.
    #[error("the fact does not have the next number")]
    OutOfOrder,
    /// The fact names an item, position or member that does not exist.
    #[error("the fact names an item, position or member that does not exist")]
    Absent,
    /// The resulting state has other hashes than the fact states.
    #[error("the fact leads to a state with other hashes than it states")]
    HashMismatch,
    /// The fact is the log's marker of a replaced queue, which lacks the queue.
    #[error("the fact is a marker without contents")]
    Marker,
}

impl Default for QueueState {
    fn default() -> Self {
        Self::new(0, Vec::new(), None)
    }
}

impl QueueState {
    /// The state of these items at this sequence.
    pub fn new(sequence: u64, queue: Vec<Item>, current: Option<Item>) -> Self {
        let state_hash = state_hash(&queue, current.as_ref());
        let order_hash = order_hash(&queue, current.as_ref());
        Self { sequence, state_hash, order_hash, queue, current }
    }

    /// The position of an item.
    pub fn position(&self, uuid: &str) -> Option<usize> {
        self.queue.iter().position(|item| item.uuid() == uuid)
    }

    /// The bytes of all items together.
    pub fn size_bytes(&self) -> usize {
        self.queue.iter().map(Item::size_bytes).sum()
    }

    /// The state after one change.
    pub(crate) fn after(&self, change: &QueueChange) -> Result<Self, FoldError> {
        let mut queue = self.queue.clone();
        let mut current = self.current.clone();
        match change {
            QueueChange::QueueItemAdded { item, position } => {
                if *position > queue.len() {
                    return Err(FoldError::Absent);
                }
                queue.insert(*position, item.clone());
            }
            QueueChange::QueueItemRemoved { uuid } => {
                queue.remove(self.position(uuid).ok_or(FoldError::Absent)?);
                // Removing the current item clears the current climb.
                current = current.filter(|item| item.uuid() != uuid);
            }
            QueueChange::QueueReordered { uuid, old_index, new_index } => {
                let is_there = queue.get(*old_index).is_some_and(|item| item.uuid() == uuid);
                if !is_there || *new_index >= queue.len() {
                    return Err(FoldError::Absent);
                }
                let item = queue.remove(*old_index);
                queue.insert(*new_index, item);
            }
            QueueChange::CurrentClimbChanged { item } => current = item.clone(),
            QueueChange::ClimbMirrored { mirrored } => {
                let item = current.as_mut().ok_or(FoldError::Absent)?;
                if let Some(position) = self.position(item.uuid()) {
                    queue[position] = queue[position].mirrored(*mirrored);
                }
                *item = item.mirrored(*mirrored);
            }
            QueueChange::QueueReplaced { contents } => {
                let Contents { queue, current } = contents.clone().ok_or(FoldError::Marker)?;
                return Ok(Self::new(self.sequence + 1, queue, current));
            }
        }
        Ok(Self::new(self.sequence + 1, queue, current))
    }

    /// Checks that this is the state that a fact leads to.
    pub(crate) fn check_stamp(&self, stamp: &Stamp) -> Result<(), FoldError> {
        if self.sequence != stamp.sequence {
            return Err(FoldError::OutOfOrder);
        }
        if (self.state_hash, self.order_hash) != (stamp.state_hash, stamp.order_hash) {
            return Err(FoldError::HashMismatch);
        }
        Ok(())
    }
}
