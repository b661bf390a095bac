//! The gateway's metrics, defined in `docs/metrics.md`.

use heartline_protocol::CloseReason;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// A reason as a label.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ReasonLabel {
    /// The reason as on the wire.
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
    /// Closing frames that could not be written before their deadline.
    pub signals_undelivered: Counter,
    /// Times that an outbox rose over its warning threshold.
    pub outbox_elevated: Counter,
    /// Messages and control frames received.
    pub frames_received: Counter,
    /// Heartbeats of clients that were answered.
    pub heartbeats: Counter,
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
    /// Messages delivered on this node.
    pub delivery: DeliveryMetrics,
    /// Presence pushed to observers on this node.
    pub presence: PresenceMetrics,
    /// Connections accepted without a lease, because the directory did not answer.
    pub connections_unleased: Counter,
    /// Requests refused because too many of their connection were pending.
    pub requests_busy: Counter,
    /// Bytes in all outboxes.
    pub outbox_bytes: Gauge,
    /// Frames in all outboxes.
    pub outbox_messages: Gauge,
    /// Bytes that all outboxes may hold.
    pub outbox_capacity_bytes: Gauge,
    /// Panics of tasks that register connections.
    pub task_panics: Counter,
}

/// Messages at the node that delivers them.
#[derive(Debug, Clone)]
pub struct DeliveryMetrics {
    /// Messages queued for connections.
    pub deliveries: Counter,
    /// Members who were not connected when a message was delivered.
    pub recipients_offline: Counter,
    /// Time from the commit of a message to its sockets.
    pub lag_seconds: Histogram,
    /// Gaps in a chat's sequence that were read from the log, by result.
    pub holes: Family<ReasonLabel, Counter>,
}

/// Presence pushed to the observers of this node.
#[derive(Debug, Clone, Default)]
pub struct PresenceMetrics {
    /// Pairs of a connection and an observed user.
    pub watches: Gauge,
    /// `presence_changed` frames pushed.
    pub events: Counter,
    /// Users whose presence could not be evaluated when it was due.
    pub unjudged: Counter,
    /// Commands dropped by a full queue, after which all observed users were evaluated again.
    pub orders_missed: Counter,
    /// Typing indicators dropped by a full queue.
    pub typing_dropped: Counter,
}

impl PresenceMetrics {
    fn register(&self, registry: &mut Registry) {
        let presence = registry.sub_registry_with_prefix("presence");
        let watches = "Pairs of a connection and an observed user";
        presence.register("watches", watches, self.watches.clone());
        for (name, help, counter) in [
            ("events_pushed", "presence_changed frames pushed", &self.events),
            ("unjudged", "Users whose presence could not be evaluated", &self.unjudged),
            ("orders_missed", "Commands dropped by a full queue", &self.orders_missed),
            ("typing_dropped", "Typing indicators dropped by a full queue", &self.typing_dropped),
        ] {
            presence.register(name, help, counter.clone());
        }
    }
}

/// Buckets up to and around the documented two seconds.
const LAG_BUCKETS: [f64; 12] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0];

impl Default for DeliveryMetrics {
    fn default() -> Self {
        Self {
            deliveries: Counter::default(),
            recipients_offline: Counter::default(),
            lag_seconds: Histogram::new(LAG_BUCKETS),
            holes: Family::default(),
        }
    }
}

impl DeliveryMetrics {
    fn register(&self, registry: &mut Registry) {
        let gateway = registry.sub_registry_with_prefix("gateway");
        gateway.register("deliveries", "Messages queued for connections", self.deliveries.clone());
        let offline = "Members not connected when a message was delivered";
        gateway.register("recipients_offline", offline, self.recipients_offline.clone());
        let (lag, seconds) = ("From commit to socket", Unit::Seconds);
        gateway.register_with_unit("delivery_lag", lag, seconds, self.lag_seconds.clone());
        let holes = "Gaps in a chat's sequence read from the log, by result";
        gateway.register("delivery_holes", holes, self.holes.clone());
    }

    /// Counts the connections that a message was queued for, and the members without one here.
    pub(crate) fn delivered(&self, connections: usize, users_offline: usize) {
        self.deliveries.inc_by(connections as u64);
        self.recipients_offline.inc_by(users_offline as u64);
    }

    pub(crate) fn hole(&self, is_filled: bool) {
        let reason = if is_filled { "filled" } else { "not_filled" };
        self.holes.get_or_create(&ReasonLabel { reason }).inc();
    }
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
            ("outbox_elevated", "Times an outbox exceeded 80 percent", &self.outbox_elevated),
            ("frames_received", "Messages and control frames received", &self.frames_received),
            ("heartbeats", "Heartbeats of clients that were answered", &self.heartbeats),
            ("frames_sent", "Frames written", &self.frames_sent),
            ("frames_dropped", "Data frames dropped by a closing", &self.frames_dropped),
            ("bad_frames", "Frames that were no JSON object or too early", &self.bad_frames),
            ("unknown_types", "Frames of an unknown type", &self.unknown_types),
            ("rate_limited", "Frames over their rate", &self.rate_limited),
            ("auth_failures", "Tokens refused", &self.auth_failures),
            (
                "requests_busy",
                "Requests refused because too many were pending",
                &self.requests_busy,
            ),
            ("task_panics", "Panics of tasks that register connections", &self.task_panics),
            (
                "connections_unleased",
                "Connections accepted while the directory did not answer",
                &self.connections_unleased,
            ),
        ] {
            gateway.register(name, help, counter.clone());
        }
        gateway.register("upgrades_refused", "Upgrades refused, by code", self.refused.clone());
        gateway.register("disconnects", "Connections ended, by reason", self.disconnects.clone());
        let resyncs = "Times that a client was made to sync again, by reason";
        registry.register("client_resyncs_forced", resyncs, self.resyncs_forced.clone());
        self.delivery.register(registry);
        self.presence.register(registry);
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

/// Whether a close is load control, after which the client is expected to reconnect and sync.
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
