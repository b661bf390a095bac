//! Counters of the store, for the operator's alerts.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

/// Counters of a store. Cloning shares them, so that the server can register them.
#[derive(Debug, Clone, Default)]
pub struct SqliteCounters {
    /// Chats halted because their counter was missing or disagreed with their messages.
    pub counter_corruptions: Counter,
    /// Chats halted because a sequence was about to be assigned twice.
    pub duplicate_sequences: Counter,
    /// Transactions committed.
    pub commits: Counter,
    /// Transactions that failed, at any point.
    pub failures: Counter,
}

impl SqliteCounters {
    /// Registers every counter under its documented name.
    pub fn register(&self, registry: &mut Registry) {
        let plane = registry.sub_registry_with_prefix("durability");
        let corruptions = "Chats halted because their counter was missing or wrong";
        plane.register("counter_corruptions", corruptions, self.counter_corruptions.clone());
        let duplicates = "Chats halted because a number was about to be given twice";
        plane.register("duplicate_sequences", duplicates, self.duplicate_sequences.clone());
        plane.register("commits", "Transactions committed", self.commits.clone());
        plane.register("commit_failures", "Transactions that failed", self.failures.clone());
    }
}
