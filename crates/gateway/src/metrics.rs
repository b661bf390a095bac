//! What the gateway counts. `docs/metrics.md` defines each.

use heartline_protocol::CloseReason;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// A reason as a label.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ReasonLabel {
    /// The reason as the wire writes it.
    pub reason: &'static str,
}

/// The gateway's counters and gauges, as cheap handles.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    /// Admitted connections that are open.
    pub connections_active: Gauge,
    /// Sockets that were upgraded and have not authenticated yet.
    pub connections_unauthenticated: Gauge,
    /// Connections admitted.
    pub connections: Counter,
    /// Upgrades refused, by error code.
    pub refused: Family<ReasonLabel, Counter>,
    /// Connections ended, by closing reason, or `client_closed` or `connection_lost`.
    pub disconnects: Family<ReasonLabel, Counter>,
    /// `SLOW_CONSUMER` warnings.
    pub slow_consumer_warnings: Counter,
    /// Connections ended as slow consumers.
    pub slow_consumer_disconnects: Counter,
    /// Connections ended after silence.
    pub connection_timeouts: Counter,
    /// Last words that could not be written before their deadline.
    pub signals_undelivered: Counter,
    /// Times that an outbox rose over its warning threshold.
    pub outbox_elevated: Counter,
    /// Messages and control frames received.
    pub frames_received: Counter,
    /// Frames written.
    pub frames_sent: Counter,
    /// Data frames dropped because their connection was closing.
    pub frames_dropped: Counter,
    /// Frames that were no JSON object, or came before authentication.
    pub bad_frames: Counter,
    /// Frames of an unknown type without a request id.
    pub unknown_types: Counter,
    /// Frames over their rate.
    pub rate_limited: Counter,
    /// Tokens refused.
    pub auth_failures: Counter,
    /// Times that a client was made to sync again, by reason.
    pub resyncs_forced: Family<ReasonLabel, Counter>,
    /// Bytes in all outboxes.
    pub outbox_bytes: Gauge,
    /// Frames in all outboxes.
    pub outbox_messages: Gauge,
    /// Bytes that all outboxes may hold.
    pub outbox_capacity_bytes: Gauge,
}

impl Metrics {
    /// Registers every metric under its documented name.
    pub fn register(&self, registry: &mut Registry) {
        let gateway = registry.sub_registry_with_prefix("gateway");
        let mut gauge = |name, help, gauge: &Gauge| gateway.register(name, help, gauge.clone());
        gauge("connections_active", "Admitted connections that are open", &self.connections_active);
        gauge(
            "connections_unauthenticated",
            "Sockets that have not authenticated yet",
            &self.connections_unauthenticated,
        );
        gauge("outbox_bytes", "Bytes in all outboxes", &self.outbox_bytes);
        gauge("outbox_messages", "Frames in all outboxes", &self.outbox_messages);
        gauge(
            "outbox_capacity_bytes",
            "Bytes that all outboxes may hold",
            &self.outbox_capacity_bytes,
        );
        for (name, help, counter) in [
            ("connections", "Connections admitted", &self.connections),
            ("slow_consumer_warnings", "SLOW_CONSUMER warnings", &self.slow_consumer_warnings),
            (
                "slow_consumer_disconnects",
                "Connections ended as slow consumers",
                &self.slow_consumer_disconnects,
            ),
            ("connection_timeouts", "Connections ended after silence", &self.connection_timeouts),
            (
                "signals_undelivered",
                "Closing frames that could not be written in time",
                &self.signals_undelivered,
            ),
            ("outbox_elevated", "Outboxes risen over 80 percent", &self.outbox_elevated),
            ("frames_received", "Messages and control frames received", &self.frames_received),
            ("frames_sent", "Frames written", &self.frames_sent),
            ("frames_dropped", "Data frames dropped by a closing", &self.frames_dropped),
            ("bad_frames", "Frames that were no JSON object or too early", &self.bad_frames),
            ("unknown_types", "Frames of an unknown type", &self.unknown_types),
            ("rate_limited", "Frames over their rate", &self.rate_limited),
            ("auth_failures", "Tokens refused", &self.auth_failures),
        ] {
            gateway.register(name, help, counter.clone());
        }
        gateway.register("upgrades_refused", "Upgrades refused, by code", self.refused.clone());
        gateway.register("disconnects", "Connections ended, by reason", self.disconnects.clone());
        let resyncs = "Times that a client was made to sync again, by reason";
        registry.register("client_resyncs_forced", resyncs, self.resyncs_forced.clone());
    }

    /// Counts the end of an admitted connection.
    pub(crate) fn disconnected(&self, reason: &'static str) {
        self.disconnects.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// Counts a close that the server decided on.
    pub(crate) fn closing(&self, reason: CloseReason) {
        match reason {
            CloseReason::SlowConsumer => {
                self.slow_consumer_disconnects.inc();
            }
            CloseReason::HeartbeatTimeout => {
                self.connection_timeouts.inc();
            }
            _ => {}
        }
        if forces_resync(reason) {
            self.resync_forced(reason.as_str());
        }
    }

    /// Counts a client that must sync again.
    pub(crate) fn resync_forced(&self, reason: &'static str) {
        self.resyncs_forced.get_or_create(&ReasonLabel { reason }).inc();
    }
}

/// Whether a close is load control: the client is expected to come back and sync.
fn forces_resync(reason: CloseReason) -> bool {
    matches!(
        reason,
        CloseReason::SlowConsumer
            | CloseReason::Overloaded
            | CloseReason::MaxAge
            | CloseReason::ServerShutdown
            | CloseReason::HeartbeatTimeout
            | CloseReason::InternalError
    )
}
