//! The repair of a halted chat's counter.

/// The outcome of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// There is no such chat.
    NoSuchChat,
    /// The chat is not halted and its counter is right.
    NotNeeded {
        /// The counter.
        head: u64,
    },
    /// The counter is repaired, and the chat accepts messages again.
    Done {
        /// The counter before the repair; none if it was missing.
        before: Option<u64>,
        /// The counter after the repair: the newest sequence in use.
        after: u64,
    },
}
