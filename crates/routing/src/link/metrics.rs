//! The metrics of the link between nodes, defined in `docs/metrics.md`.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// The transport of a parcel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Through a broker that all nodes share.
    Broker,
    /// From node to node, without a broker.
    Direct,
}

impl Transport {
    /// Both transports.
    pub const ALL: [Self; 2] = [Self::Broker, Self::Direct];

    /// The transport as log lines name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Broker => "broker",
            Self::Direct => "direct",
        }
    }
}

/// A transport as a label.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct TransportLabel {
    /// The name of the broker's carrier, or `direct`.
    pub transport: &'static str,
}

/// A reason as a label.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ReasonLabel {
    /// The reason.
    pub reason: &'static str,
}

/// The metrics of one transport, as handles that need no lookup.
#[derive(Debug, Clone, Default)]
pub struct TransportMetrics {
    /// Parcels sent.
    pub parcels_sent: Counter,
    /// Bytes of parcels sent.
    pub bytes_sent: Counter,
    /// Parcels received.
    pub parcels_received: Counter,
    /// Bytes of parcels received.
    pub bytes_received: Counter,
    /// Probes and statuses among the sent parcels.
    pub probes_sent: Counter,
    /// Parcels in the queue.
    pub queue_parcels: Gauge,
}

/// The same metrics by transport, as they are registered.
#[derive(Debug, Clone, Default)]
struct Families {
    parcels_sent: Family<TransportLabel, Counter>,
    bytes_sent: Family<TransportLabel, Counter>,
    parcels_received: Family<TransportLabel, Counter>,
    bytes_received: Family<TransportLabel, Counter>,
    probes_sent: Family<TransportLabel, Counter>,
    queue_parcels: Family<TransportLabel, Gauge>,
}

impl Families {
    fn of(&self, transport: &'static str) -> TransportMetrics {
        let label = TransportLabel { transport };
        TransportMetrics {
            parcels_sent: self.parcels_sent.get_or_create_owned(&label),
            bytes_sent: self.bytes_sent.get_or_create_owned(&label),
            parcels_received: self.parcels_received.get_or_create_owned(&label),
            bytes_received: self.bytes_received.get_or_create_owned(&label),
            probes_sent: self.probes_sent.get_or_create_owned(&label),
            queue_parcels: self.queue_parcels.get_or_create_owned(&label),
        }
    }

    fn register(&self, link: &mut Registry) {
        link.register("parcels_sent", "Parcels sent", self.parcels_sent.clone());
        let help = "Bytes of parcels sent";
        link.register_with_unit("sent", help, Unit::Bytes, self.bytes_sent.clone());
        let help = "Parcels received";
        link.register("parcels_received", help, self.parcels_received.clone());
        let help = "Bytes of parcels received";
        link.register_with_unit("received", help, Unit::Bytes, self.bytes_received.clone());
        let help = "Probes and statuses sent";
        link.register("probes_sent", help, self.probes_sent.clone());
        let help = "Parcels queued";
        link.register("queue_parcels", help, self.queue_parcels.clone());
    }
}

/// The link's counters and gauges, as cheap handles.
#[derive(Debug, Clone)]
pub struct LinkMetrics {
    families: Families,
    broker_name: &'static str,
    broker: TransportMetrics,
    direct: TransportMetrics,
    /// Gaps that the receiver detected, by how it detected them.
    pub gaps: Family<ReasonLabel, Counter>,
    /// Times that every connection of the node had to sync because of a gap.
    pub resyncs: Counter,
    /// Parcels that were not sent or not delivered, by reason.
    pub drops: Family<ReasonLabel, Counter>,
    /// Parcels that the broker returned and the direct link accepted.
    pub parcels_sent_again: Counter,
    /// Tasks of direct connections that panicked.
    pub task_panics: Counter,
    /// Requests to the direct link that were refused, by reason.
    pub refusals: Family<ReasonLabel, Counter>,
    /// Other nodes that this node knows.
    pub peers: Gauge,
    /// Nodes that are connected directly.
    pub peers_connected: Gauge,
    /// Nodes that the broker does not reach.
    pub peers_cut_off: Gauge,
    /// 1 while the broker carries parcels from and to this node.
    pub broker_is_healthy: Gauge,
}

impl Default for LinkMetrics {
    fn default() -> Self {
        Self::new(Transport::Broker.as_str())
    }
}

impl LinkMetrics {
    /// Metrics that show the broker under the name of its carrier: as the label `transport`, and in
    /// the gauge `link_<name>_is_healthy`.
    pub fn new(broker_name: &'static str) -> Self {
        let families = Families::default();
        Self {
            broker: families.of(broker_name),
            direct: families.of(Transport::Direct.as_str()),
            broker_name,
            families,
            gaps: Family::default(),
            resyncs: Counter::default(),
            drops: Family::default(),
            parcels_sent_again: Counter::default(),
            task_panics: Counter::default(),
            refusals: Family::default(),
            peers: Gauge::default(),
            peers_connected: Gauge::default(),
            peers_cut_off: Gauge::default(),
            broker_is_healthy: Gauge::default(),
        }
    }

    /// The handles of one transport.
    pub fn of(&self, transport: Transport) -> &TransportMetrics {
        match transport {
            Transport::Broker => &self.broker,
            Transport::Direct => &self.direct,
        }
    }

    /// Counts a parcel that was not sent or not delivered.
    pub fn dropped(&self, reason: &'static str) {
        self.drops.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// Counts a gap that the receiver detected.
    pub fn gap(&self, reason: &'static str) {
        self.gaps.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// Counts a request to the direct link that was refused.
    pub fn refused(&self, reason: &'static str) {
        self.refusals.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// Registers every metric under its documented name.
    pub fn register(&self, registry: &mut Registry) {
        let link = registry.sub_registry_with_prefix("link");
        self.families.register(link);
        let gaps = "Gaps detected by the receiver, by reason";
        link.register("gaps", gaps, self.gaps.clone());
        let resyncs = "Times that all connections had to sync";
        link.register("resyncs", resyncs, self.resyncs.clone());
        let drops = "Parcels not sent or not delivered, by reason";
        link.register("drops", drops, self.drops.clone());
        let again = "Parcels sent directly because the broker did not accept them";
        link.register("parcels_sent_again", again, self.parcels_sent_again.clone());
        let panics = "Tasks of direct connections that panicked";
        link.register("task_panics", panics, self.task_panics.clone());
        let refusals = "Requests to the direct link that were refused";
        link.register("refusals", refusals, self.refusals.clone());
        for (name, help, gauge) in [
            ("peers", "Other nodes that are known", &self.peers),
            ("peers_connected", "Nodes connected directly", &self.peers_connected),
            ("peers_cut_off", "Nodes that the broker does not reach", &self.peers_cut_off),
        ] {
            link.register(name, help, gauge.clone());
        }
        let is_healthy = format!("{}_is_healthy", self.broker_name);
        let help = "Whether the broker carries parcels";
        link.register(is_healthy, help, self.broker_is_healthy.clone());
    }
}
