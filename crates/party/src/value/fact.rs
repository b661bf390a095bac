//! What happened to a session. Facts are all that changes one: whoever folds the same facts has the
//! same session.

use serde::{Deserialize, Serialize};

use crate::value::hash::{OrderHash, StateHash};
use crate::value::item::Item;
use crate::value::roster::{Attachment, Away, Heir, Member, MemberId, Resume};
use crate::value::session::{Details, Status};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// A queue event, which subscribers of the queue hear.
    Queue(QueueEvent),
    /// A session event, which subscribers of the session hear.
    Session(SessionEvent),
    /// The first member brought a queue along. It has a sequence but is no event: whoever hears
    /// events from the beginning gets the whole state.
    Seeded {
        /// The number and hashes of the seeded queue.
        stamp: Stamp,
        /// The queue; none in the log, as in [`QueueChange::QueueReplaced`].
        contents: Option<Contents>,
    },
    /// A member's socket went; it may come back until the deadline.
    MemberAway {
        /// Who.
        member: MemberId,
        /// Since when and until when.
        away: Away,
    },
    /// A member is present through this socket, and may come back with these tokens.
    MemberAttached {
        /// Who.
        member: MemberId,
        /// The socket.
        attachment: Attachment,
        /// The tokens.
        resume: Option<Resume>,
    },
    /// A member used the socket that it came back on, so its former token is no longer needed.
    ResumeConfirmed {
        /// Who.
        member: MemberId,
    },
    /// The session has members again, or no longer.
    StatusChanged {
        /// The new status.
        status: Status,
    },
    /// What is said about the session.
    DetailsChanged {
        /// All of it.
        details: Details,
    },
    /// The session was read back from its archive after a loss. Whoever was a member registers
    /// again.
    Restored {
        /// The new incarnation.
        incarnation: u64,
        /// The new sequence, above all that clients may have seen.
        sequence: u64,
        /// The new number of session events, likewise.
        roster_sequence: u64,
        /// The new epoch, likewise.
        epoch: u64,
        /// Who led, and leads again if it is back in time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        heir: Option<Heir>,
    },
}

/// An event of the queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueueEvent {
    /// Its number, and the hashes of the state after it.
    pub stamp: Stamp,
    /// What changed.
    pub change: QueueChange,
}

/// What every queue event carries, so that a client can tell that it has missed one, that its copy
/// is right, and whether it caused the event.
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
    /// That member's own name for what it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
}

/// A whole queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contents {
    /// The items.
    pub queue: Vec<Item>,
    /// What is being climbed.
    pub current: Option<Item>,
}

/// What changed in the queue, with the names of the wire's events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum QueueChange {
    /// An item came in at a position.
    QueueItemAdded {
        /// The item.
        item: Item,
        /// Where it is now.
        position: usize,
    },
    /// An item went, and with it the current climb if it was that item.
    QueueItemRemoved {
        /// Which.
        uuid: String,
    },
    /// An item moved.
    QueueReordered {
        /// Which.
        uuid: String,
        /// Where it was.
        old_index: usize,
        /// Where it is.
        new_index: usize,
    },
    /// Another climb is current, or none.
    CurrentClimbChanged {
        /// Which.
        item: Option<Item>,
    },
    /// The current climb, and the item of its uuid, are mirrored or not.
    ClimbMirrored {
        /// Whether they are.
        mirrored: bool,
    },
    /// Much changed at once; on the wire a `FullSync`.
    QueueReplaced {
        /// The new queue. The log keeps none ([`Fact::for_log`]): it would fill the whole window,
        /// and whoever replays over it gets the present state anyway.
        contents: Option<Contents>,
    },
}

impl QueueChange {
    /// Roughly the bytes that it takes: its items are what counts.
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
    /// What changed.
    pub change: SessionChange,
}

/// What changed among the members.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum SessionChange {
    /// Somebody is new; on the wire `UserJoined`.
    MemberJoined {
        /// Who.
        member: Member,
    },
    /// Somebody has another name or picture; on the wire `UserJoined`, which clients upsert.
    MemberUpdated {
        /// Who.
        member: MemberId,
        /// The name to show.
        username: String,
        /// The picture to show.
        avatar_url: Option<String>,
    },
    /// Somebody is out; on the wire `UserLeft`.
    MemberLeft {
        /// Who.
        member: MemberId,
    },
    /// Somebody leads; on the wire `LeaderChanged`.
    LeaderElected {
        /// Who.
        member: MemberId,
        /// The number of this election.
        epoch: u64,
    },
    /// The session is over, for good; on the wire `SessionEnded`.
    Ended {
        /// Why, in words for its members.
        reason: String,
        /// When.
        ended_at_ms: u64,
    },
}

impl Fact {
    /// The fact as the log keeps it and as nodes tell each other: without the contents of a whole
    /// queue. Whoever folds such a marker must read the session from its store.
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
