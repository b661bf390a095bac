//! Changes of a session. Only facts change a session: two nodes that fold the same facts have the
//! same session.

use serde::{Deserialize, Serialize};

use crate::value::hash::{OrderHash, StateHash};
use crate::value::item::Item;
use crate::value::roster::{Attachment, Away, FormerLeader, Member, MemberId, Resume};
use crate::value::session::{Details, Status};

/// One change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// A queue event, which is sent to subscribers of the queue.
    Queue(QueueEvent),
    /// A session event, which is sent to subscribers of the session.
    Session(SessionEvent),
    /// The first member seeded the queue. The seed has a sequence but is no event: a replay from
    /// the beginning gives the whole state.
    Seeded {
        /// The number and hashes of the seeded queue.
        stamp: Stamp,
        /// The queue; none in the log, as in [`QueueChange::QueueReplaced`].
        contents: Option<Contents>,
    },
    /// A member's socket closed; it may resume until the deadline.
    MemberAway {
        /// The member.
        member: MemberId,
        /// The times of the close and of the deadline.
        away: Away,
    },
    /// A member uses this socket, and may resume with these tokens.
    MemberAttached {
        /// The member.
        member: MemberId,
        /// The socket.
        attachment: Attachment,
        /// The tokens.
        resume: Option<Resume>,
    },
    /// A member used the socket on which it resumed, so its former token is no longer valid.
    ResumeConfirmed {
        /// The member.
        member: MemberId,
    },
    /// The session became active or inactive.
    StatusChanged {
        /// The new status.
        status: Status,
    },
    /// The details of the session changed.
    DetailsChanged {
        /// All details.
        details: Details,
    },
    /// The session was restored after a loss. Its members register again.
    Restored {
        /// The new incarnation.
        incarnation: u64,
        /// The new sequence, above all that clients may have seen.
        sequence: u64,
        /// The new number of session events, likewise.
        roster_sequence: u64,
        /// The new epoch, likewise.
        epoch: u64,
        /// The former leader, which leads again if it returns in time.
        #[serde(default, rename = "heir", skip_serializing_if = "Option::is_none")]
        former_leader: Option<FormerLeader>,
    },
}

/// An event of the queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueueEvent {
    /// Its number, and the hashes of the state after it.
    pub stamp: Stamp,
    /// The change.
    pub change: QueueChange,
}

/// The fields of every queue event, from which a client knows whether it has missed an event,
/// whether its copy is right, and whether it caused the event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stamp {
    /// The number of the state after it.
    pub sequence: u64,
    /// The state hash after it.
    pub state_hash: StateHash,
    /// The order hash after it.
    pub order_hash: OrderHash,
    /// The member who caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<MemberId>,
    /// The correlation id that the member gave to its operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
}

/// A whole queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contents {
    /// The items.
    pub queue: Vec<Item>,
    /// The current climb.
    pub current: Option<Item>,
}

/// The kinds of queue changes, with the names of the events on the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum QueueChange {
    /// An item was added at a position.
    QueueItemAdded {
        /// The item.
        item: Item,
        /// Its position.
        position: usize,
    },
    /// An item was removed; the current climb is cleared if it was that item.
    QueueItemRemoved {
        /// The item.
        uuid: String,
    },
    /// An item moved.
    QueueReordered {
        /// The item.
        uuid: String,
        /// Its former position.
        old_index: usize,
        /// Its new position.
        new_index: usize,
    },
    /// The current climb changed, or was cleared.
    CurrentClimbChanged {
        /// The item.
        item: Option<Item>,
    },
    /// The current climb, and the item of its uuid, are mirrored or not.
    ClimbMirrored {
        /// Whether they are mirrored.
        mirrored: bool,
    },
    /// The whole queue was replaced; on the wire a `FullSync`.
    QueueReplaced {
        /// The new queue. The log keeps none ([`Fact::for_log`]): it would fill the whole window,
        /// and a replay across it gives the present state anyway.
        contents: Option<Contents>,
    },
}

impl QueueChange {
    /// The approximate size in bytes, which is that of its items.
    pub fn size_bytes(&self) -> usize {
        let items = match self {
            Self::QueueItemAdded { item, .. } => item.size_bytes(),
            Self::CurrentClimbChanged { item } => item.as_ref().map_or(0, Item::size_bytes),
            Self::QueueItemRemoved { .. }
            | Self::QueueReordered { .. }
            | Self::ClimbMirrored { .. }
            | Self::QueueReplaced { .. } => 0,
        };
        size_of::<QueueEvent>() + items
    }
}

/// An event of the session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionEvent {
    /// Its number; session events are counted apart from those of the queue.
    pub sequence: u64,
    /// The change.
    pub change: SessionChange,
}

/// The kinds of session changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum SessionChange {
    /// A member joined; on the wire `UserJoined`.
    MemberJoined {
        /// The member.
        member: Member,
    },
    /// A member changed its name or picture; on the wire `UserJoined`, which clients upsert.
    MemberUpdated {
        /// The member.
        member: MemberId,
        /// The name to show.
        username: String,
        /// The picture to show.
        avatar_url: Option<String>,
    },
    /// A member left; on the wire `UserLeft`.
    MemberLeft {
        /// The member.
        member: MemberId,
    },
    /// A leader was elected; on the wire `LeaderChanged`.
    LeaderElected {
        /// The member.
        member: MemberId,
        /// The number of this election.
        epoch: u64,
    },
    /// The session ended; on the wire `SessionEnded`.
    Ended {
        /// The reason, for its members.
        reason: String,
        /// The time of the end.
        ended_at_ms: u64,
    },
}

impl Fact {
    /// The form of the fact in the log and in notices: without the contents of a whole queue. A
    /// node that cannot fold such a marker reads the session from the store.
    #[must_use]
    pub fn for_log(&self) -> Self {
        let mut fact = self.clone();
        match &mut fact {
            Self::Queue(QueueEvent { change: QueueChange::QueueReplaced { contents }, .. })
            | Self::Seeded { contents, .. } => *contents = None,
            _ => {}
        }
        fact
    }

    /// The queue event, if it is one.
    pub fn queue_event(&self) -> Option<&QueueEvent> {
        if let Self::Queue(event) = self { Some(event) } else { None }
    }

    /// The session event, if it is one.
    pub fn session_event(&self) -> Option<&SessionEvent> {
        if let Self::Session(event) = self { Some(event) } else { None }
    }
}
