//! What one commit appends to a session's log.

use serde::{Deserialize, Serialize};

use crate::value::fact::Fact;
use crate::value::operation::Outcome;
use crate::value::roster::MemberId;

/// One commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The commit's own id. Whoever got no answer looks for it here before trying again.
    pub commit_id: String,
    /// The session's version after it.
    pub version: u64,
    /// What happened.
    pub facts: Vec<Fact>,
    /// What its callers were told who gave their operation a name, for when they ask again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remembered: Vec<Remembered>,
}

/// The result of an operation that its caller gave a name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Remembered {
    /// Who asked.
    pub member: MemberId,
    /// What the caller calls it.
    pub correlation_id: String,
    /// Which operation it was, so that a name used for two kinds does not give the wrong answer.
    pub operation: String,
    /// What the caller was told.
    pub outcome: Outcome,
}

impl Remembered {
    /// Whether it is what this member calls so.
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

    /// How many queue events it holds.
    pub fn queue_events(&self) -> usize {
        self.facts.iter().filter_map(Fact::queue_event).count()
    }

    /// Whether it begins a new incarnation.
    pub fn is_restoration(&self) -> bool {
        self.facts.iter().any(|fact| matches!(fact, Fact::Restored { .. }))
    }

    /// Reads what a log kept.
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
