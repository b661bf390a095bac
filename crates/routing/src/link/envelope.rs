//! The envelopes that travel between nodes: plain data, and nothing that only one process can use.

use std::sync::Arc;

use bytes::Bytes;
use heartline_protocol::{ChatId, CloseReason, ConnectionId, Timestamp, UserId};

use crate::lease::LeaseKey;
use crate::presence::Transition;

/// A request from one node to another to act on its sockets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Envelope {
    /// Push one frame to every chat socket of these users.
    Push {
        /// The receivers.
        user_ids: Arc<[UserId]>,
        /// The frame's JSON text, encoded once.
        frame: Bytes,
    },
    /// Push a message of a chat, in its place among the chat's other messages.
    Message(Delivery),
    /// Push a typing notice to those of the recipients who may see that user.
    Typing {
        /// The receivers.
        user_ids: Arc<[UserId]>,
        /// The chat in which the user types.
        chat_id: ChatId,
        /// The user who types or has stopped.
        user_id: UserId,
        /// False when the user has stopped.
        is_typing: bool,
    },
    /// Push presence transitions to observers who may see them.
    Presence(Vec<PresenceNews>),
    /// The visibility or the contacts of these users have changed: evaluate again who may see them
    /// and whom they may see.
    PrivacyChanged {
        /// The users.
        user_ids: Vec<UserId>,
    },
    /// Push `resync_required` to chat sockets, which may have missed pushes.
    Resync {
        /// The users of the sockets; none means all.
        user_ids: Option<Arc<[UserId]>>,
        /// The chats to sync; none means all.
        chat_ids: Option<Vec<ChatId>>,
        /// Why pushes may be missing.
        reason: ResyncReason,
    },
    /// Close these connections.
    Close {
        /// The leases of the connections.
        leases: Vec<LeaseKey>,
        /// The reason that clients are given.
        reason: CloseReason,
    },
}

/// A message for the sockets of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The chat.
    pub chat_id: ChatId,
    /// The message's sequence in the chat.
    pub sequence: u64,
    /// The receivers.
    pub user_ids: Arc<[UserId]>,
    /// The frame's JSON text, encoded once.
    pub frame: Bytes,
    /// The connection that sent the message and gets its acknowledgement instead.
    pub origin: Option<ConnectionId>,
    /// When the committing node saw the commit, by its wall clock: only for the delivery lag. None
    /// if the message was announced late.
    pub committed_at: Option<Timestamp>,
}

/// A transition, with the users of a node who observe it without a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresenceNews {
    /// The transition.
    pub transition: Transition,
    /// The users who share an active chat with that user.
    pub observer_ids: Arc<[UserId]>,
}

/// Why clients must sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResyncReason {
    /// A sequence of a chat is missing and could not be read from the log in time.
    DeliveryGap,
    /// The connection's lease was lost for a while: other nodes could not route to it.
    LeaseLost,
    /// A parcel between two nodes was lost.
    LinkGap,
    /// The members of a chat, or their routes, could not be read for a while.
    Undelivered,
}

impl ResyncReason {
    /// Every reason.
    pub const ALL: [Self; 4] =
        [Self::DeliveryGap, Self::LeaseLost, Self::LinkGap, Self::Undelivered];

    /// The reason as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DeliveryGap => "delivery_gap",
            Self::LeaseLost => "lease_lost",
            Self::LinkGap => "link_gap",
            Self::Undelivered => "undelivered",
        }
    }
}
