//! The metrics of party sessions.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::value::log::Replay;
use crate::value::operation::Operation;

const COMMITS: [&str; 3] = ["edit", "membership", "lifecycle"];
const REPLAYS: [&str; 2] = ["events", "full_sync"];
const FULL_SYNCS: [&str; 5] = ["subscribed", "replaced", "slow", "reloaded", "restored"];

/// The metrics of party sessions. Clones share the numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct PartyMetrics {
    pub(crate) sessions: Gauge,
    pub(crate) members: Gauge,
    commit_retries: Counter,
    pub(crate) archived: Counter,
    pub(crate) archive_failures: Counter,
    pub(crate) archive_overflows: Counter,
    archive_age_seconds: Gauge,
    commits: Family<Kind, Counter>,
    replays: Family<Kind, Counter>,
    full_syncs: Family<Reason, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

impl PartyMetrics {
    /// Registers all metrics, each label with its first value.
    pub(crate) fn register(&self, registry: &mut Registry, task_panics: Counter) {
        for kind in COMMITS {
            drop(self.commits.get_or_create(&Kind { kind }));
        }
        for kind in REPLAYS {
            drop(self.replays.get_or_create(&Kind { kind }));
        }
        for reason in FULL_SYNCS {
            drop(self.full_syncs.get_or_create(&Reason { reason }));
        }
        registry.register(
            "party_sessions",
            "Party sessions that have a room on this node",
            self.sessions.clone(),
        );
        registry.register(
            "party_members",
            "Members of party sessions whose sockets this node holds",
            self.members.clone(),
        );
        registry.register(
            "party_commits",
            "Operations on party sessions that this node committed, by kind",
            self.commits.clone(),
        );
        registry.register(
            "party_commit_retries",
            "Commits that conflicted with one of another node and were decided again",
            self.commit_retries.clone(),
        );
        registry.register("party_replays", "Replays by their result", self.replays.clone());
        registry.register(
            "party_full_syncs",
            "Whole states that were sent to subscribers, by reason",
            self.full_syncs.clone(),
        );
        registry.register(
            "party_archived",
            "Party sessions that were written to the archive",
            self.archived.clone(),
        );
        registry.register(
            "party_archive_failures",
            "Writes to the party archive that failed and are retried",
            self.archive_failures.clone(),
        );
        registry.register(
            "party_archive_overflows",
            "Changes that were not queued for the archive because its queue is full",
            self.archive_overflows.clone(),
        );
        registry.register(
            "party_task_panics",
            "Tasks of party sessions that panicked",
            task_panics,
        );
        registry.register(
            "party_archive_age_seconds",
            "Age of the oldest change that is not archived, in seconds",
            self.archive_age_seconds.clone(),
        );
    }

    pub(crate) fn retried(&self) {
        self.commit_retries.inc();
    }

    pub(crate) fn committed(&self, operation: &Operation) {
        let kind = match operation {
            Operation::Edit(_) => "edit",
            Operation::Membership(_) => "membership",
            Operation::Lifecycle(_) => "lifecycle",
        };
        self.commits.get_or_create(&Kind { kind }).inc();
    }

    pub(crate) fn replayed(&self, replay: &Replay) {
        let kind = match replay {
            Replay::Events(_) => "events",
            Replay::FullSync => "full_sync",
        };
        self.replays.get_or_create(&Kind { kind }).inc();
    }

    pub(crate) fn full_sync(&self, reason: &'static str) {
        self.full_syncs.get_or_create(&Reason { reason }).inc();
    }

    pub(crate) fn archive_age(&self, age: Duration) {
        self.archive_age_seconds.set(age.as_secs() as i64);
    }
}
