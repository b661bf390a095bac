//! What a run and the processes of its audiences say to each other: one line of JSON each.

use std::net::SocketAddr;

use heartline_protocol::ChatId;
use serde::{Deserialize, Serialize};

/// What a run asks of an audience.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Request {
    /// What its clock says.
    Clock,
    /// To connect.
    Open(Plan),
    /// To wait until it has heard so many deliveries since it was opened, and to say what it
    /// heard since it was last asked.
    Hear {
        /// How many, of all its devices together.
        deliveries: u64,
    },
    /// Whether every device heard its chat, which has so many messages.
    Check {
        /// The newest number of each chat of the plan.
        head_sequences: Vec<u64>,
    },
}

/// Who is in an audience. The secret that signs for them comes by the environment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// What its progress is called.
    pub(crate) label: String,
    /// The node that they connect to.
    pub(crate) address: SocketAddr,
    /// Each with one device.
    pub(crate) listeners: Vec<Listener>,
    /// The chats that they are in.
    pub(crate) chat_ids: Vec<ChatId>,
    /// How many nanoseconds the run's times began before those of this process.
    pub(crate) ahead_nanos: u64,
}

/// A user with one device.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Listener {
    /// The name.
    pub(crate) user_id: String,
    /// The chat, by its number in the plan.
    pub(crate) chat: usize,
}

/// What an audience answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Reply {
    /// Its clock.
    Clock {
        /// Nanoseconds since it began.
        nanos: u64,
    },
    /// All are connected.
    Opened,
    /// What it heard.
    Heard(Heard),
    /// Whether every device heard its chat.
    Checked(Checked),
    /// Why it could not.
    Failed {
        /// As a person would read it.
        reason: String,
    },
}

/// What an audience heard.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Heard {
    /// Deliveries since it was opened.
    pub(crate) deliveries: u64,
    /// Connections that the node ended.
    pub(crate) closed: u64,
    /// Latencies in nanoseconds since it was last asked, each with how often it was seen.
    pub(crate) latencies: Vec<(u64, u64)>,
}

/// Devices that did not hear each message of their chat once and in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checked {
    /// How many.
    pub(crate) faulty: u64,
    /// What the first few of them heard.
    pub(crate) examples: Vec<String>,
}
