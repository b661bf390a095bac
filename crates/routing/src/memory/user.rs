//! The leases of one user, and whether they make the user online.

use std::time::Duration;

use heartline_protocol::{ConnectionId, DeviceId, NodeId, Timestamp, UserId};
use tokio::time::Instant;

use crate::directory::{Policy, Refusal, Registration};
use crate::lease::{Lease, LeaseKey, LeaseKind, LiveConnection};
use crate::presence::{PresenceState, Transition};

/// How long the last-seen time of an offline user is kept.
const OFFLINE_REMEMBERED: Duration = Duration::from_secs(600);

/// The time of a step, by both clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) now: Instant,
    pub(super) wall: Timestamp,
}

/// One user.
#[derive(Debug, Default)]
pub(super) struct User {
    held: Vec<Held>,
    is_online: bool,
    version: u64,
    /// Since when the user is offline, if they ever were online.
    left: Option<(Instant, Timestamp)>,
}

/// A lease that is held, or one that was ended and keeps its user online for a while.
#[derive(Debug)]
pub(super) struct Held {
    connection_id: ConnectionId,
    pub(super) node_id: NodeId,
    device_id: DeviceId,
    pub(super) kind: LeaseKind,
    connected_at: Instant,
    pub(super) ends_at: Instant,
    /// When the connection ended; none while it is open.
    left_at: Option<Timestamp>,
}

impl User {
    /// Decides about a connection, and returns the transition that it causes.
    pub(super) fn register(
        &mut self,
        lease: Lease,
        policy: Policy,
        at: Moment,
    ) -> (Registration, Option<Transition>) {
        let user_id = lease.key.user_id.clone();
        // Expired and ended leases neither count against the limit nor keep the user online beside
        // a new one.
        self.held.retain(|held| held.is_live(at.now));
        let registration = self.admit(lease, policy, at.now);
        let transition = if self.held.is_empty() { None } else { self.comes(&user_id, at.wall) };
        (registration, transition)
    }

    fn admit(&mut self, lease: Lease, policy: Policy, now: Instant) -> Registration {
        if let Some(own) = self.held.iter_mut().find(|held| held.is(&lease.key)) {
            own.ends_at = now + policy.lease;
            return Registration::Admitted { replaced: Vec::new() };
        }
        let connected_at = now.checked_sub(lease.age).unwrap_or(now);
        let contested = |held: &Held| {
            held.kind == lease.kind && (policy.single_session || held.device_id == lease.device_id)
        };
        // Of two sockets that were opened at the same instant the larger id wins, on every node
        // alike.
        let younger = |held: &Held| {
            (held.connected_at, held.connection_id) > (connected_at, lease.key.connection_id)
        };
        if self.held.iter().any(|held| contested(held) && younger(held)) {
            return Registration::Refused(Refusal::Replaced);
        }
        let staying = self.held.iter().filter(|held| !contested(held)).count();
        if !lease.again && staying >= policy.connections_per_user {
            return Registration::Refused(Refusal::ConnectionLimit);
        }
        let user_id = &lease.key.user_id;
        let replaced = self
            .held
            .extract_if(.., |held| contested(held))
            .map(|held| held.key(user_id))
            .collect();
        // Most users have one connection: growing by one keeps the table small.
        self.held.reserve_exact(1);
        self.held.push(Held {
            connection_id: lease.key.connection_id,
            node_id: lease.key.node_id,
            device_id: lease.device_id,
            kind: lease.kind,
            connected_at,
            ends_at: now + policy.lease,
            left_at: None,
        });
        Registration::Admitted { replaced }
    }

    /// Extends a lease; false if it is not held.
    pub(super) fn renew(&mut self, key: &LeaseKey, now: Instant, duration: Duration) -> bool {
        let held = self.held.iter_mut().find(|held| held.is(key) && held.is_live(now));
        let Some(held) = held else { return false };
        held.ends_at = now + duration;
        true
    }

