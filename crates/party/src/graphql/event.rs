//! The events of subscriptions.

use std::sync::Arc;

use async_graphql::{ID, SimpleObject, Union};

use super::item::ItemView;
use super::session::{QueueStateView, SessionUserView};
use super::statistics::SessionStatsUpdated;
use crate::room::listener::{SessionUpdate, SessionUpdateKind};
use crate::value::fact::{QueueChange, QueueEvent, Stamp};
use crate::value::roster::MemberId;
use crate::value::session::PartySession;

/// A change of the queue.
#[derive(Debug, Union)]
#[graphql(name = "QueueEvent")]
pub(super) enum QueueEventView {
    /// The whole queue.
    FullSync(FullSync),
    /// An item was added.
    Added(QueueItemAdded),
    /// An item was removed.
    Removed(QueueItemRemoved),
    /// An item moved.
    Reordered(QueueReordered),
    /// The current climb changed.
    CurrentChanged(CurrentClimbChanged),
    /// The current climb was mirrored, or is no longer mirrored.
    Mirrored(ClimbMirrored),
}

/// The whole queue, which replaces the state that the client has.
#[derive(Debug, SimpleObject)]
pub(super) struct FullSync {
    /// The number of the last event.
    sequence: u64,
    /// The number of times that the session was restored after a loss.
    incarnation: u64,
    /// The queue.
    state: QueueStateView,
}

/// The fields of every event of the queue except `FullSync`.
#[derive(Debug, SimpleObject)]
pub(super) struct Delta {
    /// The number of the event: one more than that of the event before.
    sequence: u64,
    /// The number of times that the session was restored after a loss. Sequences of different
    /// incarnations are not comparable.
    incarnation: u64,
    /// The state hash after the event.
    state_hash: Option<String>,
    /// The order hash after the event.
    order_hash: Option<String>,
    /// The member that caused the event.
    client_id: Option<ID>,
    /// The correlation id of the operation that caused the event.
    correlation_id: Option<ID>,
}

/// An item was added.
#[derive(Debug, SimpleObject)]
pub(super) struct QueueItemAdded {
    #[graphql(flatten)]
    delta: Delta,
    /// The item.
    item: ItemView,
    /// The position of the item.
    position: Option<usize>,
}

/// An item was removed; the current climb is cleared if it was that item.
#[derive(Debug, SimpleObject)]
pub(super) struct QueueItemRemoved {
    #[graphql(flatten)]
    delta: Delta,
    /// The item.
    uuid: ID,
}

/// An item moved.
#[derive(Debug, SimpleObject)]
pub(super) struct QueueReordered {
    #[graphql(flatten)]
    delta: Delta,
    /// The item.
    uuid: ID,
    /// The former position.
    old_index: usize,
    /// The new position.
    new_index: usize,
}

/// The current climb changed, or was cleared.
#[derive(Debug, SimpleObject)]
pub(super) struct CurrentClimbChanged {
    #[graphql(flatten)]
    delta: Delta,
    /// The current climb; null if there is none.
    item: Option<ItemView>,
}

/// The current climb was mirrored, or is no longer mirrored.
#[derive(Debug, SimpleObject)]
pub(super) struct ClimbMirrored {
    #[graphql(flatten)]
    delta: Delta,
    /// Whether the current climb, and the item with its uuid, are mirrored.
    mirrored: bool,
}

impl Delta {
    fn of(stamp: &Stamp, incarnation: u64) -> Self {
        Self {
            sequence: stamp.sequence,
            incarnation,
            state_hash: Some(stamp.state_hash.to_string()),
            order_hash: Some(stamp.order_hash.to_string()),
            client_id: stamp.client_id.as_ref().map(id),
            correlation_id: stamp.correlation_id.as_deref().map(ID::from),
        }
    }
}

fn id(member: &MemberId) -> ID {
    member.as_str().into()
}

impl QueueEventView {
    /// The present state.
    pub(super) fn full_sync(session: &Arc<PartySession>) -> Self {
        Self::FullSync(FullSync {
            sequence: session.queue.sequence,
            incarnation: session.incarnation,
            state: QueueStateView::Of(Arc::clone(session)),
        })
    }

