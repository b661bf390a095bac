//! What fanout counts. `docs/metrics.md` defines each.

use heartline_routing::RoutingMetrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Why a delivery did not leave, as a label.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct SkipLabel {
    /// `members_unreadable`, `routes_unreadable` or `node_unreachable`.
    pub reason: &'static str,
}

/// Fanout's counters and gauges, as cheap handles.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    /// Messages taken up.
    pub messages: Counter,
    /// Envelopes that did not leave though somebody might have been there.
    pub skips: Family<SkipLabel, Counter>,
    /// Reads of memberships or routes that were tried again.
    pub retries: Counter,
    /// Chats whose members must be told to sync.
    pub dirty_chats: Gauge,
    /// Typing indicators that were not passed on.
    pub typing_dropped: Counter,
    /// Times that the consumer was started again after it failed or panicked.
    pub consumer_restarts: Counter,
    /// Times that every known node was sent something, because routes could not be read.
    pub broadcasts: Counter,
    /// Transitions of which those who share an active chat could not be told.
    pub transitions_untold: Counter,
    /// Routing's own, which whoever put the node together registers: routes are read here, and
    /// what this node decided is taken up here.
    pub routing: RoutingMetrics,
}

impl Metrics {
    /// Registers every metric under its documented name.
    pub fn register(&self, registry: &mut Registry) {
        let fanout = registry.sub_registry_with_prefix("fanout");
        fanout.register("messages", "Messages taken up", self.messages.clone());
        let skips = "Envelopes that did not leave, by reason";
        fanout.register("delivery_skips", skips, self.skips.clone());
        fanout.register("retries", "Reads that were tried again", self.retries.clone());
        let dirty = "Chats whose members must be told to sync";
        fanout.register("dirty_chats", dirty, self.dirty_chats.clone());
        let typing = "Typing indicators that were not passed on";
        fanout.register("typing_dropped", typing, self.typing_dropped.clone());
        let restarts = "Times that the consumer was started again";
        fanout.register("consumer_restarts", restarts, self.consumer_restarts.clone());
        let broadcasts = "Times that all nodes were sent something for want of routes";
        fanout.register("broadcasts", broadcasts, self.broadcasts.clone());
        let untold = "Transitions of which companions could not be told";
        fanout.register("transitions_untold", untold, self.transitions_untold.clone());
    }

    pub(crate) fn skipped(&self, reason: &'static str) {
        self.skips.get_or_create(&SkipLabel { reason }).inc();
    }
}
