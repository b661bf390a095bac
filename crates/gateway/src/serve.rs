//! Serves one admitted socket, from its first frame to its log line.

use std::sync::Arc;
use std::time::Duration;

use heartline_protocol::limits::FRAGMENTS_MAX;
use heartline_protocol::server_frame::ConnectionEstablished;
use heartline_protocol::{CloseReason, PROTOCOL_VERSION, ServerFrame, encode_server};
use heartline_routing::{LeaseKey, LeaseKind};
use tracing::info;

use crate::accept::{Accepted, Ticket};
use crate::connection::{Connection, Ended, Leaving};
use crate::gateway::Gateway;
use crate::handle::{Handle, Identity};
use crate::hub::Listing;
use crate::outbox::Outbox;
use crate::pressure::Bounds;
use crate::session::{Effects, Moment, Session};
use crate::transport::Transport;
use crate::websocket::{FrameReader, ReaderLimits, text_frame};

impl Gateway {
    /// Queues `connection_established`, then lists the connection: every push comes after that frame,
    /// and a sync after that frame misses no message.
    pub(crate) fn establish(
        &self,
        handle: &Arc<Handle>,
        identity: Identity,
        ticket: &Ticket,
    ) -> Listing {
        let frame = ServerFrame::ConnectionEstablished(Box::new(ConnectionEstablished {
            connection_id: identity.key.connection_id,
            user_id: identity.key.user_id.clone(),
            device_id: identity.device_id.clone(),
            server_id: self.node_id.clone(),
            heartbeat_interval_ms: self.config.heartbeat_interval.as_millis() as u64,
            heartbeat_timeout_ms: self.config.heartbeat_timeout.as_millis() as u64,
            protocol_version: PROTOCOL_VERSION,
            limits: self.config.client_limits(),
            degraded: (!identity.is_leased).then(|| vec!["presence".to_owned()]),
        }));
        handle.outbox.push_urgent(text_frame(&encode_server(&frame, self.clock.wall())));
        info!(
            connection_id = %identity.key.connection_id,
            user_id = %identity.key.user_id,
            device_id = %identity.device_id,
            node = %self.node_id,
            address = %ticket.address,
            client = ticket.client.as_deref(),
            "connected"
        );
        handle.identify(identity);
        self.hub.list(Arc::clone(handle))
    }

    /// Runs an upgraded socket until it ends. `early` holds the bytes that came with the upgrade
    /// request. Everything is set up before the future is created, so that the task of an idle
    /// connection holds only the connection.
    pub fn serve(
        self: Arc<Self>,
        accepted: Accepted,
        transport: Transport,
        early: &[u8],
    ) -> impl Future<Output = ()> + Send + use<> {
        let mut connection = self.open(accepted, transport, early);
        async move {
            let ended = connection.run().await;
            // Boxed, because a task is as large as its largest await.
            Box::pin(self.end(connection, ended)).await;
        }
    }

    fn open(
        self: &Arc<Self>,
        accepted: Accepted,
        transport: Transport,
        early: &[u8],
    ) -> Connection {
        let Accepted { ticket, device_id, admitted, opened_at } = accepted;
        let at = Moment { now: self.clock.now(), wall: self.clock.wall() };
        let seed = self.random.draw();
        let direct = match &transport {
            Transport::Plain(socket) => Some(Arc::clone(socket)),
            Transport::Tls(_) => None,
        };
        let frames_sent = self.metrics.frames_sent.clone();
        let outbox = Outbox::new(self.bounds(), Arc::clone(&self.budget), frames_sent);
        let handle = Arc::new(Handle::new(outbox, direct, opened_at, LeaseKind::Chat));
        let config = Arc::clone(&self.config);
        let (session, first, listing) = match admitted {
            Some((admitted, identity)) => {
                let listing = self.establish(&handle, identity, &ticket);
                (Session::established(config, admitted, seed, at), Effects::new(), listing)
            }
            None => {
                let (session, first) = Session::challenged(config, device_id, seed, at);
                (session, first, self.hub.list_guest(seed, Arc::clone(&handle)))
            }
        };
        // A drain that began during the upgrade may have listed the hub before this connection.
        if self.is_draining() {
            handle.stop(CloseReason::ServerShutdown);
        }
        let mut reader = FrameReader::new(self.reader_limits());
        reader.feed(early);
        let gateway = Arc::clone(self);
        let mut connection =
            Connection::new(gateway, transport, reader, session, handle, listing, ticket);
        connection.begin(first);
        connection
    }

    /// Unregisters the lease first, so that no envelope is routed here while the last frames are
    /// written; then writes them and logs the end.
    async fn end(&self, mut connection: Connection, ended: Ended) {
        if let Some(identity) = connection.identity() {
            self.presence.leave(identity.key.connection_id);
            self.release_lease(&identity.key, ended).await;
        }
        connection.finish(ended).await;
        let Leaving { handle, ticket, frames_received } = connection.leave();
        let reason = ended.as_str();
        let tally = handle.outbox.tally();
        self.metrics.disconnected(reason);
        self.metrics.frames_dropped.inc_by(tally.frames_dropped);
        let duration_ms = handle.age(self.clock.now()).as_millis() as u64;
        let identity = handle.identity();
        info!(
            connection_id = identity.map(|i| tracing::field::display(i.key.connection_id)),
            user_id = identity.map(|i| i.key.user_id.as_str()),
            device_id = identity.map(|i| i.device_id.as_str()),
            node = %self.node_id,
            address = %ticket.address,
            client = ticket.client.as_deref(),
            reason,
            duration_ms,
            frames_received,
            frames_sent = tally.frames_written,
            frames_dropped = tally.frames_dropped,
            peak_outbox = tally.peak_messages,
            "disconnected"
        );
    }

    /// Stop 1 of the life of a presence transition: disconnected. Unregisters the lease of a
    /// connection that has ended.
    pub(crate) async fn release_lease(&self, key: &LeaseKey, ended: Ended) {
        tracing::trace!(target: "heartline::life", presence_stop = 1, "disconnected");
        let keep = self.keep(ended);
        let left_at = match self.unregister(key, keep).await {
            // The directory records the time with the transition.
            Ok(None) if keep.is_zero() => return,
            Ok(Some(now)) => now,
            Ok(None) | Err(_) => self.clock.wall(),
        };
        self.durability.records.left(&key.user_id, left_at);
    }

    /// How long a user stays online after the end of the last connection. A user whose client was
    /// given a delay to reconnect is still online.
    fn keep(&self, ended: Ended) -> Duration {
        match ended {
            Ended::Closed(CloseReason::ServerShutdown | CloseReason::MaxAge) => {
                self.config.lease.max(self.config.offline_linger)
            }
            Ended::Closed(_) | Ended::ClientClosed | Ended::Lost => self.config.offline_linger,
        }
    }

    fn bounds(&self) -> Bounds {
        let limits = &self.config.limits;
        Bounds {
            messages: limits.outbox_messages,
            bytes: limits.outbox_bytes,
            grace: limits.slow_grace,
        }
    }

    fn reader_limits(&self) -> ReaderLimits {
        ReaderLimits { message_bytes: self.config.limits.frame_bytes, fragments: FRAGMENTS_MAX }
    }
}
