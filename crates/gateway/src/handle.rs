//! What the rest of the node holds of a connection: who it is, and its outbox.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use heartline_protocol::{CloseReason, ConnectionId, DeviceId};
use heartline_routing::{Lease, LeaseKey, LeaseKind};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::outbox::{Delivered, Flushed, Outbox};
use crate::transport::try_write;

/// A connection as the hub, the inbox and the drain see it.
#[derive(Debug)]
pub struct Handle {
    /// What waits to be written.
    pub outbox: Outbox,
    /// The plain socket, for writing at once without waking the connection's task.
    direct: Option<Arc<TcpStream>>,
    opened_at: Instant,
    /// What it speaks: only chat connections are pushed to.
    kind: LeaseKind,
    identity: OnceLock<Identity>,
}

/// Who a connection is, from its admission on.
#[derive(Debug)]
pub struct Identity {
    /// Its lease.
    pub key: LeaseKey,
    /// Which of the user's devices it is.
    pub device_id: DeviceId,
    /// Whether it was admitted with a lease; else the directory did not answer, and the lease
    /// comes when it does.
    pub is_leased: bool,
}

impl Handle {
    pub(crate) fn new(
        outbox: Outbox,
        direct: Option<Arc<TcpStream>>,
        opened_at: Instant,
        kind: LeaseKind,
    ) -> Self {
        Self { outbox, direct, opened_at, kind, identity: OnceLock::new() }
    }

    /// What it speaks.
    pub fn kind(&self) -> LeaseKind {
        self.kind
    }

    /// Whether it understands chat frames.
    pub(crate) fn is_chat(&self) -> bool {
        self.kind == LeaseKind::Chat
    }

    /// Who it is; `None` before its admission.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.get()
    }

    /// Which connection it is; `None` before its admission.
    pub(crate) fn connection_id(&self) -> Option<ConnectionId> {
        self.identity.get().map(|identity| identity.key.connection_id)
    }

    /// Says who it is, once.
    pub(crate) fn identify(&self, identity: Identity) {
        self.identity.set(identity).expect("a connection is admitted once");
    }

    /// Writes what is queued at once if the socket takes it, else lets the task wait for it.
    pub(crate) fn flush(&self) {
        let Some(socket) = &self.direct else { return self.outbox.wake() };
        if self.outbox.is_blocked() {
            return;
        }
        match self.outbox.flush_with(|slices| try_write(socket, slices)) {
            Ok(Flushed::All) => {}
            // The task waits until the socket is writable, or meets the same error and ends.
            Ok(Flushed::Blocked) | Err(_) => self.outbox.wake(),
        }
    }

    /// Writes a frame at once if nothing waits before it, else queues it.
    pub(crate) fn deliver(&self, frame: &Bytes, now: Instant) -> Option<Delivered> {
        match &self.direct {
            Some(socket) => self.outbox.write_or_push(frame, now, |bytes| socket.try_write(bytes)),
            None => self.outbox.push(frame, now).map(Delivered::Queued),
        }
    }

    /// Queues a signal ahead of all data and sends it on its way.
    pub(crate) fn signal(&self, frame: Bytes) {
        self.outbox.push_urgent(frame);
        self.flush();
    }

    /// Whether the connection has begun to end.
    pub(crate) fn is_closing(&self) -> bool {
        self.outbox.is_closing()
    }

    /// Asks the connection to close.
    pub fn stop(&self, reason: CloseReason) {
        self.outbox.stop(reason);
    }

    /// The lease to claim if it was lost.
    pub(crate) fn lease_again(&self, now: Instant) -> Option<Lease> {
        self.identity.get().map(|identity| Lease {
            key: identity.key.clone(),
            device_id: identity.device_id.clone(),
            kind: self.kind,
            age: now.saturating_duration_since(self.opened_at),
            again: true,
        })
    }

    /// How long the socket has been open.
    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.opened_at)
    }
}
