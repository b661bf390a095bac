//! Whether users are online, as the directory derives it from live leases.

use heartline_protocol::{Timestamp, UserId};

/// Whether a user is online.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PresenceState {
    /// At least one lease is live.
    Online {
        /// Rises with every transition of the user, so that a late event is known as late.
        version: u64,
    },
    /// None is.
    Offline {
        /// The same.
        version: u64,
        /// When the last lease ended, if the directory still remembers: the moment of a clean
        /// leave, the last renewal before a crash.
        last_seen: Option<Timestamp>,
    },
    /// The directory lost what it knew and is being told again: nobody can say for now.
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
    /// Who.
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

/// What a node hears from the directory without asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Somebody came or left. Every node hears it, perhaps twice.
    Transition(Transition),
    /// A call of this node decided it: this node, and no other, does what must be done once.
    Decided(Transition),
    /// Something may have been missed: who watches anybody must read again.
    Gap,
}

/// Changes that may wait for one listener. Who falls further behind has a gap.
pub const CHANGES_MAX: usize = 8192;
