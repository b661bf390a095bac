//! Presence, as the directory derives it from live leases.

use heartline_protocol::{Timestamp, UserId};

/// Whether a user is online.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PresenceState {
    /// The user has a live lease, or had one within the linger.
    Online {
        /// Rises with every transition of the user, so that a late event can be detected.
        version: u64,
    },
    /// The user has no live lease.
    Offline {
        /// As above.
        version: u64,
        /// When the last lease ended, if the directory still knows: the time of a clean disconnect,
        /// or of the last renewal before a crash.
        last_seen: Option<Timestamp>,
    },
    /// The directory lost its data and is rebuilding, so that the state is not known.
    Stale,
}

impl PresenceState {
    /// The version, if the state is known.
    pub fn version(self) -> Option<u64> {
        match self {
            Self::Online { version } | Self::Offline { version, .. } => Some(version),
            Self::Stale => None,
        }
    }
}

/// A user came online or went offline. The directory decides each exactly once, in the same step
/// as the change of leases that causes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// The user.
    pub user_id: UserId,
    /// Whether they are online now.
    pub is_online: bool,
    /// Higher than that of any earlier transition of the user.
    pub version: u64,
    /// When they were last online; only when they went offline.
    pub last_seen: Option<Timestamp>,
}

impl Transition {
    /// The state after it.
    pub fn state(&self) -> PresenceState {
        let (version, last_seen) = (self.version, self.last_seen);
        match self.is_online {
            true => PresenceState::Online { version },
            false => PresenceState::Offline { version, last_seen },
        }
    }
}

/// A change that the directory publishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A user came online or went offline. Every node receives it, perhaps twice.
    Transition(Transition),
    /// A transition that a call of this node decided: this node, and no other, acts on it once.
    Decided(Transition),
    /// Changes may have been missed: observers must read the present state again.
    Gap,
}

/// Changes that may wait for one receiver. A receiver that falls further behind has a gap.
pub const CHANGES_MAX: usize = 8192;