    /// Ends a lease.
    pub(super) fn unregister(
        &mut self,
        key: &LeaseKey,
        keep: Duration,
        at: Moment,
    ) -> Option<Transition> {
        let index = self.held.iter().position(|held| held.is(key) && held.left_at.is_none())?;
        let is_last = self.held.iter().all(|held| held.is(key) || !held.is_live(at.now));
        if is_last && !keep.is_zero() {
            let held = &mut self.held[index];
            held.ends_at = at.now + keep;
            held.left_at = Some(at.wall);
            return None;
        }
        self.held.remove(index);
        if is_last { self.goes(&key.user_id, at.wall, at) } else { None }
    }

    /// Removes up to `room` expired leases.
    pub(super) fn sweep(
        &mut self,
        user_id: &UserId,
        policy: Policy,
        at: Moment,
        room: usize,
        swept: &mut Vec<LeaseKey>,
    ) -> Option<Transition> {
        let mut last_seen = None;
        let mut taken = 0;
        let mut index = 0;
        while index < self.held.len() {
            let held = &mut self.held[index];
            if held.ends_at > at.now || taken == room {
                index += 1;
                continue;
            }
            // A lease ends one lease after its last renewal: that renewal is the last-seen time.
            let over = (at.now - held.ends_at) + policy.lease;
            let seen = held.left_at.unwrap_or_else(|| at.wall.minus(over));
            last_seen = last_seen.max(Some(seen));
            if held.left_at.is_none() {
                swept.push(held.key(user_id));
                taken += 1;
                let ends_at = held.ends_at + policy.offline_linger;
                if ends_at > at.now {
                    held.left_at = Some(seen);
                    held.ends_at = ends_at;
                    index += 1;
                    continue;
                }
            }
            self.held.remove(index);
        }
        let is_over = self.held.is_empty() && self.is_online;
        if is_over { self.goes(user_id, last_seen.unwrap_or(at.wall), at) } else { None }
    }

    fn comes(&mut self, user_id: &UserId, wall: Timestamp) -> Option<Transition> {
        if self.is_online {
            return None;
        }
        self.is_online = true;
        self.left = None;
        self.version = (self.version + 1).max(wall.unix_ms);
        Some(self.transition(user_id))
    }

    fn goes(&mut self, user_id: &UserId, seen: Timestamp, at: Moment) -> Option<Transition> {
        self.held.clear();
        if !self.is_online {
            return None;
        }
        self.is_online = false;
        self.left = Some((at.now, seen));
        self.version = (self.version + 1).max(at.wall.unix_ms);
        Some(self.transition(user_id))
    }

    fn transition(&self, user_id: &UserId) -> Transition {
        Transition {
            user_id: user_id.clone(),
            is_online: self.is_online,
            version: self.version,
            last_seen: self.left.map(|(_, seen)| seen),
        }
    }

    /// Whether the user is online.
    pub(super) fn presence(&self) -> PresenceState {
        let version = self.version;
        match self.is_online {
            true => PresenceState::Online { version },
            false => PresenceState::Offline { version, last_seen: self.left.map(|(_, seen)| seen) },
        }
    }

    /// The live leases.
    pub(super) fn live(&self, now: Instant) -> impl Iterator<Item = &Held> {
        self.held.iter().filter(move |held| held.is_live(now))
    }

    /// Whether the user can be dropped.
    pub(super) fn is_forgotten(&self, now: Instant) -> bool {
        let is_remembered =
            self.left.is_some_and(|(left, _)| now.duration_since(left) < OFFLINE_REMEMBERED);
        self.held.is_empty() && !self.is_online && !is_remembered
    }
}

// === impl Held ===

impl Held {
    pub(super) fn is(&self, key: &LeaseKey) -> bool {
        self.connection_id == key.connection_id && self.node_id == key.node_id
    }

    fn is_live(&self, now: Instant) -> bool {
        self.ends_at > now && self.left_at.is_none()
    }

    pub(super) fn key(&self, user_id: &UserId) -> LeaseKey {
        LeaseKey {
            user_id: user_id.clone(),
            node_id: self.node_id.clone(),
            connection_id: self.connection_id,
        }
    }

    pub(super) fn connection(&self, user_id: &UserId, now: Instant) -> LiveConnection {
        LiveConnection {
            key: self.key(user_id),
            device_id: self.device_id.clone(),
            kind: self.kind,
            age: now - self.connected_at,
            remaining: self.ends_at - now,
        }
    }
}
