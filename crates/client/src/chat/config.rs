//! The configuration of a chat client.

use std::collections::HashMap;

use heartline_protocol::ChatId;

/// The configuration of a [`ChatClient`](crate::ChatClient).
#[derive(Debug, Clone)]
pub struct ChatConfig {
    /// The sequence up to which the application has each chat already.
    pub cursors: HashMap<ChatId, u64>,
    /// The first messages to deliver of a chat that is not in `cursors`.
    pub backlog: Backlog,
    /// Messages that may be queued or unanswered; one more fails with
    /// [`Full`](crate::SendError::Full).
    pub outbox_messages_max: usize,
    /// Bytes of messages that may be queued or unanswered.
    pub outbox_bytes_max: usize,
    /// The capacity of the event queue; while it is full, the socket is not read.
    pub event_capacity: usize,
    /// Whether frames that the client sends are reported as
    /// [`Outgoing`](crate::ChatEvent::Outgoing).
    pub reports_outgoing: bool,
}

/// The messages that are delivered of a chat without a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backlog {
    /// Every message from the first one on, for an application that stores them.
    All,
    /// The messages that the user has not acknowledged on any device, for an application that only
    /// shows them. Earlier messages can be read over REST.
    Unread {
        /// The largest number of messages that are delivered, however many are unread.
        messages_max: u64,
    },
}

impl Backlog {
    /// The sequence up to which a chat is skipped, given its newest sequence and the user's
    /// watermark.
    pub(crate) fn skips_up_to(self, head: u64, acked: u64) -> u64 {
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
            reports_outgoing: false,
        }
    }
}
