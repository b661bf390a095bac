//! What the chat half of the client needs to know before it starts.

use std::collections::HashMap;

use heartline_protocol::ChatId;

/// The configuration of a [`ChatClient`](crate::ChatClient).
#[derive(Debug, Clone)]
pub struct ChatConfig {
    /// Up to where the application has each chat already. A chat that is not named here begins
    /// at its first message.
    pub cursors: HashMap<ChatId, u64>,
    /// Messages that may wait for their answer; one more is refused as
    /// [`Full`](crate::SendError::Full).
    pub outbox_messages_max: usize,
    /// Bytes that may wait for their answer.
    pub outbox_bytes_max: usize,
    /// Events that may wait for the application; when they are that many, the socket is not read.
    pub event_capacity: usize,
}

impl Default for ChatConfig {
    fn default() -> Self {
        Self {
            cursors: HashMap::new(),
            outbox_messages_max: 1000,
            outbox_bytes_max: 1024 * 1024,
            event_capacity: 256,
        }
    }
}
