//! The part of a connection that the rest of the node shares: its identity and its outbox.

use std::io::IoSlice;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use heartline_protocol::{CloseReason, ConnectionId, DeviceId};
use heartline_routing::{Lease, LeaseKey, LeaseKind};
use heartline_runtime::Socket;
use tokio::time::Instant;

use crate::outbox::{Delivered, Flushed, Outbox};

/// A connection as the hub, the inbox and the drain see it.
#[derive(Debug)]
pub struct Handle {
    /// The frames to write.
    pub outbox: Outbox,
    /// The plain socket, for writing at once without waking the connection's task.
    direct: Option<Arc<dyn Socket>>,
    opened_at: Instant,
    /// The protocol of the connection: only chat connections receive pushes.
    kind: LeaseKind,
    identity: OnceLock<Identity>,
}

/// The identity of an admitted connection.
#[derive(Debug)]
pub struct Identity {
    /// The key of its lease.
    pub key: LeaseKey,
    /// The device of the user.
    pub device_id: DeviceId,
    /// Whether it was admitted with a lease. If not, the directory did not answer, and the lease is
    /// registered when it does.
    pub is_leased: bool,
}

impl Handle {
    pub(crate) fn new(
        outbox: Outbox,
        direct: Option<Arc<dyn Socket>>,
        opened_at: Instant,
        kind: LeaseKind,
    ) -> Self {
        Self { outbox, direct, opened_at, kind, identity: OnceLock::new() }
    }

    /// The protocol of the connection.
    pub fn kind(&self) -> LeaseKind {
        self.kind
    }

    /// Whether the connection is a chat connection.
    pub(crate) fn is_chat(&self) -> bool {
        self.kind == LeaseKind::Chat
    }

    /// The identity; `None` before admission.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.get()
    }

    /// The connection id; `None` before admission.
    pub(crate) fn connection_id(&self) -> Option<ConnectionId> {
        self.identity.get().map(|identity| identity.key.connection_id)
    }

    /// Sets the identity, once.
    pub(crate) fn identify(&self, identity: Identity) {
        self.identity.set(identity).expect("a connection is admitted once");
    }

    /// Writes the queued frames at once if the socket is writable, else wakes the task to wait.
    pub(crate) fn flush(&self) {
        let Some(socket) = &self.direct else { return self.outbox.wake() };
        if self.outbox.is_blocked() {
            return;
        }
        tracing::trace!(target: "heartline::life", message_stop = 14, "written");
        match self.outbox.flush_with(|slices| socket.try_write(slices)) {
            Ok(Flushed::All) => {}
            // The task waits until the socket is writable, or gets the same error and ends.
            Ok(Flushed::Blocked) | Err(_) => self.outbox.wake(),
        }
    }

    /// Stop 14 of the life of a message, stop 13 of the life of a presence transition: written.
    /// Writes a frame at once if the outbox is empty, else queues it.
    pub(crate) fn deliver(&self, frame: &Bytes, now: Instant) -> Option<Delivered> {
        tracing::trace!(target: "heartline::life", message_stop = 14, presence_stop = 13, "written");
        match &self.direct {
            Some(socket) => {
                let write = |bytes: &[u8]| socket.try_write(&[IoSlice::new(bytes)]);
                self.outbox.write_or_push(frame, now, write)
            }
            None => self.outbox.push(frame, now).map(Delivered::Queued),
        }
    }

    /// Queues a signal ahead of all data and flushes.
    pub(crate) fn signal(&self, frame: Bytes) {
        self.outbox.push_urgent(frame);
        self.flush();
    }

    /// Whether the connection is closing.
    pub(crate) fn is_closing(&self) -> bool {
        self.outbox.is_closing()
    }

    /// Asks the connection to close.
    pub fn stop(&self, reason: CloseReason) {
        self.outbox.stop(reason);
    }

    /// The lease to register again after the directory lost it.
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
