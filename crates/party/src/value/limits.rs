//! Every bound of a session, with its unit in the name.

/// Items that a queue may hold unless configured otherwise.
pub const QUEUE_ITEMS_MAX: usize = 500;
/// Bytes that the items of a queue may have together.
pub const QUEUE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes that one item may have, as canonical JSON.
pub const ITEM_BYTES_MAX: usize = 32 * 1024;
/// How deep the holds of a climb may be nested. Whoever reads an item back recurses that deep.
pub const ITEM_NESTING_MAX: usize = 32;
/// Members that a session may have at once.
pub const MEMBERS_MAX: usize = 1000;
/// Queue events that the log keeps unless configured otherwise.
pub const LOG_EVENTS_MAX: usize = 100;
/// Commits that the log keeps, of which some have no queue event.
pub const LOG_ENTRIES_MAX: usize = 200;
/// Bytes that the log keeps.
pub const LOG_BYTES_MAX: usize = 1024 * 1024;
/// How long a member with a resume token has to come back, unless configured otherwise.
pub const RESUME_GRACE_MS: u64 = 30_000;
/// Former resume tokens of a member that are still good; an older one is forgotten first.
pub const FORMER_TOKENS_MAX: usize = 4;
/// Sockets that members gave up for newer ones and that are still known as such.
pub const ABANDONED_SOCKETS_MAX: usize = 64;
/// How long whoever led before a loss has to come back and lead again: as long as a node may be
/// silent.
pub const HEIR_WITHIN_MS: u64 = 15_000;
/// How much higher a session goes on that was restored after a loss.
pub const RESTORED_SEQUENCES: u64 = 10_000;

/// The bounds that an operator may configure and that an operation needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Items that a queue may hold.
    pub queue_items_max: usize,
    /// Bytes that the items of a queue may have together.
    pub queue_bytes_max: usize,
    /// Members that a session may have at once.
    pub members_max: usize,
    /// How long a member with a resume token has to come back.
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
