//! How far a client has a chat without a hole.

use std::collections::BTreeSet;

/// What one client holds of one chat.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    /// Everything up to here is held.
    pub(crate) complete: u64,
    /// What is held beyond the first hole.
    above: BTreeSet<u64>,
    /// The highest number that was heard of.
    highest: u64,
}

impl Cursor {
    /// Takes a message of this number in.
    pub(crate) fn hold(&mut self, sequence: u64) {
        self.hear_of(sequence);
        if sequence > self.complete {
            self.above.insert(sequence);
        }
        while self.above.remove(&(self.complete + 1)) {
            self.complete += 1;
        }
    }

    /// Takes note that the chat goes this far.
    pub(crate) fn hear_of(&mut self, sequence: u64) {
        self.highest = self.highest.max(sequence);
    }

    /// Whether something is missing.
    pub(crate) fn has_gap(&self) -> bool {
        self.complete < self.highest
    }
}
