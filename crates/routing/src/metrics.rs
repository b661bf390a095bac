//! The metrics of leases, routes and transitions. `docs/metrics.md` defines each.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// A user's new status, as a label.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct StatusLabel {
    /// `online` or `offline`.
    pub status: &'static str,
}

/// The counters and gauges of routing, as cheap handles: clones share them.
#[derive(Debug, Clone)]
pub struct RoutingMetrics {
    /// Leases in renewals that the directory answered.
    pub renewals: Counter,
    /// Leases in renewals that the directory did not answer.
    pub renewals_failed: Counter,
    /// How long the renewal of a batch took.
    pub renewal_seconds: Histogram,
    /// Leases that the directory had lost, or whose indexes it had lost.
    pub leases_lost: Counter,
    /// Lost leases that were registered again.
    pub leases_claimed_again: Counter,
    /// Expired leases that this node removed.
    pub leases_swept: Counter,
    /// Sweeps that the directory did not answer.
    pub sweeps_failed: Counter,
    /// Lookups of routes, retries not counted.
    pub lookups: Counter,
    /// Lookups that the directory did not answer.
    pub lookup_errors: Counter,
    /// Announcements of this node that the directory did not answer.
    pub announcements_failed: Counter,
    /// Rebuilds of the directory after a loss of its data that this node saw end.
    pub rebuilds: Counter,
    /// Transitions that calls of this node decided.
    pub transitions: Family<StatusLabel, Counter>,
    /// Users with more than one connection to this node.
    pub multi_device_users: Gauge,
    /// Connections whose latest renewal was not answered, or found no lease.
    pub connections_unleased: Gauge,
}

/// Buckets around the documented 10 ms and 50 ms, up to the deadline of a call.
const RENEWAL_BUCKETS: [f64; 10] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5];

impl Default for RoutingMetrics {
    fn default() -> Self {
        let metrics = Self {
            renewals: Counter::default(),
            renewals_failed: Counter::default(),
            renewal_seconds: Histogram::new(RENEWAL_BUCKETS),
            leases_lost: Counter::default(),
            leases_claimed_again: Counter::default(),
            leases_swept: Counter::default(),
            sweeps_failed: Counter::default(),
            lookups: Counter::default(),
            lookup_errors: Counter::default(),
            announcements_failed: Counter::default(),
            rebuilds: Counter::default(),
            transitions: Family::default(),
            multi_device_users: Gauge::default(),
            connections_unleased: Gauge::default(),
        };
        // Both exist from the start, so that the first transition shows as an increase.
        for is_online in [true, false] {
            drop(metrics.transitions_to(is_online));
        }
        metrics
    }
}

impl RoutingMetrics {
    /// Registers every metric under its documented name.
    pub fn register(&self, registry: &mut Registry) {
        let routing = registry.sub_registry_with_prefix("routing");
        for (name, help, counter) in [
            ("renewals", "Leases renewed", &self.renewals),
            ("renewals_failed", "Leases whose renewal was not answered", &self.renewals_failed),
            ("leases_lost", "Leases found lost", &self.leases_lost),
            ("leases_claimed_again", "Lost leases registered again", &self.leases_claimed_again),
            ("leases_swept", "Expired leases removed", &self.leases_swept),
            ("sweeps_failed", "Sweeps that were not answered", &self.sweeps_failed),
            ("lookups", "Times that routes were looked up", &self.lookups),
            ("rebuilds", "Rebuilds seen", &self.rebuilds),
            ("lookup_errors", "Lookups that were not answered", &self.lookup_errors),
            (
                "announcements_failed",
                "Times that this node could not announce itself",
                &self.announcements_failed,
            ),
        ] {
            routing.register(name, help, counter.clone());
        }
        let (renewal, seconds) = ("How long the renewal of a batch took", Unit::Seconds);
        routing.register_with_unit("renewal", renewal, seconds, self.renewal_seconds.clone());
        let transitions = "Transitions that this node decided, by status";
        routing.register("transitions", transitions, self.transitions.clone());
        let several = "Users with more than one connection to this node";
        routing.register("multi_device_users", several, self.multi_device_users.clone());
        let unleased = "Connections whose latest renewal was not answered or found no lease";
        routing.register("connections_unleased", unleased, self.connections_unleased.clone());
    }

    /// Counts a renewal of a batch that the directory answered.
    pub(crate) fn renewed(&self, leases: usize, duration: Duration) {
        self.renewals.inc_by(leases as u64);
        self.renewal_seconds.observe(duration.as_secs_f64());
    }

    /// Counts a renewal of a batch that the directory did not answer, with its duration.
    pub(crate) fn not_renewed(&self, leases: usize, duration: Duration) {
        self.renewals_failed.inc_by(leases as u64);
        self.renewal_seconds.observe(duration.as_secs_f64());
    }

    /// Counts a lookup of routes.
    pub fn looked_up(&self, is_answered: bool) {
        self.lookups.inc();
        if !is_answered {
            self.lookup_errors.inc();
        }
    }

    /// Counts a transition that this node decided.
    pub fn decided(&self, is_online: bool) {
        self.transitions_to(is_online).inc();
    }

    fn transitions_to(&self, is_online: bool) -> Counter {
        let status = if is_online { "online" } else { "offline" };
        self.transitions.get_or_create_owned(&StatusLabel { status })
    }
}
