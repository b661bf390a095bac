//! The requests and replies between a run and its receiver processes: one line of JSON each.

use std::net::SocketAddr;

use heartline_protocol::ChatId;
use serde::{Deserialize, Serialize};

/// A request of the run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Request {
    /// Returns the clock of the process.
    Clock,
    /// Connects the receivers of the plan.
    Open(ReceiverPlan),
    /// Waits for deliveries and returns those since the previous request.
    WaitForDeliveries {
        /// Total of all receivers since they were opened.
        deliveries: u64,
    },
    /// Checks that every receiver got each message of its chat once and in order.
    Check {
        /// The head sequence of each chat of the plan.
        head_sequences: Vec<u64>,
    },
}

/// The receivers of one process. The secret that signs their tokens is passed in the environment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ReceiverPlan {
    /// The label of the progress bar.
    pub(crate) label: String,
    /// The node that the receivers connect to.
    pub(crate) address: SocketAddr,
    /// The receivers.
    pub(crate) receivers: Vec<Receiver>,
    /// The chats of the receivers.
    pub(crate) chat_ids: Vec<ChatId>,
    /// Nanoseconds from the run's epoch to the start of this process.
    pub(crate) clock_offset_nanos: u64,
}

/// A user with one device in one chat.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Receiver {
    /// The user id.
    pub(crate) user_id: String,
    /// The index of the chat in the plan.
    pub(crate) chat: usize,
}

/// A reply to a request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Reply {
    /// The clock of the process.
    Clock {
        /// Nanoseconds since the process started.
        nanos: u64,
    },
    /// All receivers are connected.
    Opened,
    /// The deliveries since the previous request.
    Deliveries(Deliveries),
    /// The result of a check.
    Checked(CheckResult),
    /// The request failed.
    Failed {
        /// The error message.
        reason: String,
    },
}

/// The deliveries to the receivers of one process.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Deliveries {
    /// Deliveries since the receivers were opened.
    pub(crate) total: u64,
    /// Connections that the node closed.
    pub(crate) closed: u64,
    /// Latencies in nanoseconds since the previous request, each with its count.
    pub(crate) latencies: Vec<(u64, u64)>,
}

/// The receivers that did not get each message of their chat once and in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CheckResult {
    /// The number of these receivers.
    pub(crate) faulty: u64,
    /// A description of the first few of them.
    pub(crate) examples: Vec<String>,
}
