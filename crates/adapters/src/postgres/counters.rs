//! Counters of the connection between the server and its database, for the operator's alerts.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Counters of a store. Cloning shares them, so that the server can register them.
#[derive(Debug, Clone, Default)]
pub struct PostgresCounters {
    /// Chats halted because their counter was missing or ahead of their messages.
    pub counter_corruptions: Counter,
    /// Chats halted because a sequence was about to be assigned twice.
    pub duplicate_sequences: Counter,
    /// Transactions committed.
    pub commits: Counter,
    /// Calls that failed, at any point.
    pub failures: Counter,
    /// Connections that are open.
    pub connections: Gauge,
    /// Connections that were opened.
    pub connections_opened: Counter,
    /// Connections that broke, or were closed because a call on them failed.
    pub connections_lost: Counter,
    /// Calls that found every connection in use and had to wait.
    pub waits: Counter,
    /// Calls that were not answered in time, waiting included.
    pub timeouts: Counter,
    /// Retries, after a conflict between two transactions, a lost connection or a failure of one
    /// chat.
    pub retries: Counter,
}

impl PostgresCounters {
    /// Registers every counter under its documented name.
    pub fn register(&self, registry: &mut Registry) {
        let plane = registry.sub_registry_with_prefix("durability");
        let mut count = |name: &str, help: &str, counter: &Counter| {
            plane.register(name, help, counter.clone());
        };
        let corruptions = "Chats halted because their counter was missing or wrong";
        count("counter_corruptions", corruptions, &self.counter_corruptions);
        let duplicates = "Chats halted because a number was about to be given twice";
        count("duplicate_sequences", duplicates, &self.duplicate_sequences);
        count("commits", "Transactions committed", &self.commits);
        count("commit_failures", "Transactions that failed", &self.failures);
        let opened = "Connections to the database that were opened";
        count("store_connections_opened", opened, &self.connections_opened);
        let lost = "Connections to the database that broke or had to be closed";
        count("store_connections_lost", lost, &self.connections_lost);
        let waits = "Calls that found every connection to the database in use";
        count("store_waits", waits, &self.waits);
        let timeouts = "Calls that the database did not answer in time";
        count("store_timeouts", timeouts, &self.timeouts);
        count("store_retries", "Attempts that were made again", &self.retries);
        let connections = "Connections to the database that are open";
        plane.register("store_connections", connections, self.connections.clone());
    }
}
