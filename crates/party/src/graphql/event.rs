//! What subscriptions say.

use std::sync::Arc;

use async_graphql::{ID, SimpleObject, Union};

use super::item::ItemView;
use super::session::{QueueStateView, SessionUserView};
use super::statistics::SessionStatsUpdated;
use crate::room::listener::{SessionUpdate, SessionUpdateKind};
use crate::value::fact::{QueueChange, QueueEvent, Stamp};
use crate::value::roster::MemberId;
use crate::value::session::Session;

/// Something happened to the queue.
#[derive(Debug, Union)]
#[graphql(name = "QueueEvent")]
pub(super) enum QueueEventView {
    /// The whole queue.
    FullSync(FullSync),
    /// An item came in.
    Added(QueueItemAdded),
    /// An item went.
    Removed(QueueItemRemoved),
    /// An item moved.
    Reordered(QueueReordered),
    /// Another climb is current.
    CurrentChanged(CurrentClimbChanged),
    /// The current climb is mirrored, or no longer.
    Mirrored(ClimbMirrored),
}

/// The whole queue, in place of everything that was heard before.
#[derive(Debug, SimpleObject)]
pub(super) struct FullSync {
    /// The number of the event that led to this state.
    sequence: u64,
    /// How often the session was restored after a loss.
    incarnation: u64,
    /// The state.
    state: QueueStateView,
}

/// What every delta carries.
#[derive(Debug, SimpleObject)]
pub(super) struct Delta {
    /// Its number: one more than that of the delta before it.
    sequence: u64,
    /// How often the session was restored after a loss: sequences of different ones do not compare.
    incarnation: u64,
    /// The state hash after it.
    state_hash: Option<String>,
    /// The order hash after it.
    order_hash: Option<String>,
    /// Who caused it.
    client_id: Option<ID>,
    /// What that client called it.
    correlation_id: Option<ID>,
}

/// An item came in.
#[derive(Debug, SimpleObject)]
pub(super) struct QueueItemAdded {
    #[graphql(flatten)]
    delta: Delta,
    /// The item.
    item: ItemView,
    /// Where it is now.
    position: Option<usize>,
}

/// An item went, and with it the current climb if it was that item.
#[derive(Debug, SimpleObject)]
pub(super) struct QueueItemRemoved {
    #[graphql(flatten)]
    delta: Delta,
    /// Which.
    uuid: ID,
}

/// An item moved.
#[derive(Debug, SimpleObject)]
pub(super) struct QueueReordered {
    #[graphql(flatten)]
    delta: Delta,
    /// Which.
    uuid: ID,
    /// Where it was.
    old_index: usize,
    /// Where it is.
    new_index: usize,
}

/// Another climb is current, or none.
#[derive(Debug, SimpleObject)]
pub(super) struct CurrentClimbChanged {
    #[graphql(flatten)]
    delta: Delta,
    /// Which.
    item: Option<ItemView>,
}

/// The current climb, and the item of its uuid, are mirrored or not.
#[derive(Debug, SimpleObject)]
pub(super) struct ClimbMirrored {
    #[graphql(flatten)]
    delta: Delta,
    /// Whether they are.
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
    pub(super) fn full_sync(session: &Arc<Session>) -> Self {
        Self::FullSync(FullSync {
            sequence: session.queue.sequence,
            incarnation: session.incarnation,
            state: QueueStateView::Of(Arc::clone(session)),
        })
    }

    /// One event; none for a replaced queue, which is told as the present state.
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

/// Something happened to the session.
#[derive(Debug, Union)]
#[graphql(name = "SessionEvent")]
pub(super) enum SessionEventView {
    /// Somebody is here, or is called something else.
    Joined(UserJoined),
    /// Somebody is not here any more.
    Left(UserLeft),
    /// Somebody leads.
    LeaderChanged(LeaderChanged),
    /// It is over.
    Ended(SessionEnded),
    /// What was climbed.
    StatsUpdated(SessionStatsUpdated),
}

/// The number of a session event.
#[derive(Debug, SimpleObject)]
pub(super) struct Numbered {
    /// Its number among the events of the session, apart from those of the queue; none for what was
    /// so before.
    sequence: Option<u64>,
    /// How often the session was restored after a loss.
    incarnation: u64,
}

/// Somebody is here, or is called something else: clients replace whom they know by this id.
#[derive(Debug, SimpleObject)]
pub(super) struct UserJoined {
    #[graphql(flatten)]
    numbered: Numbered,
    /// Who.
    user: SessionUserView,
}

/// Somebody is not here any more.
#[derive(Debug, SimpleObject)]
pub(super) struct UserLeft {
    #[graphql(flatten)]
    numbered: Numbered,
    /// Who, by the id of a session's user.
    user_id: ID,
}

/// Somebody leads.
#[derive(Debug, SimpleObject)]
pub(super) struct LeaderChanged {
    #[graphql(flatten)]
    numbered: Numbered,
    /// Who, by the id of a session's user.
    leader_id: ID,
}

/// The session is over, for good.
#[derive(Debug, SimpleObject)]
pub(super) struct SessionEnded {
    #[graphql(flatten)]
    numbered: Numbered,
    /// Why, in words for its members.
    reason: String,
    /// Where to go now.
    new_path: Option<String>,
}

impl From<&SessionUpdate> for SessionEventView {
    fn from(news: &SessionUpdate) -> Self {
        let numbered = Numbered { sequence: news.sequence, incarnation: news.incarnation };
        match &news.change {
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