    /// One event; none for a replaced queue, which is sent as a `FullSync`.
    pub(super) fn of(event: &QueueEvent, incarnation: u64) -> Option<Self> {
        let delta = Delta::of(&event.stamp, incarnation);
        Some(match &event.change {
            QueueChange::QueueItemAdded { item, position } => {
                let (item, position) = (ItemView(item.clone()), Some(*position));
                Self::Added(QueueItemAdded { delta, item, position })
            }
            QueueChange::QueueItemRemoved { uuid } => {
                Self::Removed(QueueItemRemoved { delta, uuid: uuid.into() })
            }
            QueueChange::QueueReordered { uuid, old_index, new_index } => {
                let (uuid, old_index, new_index) = (uuid.into(), *old_index, *new_index);
                Self::Reordered(QueueReordered { delta, uuid, old_index, new_index })
            }
            QueueChange::CurrentClimbChanged { item } => {
                let item = item.clone().map(ItemView);
                Self::CurrentChanged(CurrentClimbChanged { delta, item })
            }
            QueueChange::ClimbMirrored { mirrored } => {
                Self::Mirrored(ClimbMirrored { delta, mirrored: *mirrored })
            }
            QueueChange::QueueReplaced { .. } => return None,
        })
    }
}

/// A change of a session or of its members.
#[derive(Debug, Union)]
#[graphql(name = "SessionEvent")]
pub(super) enum SessionEventView {
    /// A member joined, or changed its name or picture.
    Joined(UserJoined),
    /// A member left.
    Left(UserLeft),
    /// A member became the leader.
    LeaderChanged(LeaderChanged),
    /// The session ended.
    Ended(SessionEnded),
    /// The statistics changed.
    StatsUpdated(SessionStatsUpdated),
}

/// The number of a session event.
#[derive(Debug, SimpleObject)]
pub(super) struct Numbered {
    /// The number of the event. Events of the session are counted apart from those of the queue;
    /// null in the snapshot with which a subscription begins.
    sequence: Option<u64>,
    /// The number of times that the session was restored after a loss.
    incarnation: u64,
}

/// A member joined, or changed its name or picture. A client replaces the user of the same id.
#[derive(Debug, SimpleObject)]
pub(super) struct UserJoined {
    #[graphql(flatten)]
    numbered: Numbered,
    /// The member.
    user: SessionUserView,
}

/// A member left.
#[derive(Debug, SimpleObject)]
pub(super) struct UserLeft {
    #[graphql(flatten)]
    numbered: Numbered,
    /// The id of the member, as in `SessionUser`.
    user_id: ID,
}

/// A member became the leader.
#[derive(Debug, SimpleObject)]
pub(super) struct LeaderChanged {
    #[graphql(flatten)]
    numbered: Numbered,
    /// The id of the leader, as in `SessionUser`.
    leader_id: ID,
}

/// The session ended, which is final.
#[derive(Debug, SimpleObject)]
pub(super) struct SessionEnded {
    #[graphql(flatten)]
    numbered: Numbered,
    /// The reason, for people.
    reason: String,
    /// The path of the page to show next; always null.
    new_path: Option<String>,
}

impl From<&SessionUpdate> for SessionEventView {
    fn from(update: &SessionUpdate) -> Self {
        let numbered = Numbered { sequence: update.sequence, incarnation: update.incarnation };
        match &update.change {
            SessionUpdateKind::UserJoined { user } => {
                Self::Joined(UserJoined { numbered, user: user.clone().into() })
            }
            SessionUpdateKind::UserLeft { user_id } => {
                Self::Left(UserLeft { numbered, user_id: id(user_id) })
            }
            SessionUpdateKind::LeaderChanged { leader_id } => {
                Self::LeaderChanged(LeaderChanged { numbered, leader_id: id(leader_id) })
            }
            SessionUpdateKind::SessionEnded { reason } => {
                let reason = reason.clone();
                Self::Ended(SessionEnded { numbered, reason, new_path: None })
            }
        }
    }
}
