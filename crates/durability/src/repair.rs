//! What an operator can do for a halted chat.

/// What a repair came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// There is no such chat.
    NoSuchChat,
    /// The chat is not halted and its counter is right.
    NotNeeded {
        /// The counter.
        head: u64,
    },
    /// The counter is right now, and the chat goes on.
    Done {
        /// The counter as it was; none if it was missing.
        before: Option<u64>,
        /// The counter as it is: the newest number in use.
        after: u64,
    },
}
