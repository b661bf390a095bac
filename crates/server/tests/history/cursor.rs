//! How far a client has a chat without a hole.

use std::collections::BTreeSet;

/// The messages of one chat that one client has.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    /// Everything up to here is held.
    pub(crate) complete: u64,
    /// The sequences above the first gap.
    above: BTreeSet<u64>,
    /// The highest known sequence.
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

    /// The highest known sequence.
    pub(crate) fn highest(&self) -> u64 {
        self.highest
    }

    /// The log ends below the highest known sequence, so the rest is lost. The client continues;
    /// the checker reports the loss.
    pub(crate) fn ends_at(&mut self, head: u64) {
        self.complete = self.complete.min(head);
        self.above.clear();
        self.highest = self.complete;
    }

    /// Whether something is missing.
    pub(crate) fn has_gap(&self) -> bool {
        self.complete < self.highest
    }
}
