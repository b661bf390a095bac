//! The entry that one commit appends to a session's log.

use serde::{Deserialize, Serialize};

use crate::value::fact::Fact;
use crate::value::operation::Outcome;
use crate::value::roster::MemberId;

/// One commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The id of the commit. A node that lost the result of a commit looks for this id before it
    /// retries.
    pub commit_id: String,
    /// The session's version after the commit.
    pub version: u64,
    /// The changes.
    pub facts: Vec<Fact>,
    /// The results of operations with a correlation id, for callers that repeat them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remembered: Vec<Remembered>,
}

/// The result of an operation with a correlation id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Remembered {
    /// The caller.
    pub member: MemberId,
    /// The correlation id.
    pub correlation_id: String,
    /// The kind of operation, so that a correlation id that is used for two kinds gives no wrong
    /// result.
    pub operation: String,
    /// The result.
    pub outcome: Outcome,
}

impl Remembered {
    /// Whether it is the result for this member, correlation id and kind.
    pub(crate) fn is_of(&self, member: &MemberId, operation: &str, correlation_id: &str) -> bool {
        self.correlation_id == correlation_id
            && self.member == *member
            && self.operation == operation
    }
}

impl Entry {
    /// The JSON that the log keeps: see [`Fact::for_log`].
    pub fn to_log_json(&self) -> Vec<u8> {
        serde_json::to_vec(&self.for_log()).expect("an entry has no key that is not text")
    }

    /// The number of its queue events.
    pub fn queue_events(&self) -> usize {
        self.facts.iter().filter_map(Fact::queue_event).count()
    }

    /// Whether it begins a new incarnation.
    pub fn is_restoration(&self) -> bool {
        self.facts.iter().any(|fact| matches!(fact, Fact::Restored { .. }))
    }

    /// Reads an entry of a log.
    pub fn from_json(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }

    /// The entry as the log keeps it: see [`Fact::for_log`].
    #[must_use]
    pub fn for_log(&self) -> Self {
        let facts = self.facts.iter().map(Fact::for_log).collect();
        Self {
            commit_id: self.commit_id.clone(),
            version: self.version,
            facts,
            remembered: self.remembered.clone(),
        }
    }
}
