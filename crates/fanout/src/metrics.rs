//! The metrics of fanout, defined in `docs/metrics.md`.

use heartline_routing::RoutingMetrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Why an envelope was not sent, as a label.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct SkipLabel {
    /// `members_unreadable`, `routes_unreadable` or `node_unreachable`.
    pub reason: &'static str,
}

/// Fanout's counters and gauges, as cheap handles.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    /// Messages received from the bus.
    pub messages: Counter,
    /// Envelopes that were not sent although a recipient may have been connected.
    pub skips: Family<SkipLabel, Counter>,
    /// Repeated reads of members or routes.
    pub retries: Counter,
    /// Chats whose members must sync.
    pub dirty_chats: Gauge,
    /// Typing notices that were dropped.
    pub typing_dropped: Counter,
    /// Restarts of the consumer after a failure or a panic.
    pub consumer_restarts: Counter,
    /// Sends to every known node, because routes could not be read.
    pub broadcasts: Counter,
    /// Transitions that were not sent to the users who share an active chat.
    pub transitions_untold: Counter,
    /// The metrics of routing, which the server registers: fanout counts lookups of routes and the
    /// decided transitions.
    pub routing: RoutingMetrics,
}

impl Metrics {
    /// Registers every metric under its documented name.
    pub fn register(&self, registry: &mut Registry) {
        let fanout = registry.sub_registry_with_prefix("fanout");
        fanout.register("messages", "Messages received from the bus", self.messages.clone());
        let skips = "Envelopes not sent, by reason";
        fanout.register("delivery_skips", skips, self.skips.clone());
        fanout.register("retries", "Repeated reads", self.retries.clone());
        let dirty = "Chats whose members must sync";
        fanout.register("dirty_chats", dirty, self.dirty_chats.clone());
        let typing = "Typing notices dropped";
        fanout.register("typing_dropped", typing, self.typing_dropped.clone());
        let restarts = "Restarts of the consumer";
        fanout.register("consumer_restarts", restarts, self.consumer_restarts.clone());
        let broadcasts = "Sends to all nodes because routes could not be read";
        fanout.register("broadcasts", broadcasts, self.broadcasts.clone());
        let unsent = "Transitions not sent to companions";
        fanout.register("transitions_untold", unsent, self.transitions_untold.clone());
    }

    pub(crate) fn skipped(&self, reason: &'static str) {
        self.skips.get_or_create(&SkipLabel { reason }).inc();
    }
}
