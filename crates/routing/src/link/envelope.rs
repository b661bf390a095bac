//! What travels between nodes.

use std::sync::Arc;

use bytes::Bytes;
use heartline_protocol::{ChatId, CloseReason, ConnectionId, UserId};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::lease::LeaseKey;
use crate::presence::Transition;

/// Something that one node asks another to do with its sockets.
#[derive(Debug)]
pub enum Envelope {
    /// Push one frame to every chat socket of these users.
    Push {
        /// To whom.
        user_ids: Arc<[UserId]>,
        /// The frame's JSON text, encoded once.
        frame: Bytes,
        /// Where to say for how many sockets it was queued; only a sender on the same node can
        /// ask for it.
        queued: Option<oneshot::Sender<usize>>,
    },
    /// Push a message of a chat, in its place among the chat's other messages.
    Message(Delivery),
    /// Show that somebody types, to those of these users who may see that person.
    Typing {
        /// To whom.
        user_ids: Arc<[UserId]>,
        /// Where.
        chat_id: ChatId,
        /// Who types, or does not any more.
        user_id: UserId,
        /// Which of the two.
        is_typing: bool,
    },
    /// Tell who came and left, to those who may know.
    Presence(Vec<PresenceNews>),
    /// Who may see these users, or whom they may see, has changed: judge again.
    PrivacyChanged {
        /// Whose.
        user_ids: Vec<UserId>,
    },
    /// Tell chat sockets that they may have missed something.
    Resync {
        /// Whose; none means everybody's.
        user_ids: Option<Arc<[UserId]>>,
        /// Which chats; none means all.
        chat_ids: Option<Vec<ChatId>>,
        /// Why.
        reason: ResyncReason,
    },
    /// End these connections.
    Close {
        /// Which.
        leases: Vec<LeaseKey>,
        /// Why.
        reason: CloseReason,
    },
}

/// A message on its way to the sockets of one node.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The chat.
    pub chat_id: ChatId,
    /// Its number in the chat.
    pub sequence: u64,
    /// To whom.
    pub user_ids: Arc<[UserId]>,
    /// The frame's JSON text, encoded once.
    pub frame: Bytes,
    /// The connection that sent it and has its acknowledgement instead.
    pub origin: Option<ConnectionId>,
    /// When it was known as committed, on this process' clock; none if it came late.
    pub committed_at: Option<Instant>,
}

/// A transition, and who of a node's users should hear of it without having asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresenceNews {
    /// What happened.
    pub transition: Transition,
    /// Who shares an active chat with that person.
    pub observer_ids: Arc<[UserId]>,
}

/// Why clients are told to sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResyncReason {
    /// A number of a chat is missing and could not be read from the log in time.
    DeliveryGap,
    /// The connection's lease was lost for a while: others could not find it.
    LeaseLost,
    /// Something between two nodes was lost.
    LinkGap,
    /// It was not known for a while who should hear a chat, or where they are.
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
