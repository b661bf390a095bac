//! What the chat half of the client needs to know before it starts.

use std::collections::HashMap;

use heartline_protocol::ChatId;

/// The configuration of a [`ChatClient`](crate::ChatClient).
#[derive(Debug, Clone)]
pub struct ChatConfig {
    /// Up to where the application has each chat already.
    pub cursors: HashMap<ChatId, u64>,
    /// Where a chat begins that is not named there.
    pub backlog: Backlog,
    /// Messages that may wait for their answer; one more is refused as
    /// [`Full`](crate::SendError::Full).
    pub outbox_messages_max: usize,
    /// Bytes that may wait for their answer.
    pub outbox_bytes_max: usize,
    /// Events that may wait for the application; when they are that many, the socket is not read.
    pub event_capacity: usize,
    /// Whether the application is told of the frames that the client sends for it, as
    /// [`Outgoing`](crate::ChatEvent::Outgoing).
    pub tells_outgoing: bool,
}

/// How much of a chat is handed over that the application knows nothing of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backlog {
    /// Every message from the first one on: for an application that keeps them.
    All,
    /// What this user has not acknowledged on any device: for an application that only shows
    /// them. What came before can be read over REST.
    Unread {
        /// Messages before the newest one at most, however many are unread.
        messages_max: u64,
    },
}

impl Backlog {
    /// Up to which number a chat is passed over, given its newest number and how far the user has
    /// acknowledged it.
    pub(crate) fn passes_over(self, head: u64, acked: u64) -> u64 {
        match self {
            Self::All => 0,
            Self::Unread { messages_max } => acked.min(head).max(head.saturating_sub(messages_max)),
        }
    }
}

impl Default for ChatConfig {
    fn default() -> Self {
        Self {
            cursors: HashMap::new(),
            backlog: Backlog::All,
            outbox_messages_max: 1000,
            outbox_bytes_max: 1024 * 1024,
            event_capacity: 256,
            tells_outgoing: false,
        }
    }
}
