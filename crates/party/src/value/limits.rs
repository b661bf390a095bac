//! The limits of a session, each with its unit in the name.

/// The default of the most items of a queue.
pub const QUEUE_ITEMS_MAX: usize = 500;
/// The most bytes of all items of a queue together.
pub const QUEUE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The most bytes of one item, as canonical JSON.
pub const ITEM_BYTES_MAX: usize = 32 * 1024;
/// The deepest nesting of the holds of a climb. Decoding an item recurses that deep.
pub const ITEM_NESTING_MAX: usize = 32;
/// The most members of a session.
pub const MEMBERS_MAX: usize = 1000;
/// The default of the most queue events in the log.
pub const LOG_EVENTS_MAX: usize = 100;
/// The most commits in the log, of which some have no queue event.
pub const LOG_ENTRIES_MAX: usize = 200;
/// The most bytes of the log.
pub const LOG_BYTES_MAX: usize = 1024 * 1024;
/// The default of the time that a member with a resume token has to resume.
pub const RESUME_GRACE_MS: u64 = 30_000;
/// The most former resume tokens of a member that are still valid; the oldest is dropped first.
pub const FORMER_TOKENS_MAX: usize = 4;
/// The most sockets in the list of those that members replaced by newer ones.
pub const ABANDONED_SOCKETS_MAX: usize = 64;
/// The time that the leader before a loss has to return and lead again: as long as the announcement
/// of a node is valid.
pub const FORMER_LEADER_WITHIN_MS: u64 = 15_000;
/// The numbers that a session skips when it is restored after a loss.
pub const RESTORED_SEQUENCES: u64 = 10_000;

/// The configurable limits that operations use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most items of a queue.
    pub queue_items_max: usize,
    /// The most bytes of all items of a queue together.
    pub queue_bytes_max: usize,
    /// The most members of a session.
    pub members_max: usize,
    /// The time that a member with a resume token has to resume.
    pub resume_grace_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue_items_max: QUEUE_ITEMS_MAX,
            queue_bytes_max: QUEUE_BYTES_MAX,
            members_max: MEMBERS_MAX,
            resume_grace_ms: RESUME_GRACE_MS,
        }
    }
}
