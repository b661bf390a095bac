//! One open subscription: a bounded buffer of events between a room and a subscriber.
//!
//! When the buffer is full, its events are replaced by one snapshot of the present state, so that a
//! slow subscriber still ends in the right state.

use std::collections::{BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::Stream;

use crate::value::fact::QueueEvent;
use crate::value::roster::{Attachment, Member, MemberId, Roster};
use crate::value::session::PartySession;

/// The most bytes of events in the buffer of one subscriber.
const BUFFER_BYTES_MAX: usize = 1024 * 1024;

/// An event to a subscriber.
#[derive(Debug, Clone)]
pub enum ListenerEvent {
    /// The whole queue.
    FullSync(Arc<PartySession>),
    /// One event of the queue, of this incarnation.
    Queue {
        /// The event.
        event: Arc<QueueEvent>,
        /// The incarnation that its sequence belongs to.
        incarnation: u64,
    },
    /// A change of the members.
    Session(SessionUpdate),
}

/// A change of the members or of the session's life.
#[derive(Debug, Clone)]
pub struct SessionUpdate {
    /// The sequence of the session event; none in a snapshot.
    pub sequence: Option<u64>,
    /// The incarnation that the sequence belongs to.
    pub incarnation: u64,
    /// The change.
    pub change: SessionUpdateKind,
}

/// The kinds of changes, with the names of the events on the wire.
#[derive(Debug, Clone)]
pub enum SessionUpdateKind {
    /// A member joined, or changed its name or picture.
    UserJoined {
        /// The member.
        user: SessionUser,
    },
    /// A member left.
    UserLeft {
        /// The member's id.
        user_id: MemberId,
    },
    /// A member became the leader.
    LeaderChanged {
        /// The leader's id.
        leader_id: MemberId,
    },
    /// The session ended.
    SessionEnded {
        /// The reason, for people.
        reason: String,
    },
}

/// A member as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionUser {
    /// The member's id.
    pub id: MemberId,
    /// The name to show.
    pub username: String,
    /// Whether the member is the leader.
    pub is_leader: bool,
    /// The picture to show.
    pub avatar_url: Option<String>,
}

impl SessionUser {
    /// A member as others see it.
    pub fn of(member: &Member, roster: &Roster) -> Self {
        Self {
            id: member.id.clone(),
            username: member.username.clone(),
            is_leader: roster.is_leader(&member.id),
            avatar_url: member.avatar_url.clone(),
        }
    }
}

/// One of the two streams of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// `queueUpdates`.
    Queue,
    /// `sessionUpdates`.
    Session,
}

/// The room's end of a subscription.
#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) topic: Topic,
    /// The subscribed member and its socket. The stream ends when the member leaves or moves to
    /// another socket.
    pub(crate) member: MemberId,
    pub(crate) attachment: Attachment,
    /// The most events in the buffer.
    events_max: usize,
    shared: Arc<Mutex<Buffer>>,
}

/// The subscriber's end. The stream ends with the session, or when the member has left.
#[derive(Debug)]
pub struct Listener {
    shared: Arc<Mutex<Buffer>>,
}

#[derive(Debug, Default)]
struct Buffer {
    events: VecDeque<(ListenerEvent, usize)>,
    bytes: usize,
    is_over: bool,
    /// Whether the subscriber has dropped its end.
    is_closed: bool,
    /// The members that the subscriber knows of, from the events it has read.
    known_members: BTreeSet<MemberId>,
    waker: Option<Waker>,
}

/// Both ends of a subscription.
pub(crate) fn subscription(
    topic: Topic,
    member: MemberId,
    attachment: Attachment,
    events_max: usize,
) -> (Publisher, Listener) {
    let shared = Arc::new(Mutex::new(Buffer::default()));
    let publisher =
        Publisher { topic, member, attachment, events_max, shared: Arc::clone(&shared) };
    (publisher, Listener { shared })
}

impl Publisher {
    /// Stop 13 of the life of a party edit: queued for a subscriber. Adds an event of this size to
    /// the buffer. Returns false if it does not fit: then the buffer is empty, and the caller must
    /// publish a snapshot.
    #[must_use]
    pub(crate) fn publish(&self, event: ListenerEvent, bytes: usize) -> bool {
        tracing::trace!(target: "heartline::life", party_stop = 13, "queued for a subscriber");
        let mut buffer = lock(&self.shared);
        let is_full =
            buffer.events.len() >= self.events_max || buffer.bytes + bytes > BUFFER_BYTES_MAX;
        if is_full {
            buffer.events.clear();
            buffer.bytes = 0;
            return false;
        }
        buffer.bytes += bytes;
        buffer.events.push_back((event, bytes));
        buffer.wake();
        true
    }

    /// Replaces the events in the buffer by a snapshot of the session.
    pub(crate) fn publish_snapshot(&self, session: &Arc<PartySession>) {
        let mut buffer = lock(&self.shared);
        let snapshot = match self.topic {
            Topic::Queue => vec![ListenerEvent::FullSync(Arc::clone(session))],
            Topic::Session => roster_snapshot(session, &buffer.known_members),
        };
        buffer.events.clear();
        buffer.bytes = 0;
        // A snapshot counts no bytes: however large it is, one snapshot does not make a slow
        // subscriber.
        buffer.events.extend(snapshot.into_iter().map(|event| (event, 0)));
        buffer.wake();
    }

    /// Ends the stream after the events in the buffer.
    pub(crate) fn end(&self) {
        let mut buffer = lock(&self.shared);
        buffer.is_over = true;
        buffer.wake();
    }

    /// Whether the subscriber has dropped its end.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.shared).is_closed
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.end();
    }
}

impl Buffer {
    /// Updates the members that the subscriber knows of.
    fn track_members(&mut self, event: &ListenerEvent) {
        let ListenerEvent::Session(update) = event else { return };
        match &update.change {
            SessionUpdateKind::UserJoined { user } => {
                let _ = self.known_members.insert(user.id.clone());
            }
            SessionUpdateKind::UserLeft { user_id } => {
                let _ = self.known_members.remove(user_id);
            }
            SessionUpdateKind::LeaderChanged { .. } | SessionUpdateKind::SessionEnded { .. } => {}
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Stream for Listener {
    type Item = ListenerEvent;

    /// Stop 14 of the life of a party edit: received.
    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ListenerEvent>> {
        let mut buffer = lock(&self.shared);
        if let Some((event, bytes)) = buffer.events.pop_front() {
            tracing::trace!(target: "heartline::life", party_stop = 14, "received");
            buffer.bytes -= bytes;
            buffer.track_members(&event);
            return Poll::Ready(Some(event));
        }
        if buffer.is_over {
            return Poll::Ready(None);
        }
        buffer.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        lock(&self.shared).is_closed = true;
    }
}

/// The events that lead a subscriber from the members it knows of to the present ones.
fn roster_snapshot(
    session: &PartySession,
    known_members: &BTreeSet<MemberId>,
) -> Vec<ListenerEvent> {
    let update = |change| {
        ListenerEvent::Session(SessionUpdate {
            sequence: None,
            incarnation: session.incarnation,
            change,
        })
    };
    let members = session.roster.by_seniority().into_iter();
    let user = |member: &Member| SessionUser::of(member, &session.roster);
    let gone = known_members.iter().filter(|id| session.roster.get(id).is_none());
    let gone = gone.map(|id| update(SessionUpdateKind::UserLeft { user_id: id.clone() }));
    let here = members.map(|member| update(SessionUpdateKind::UserJoined { user: user(member) }));
    let mut all: Vec<ListenerEvent> = gone.chain(here).collect();
    let leader = session.roster.leader.clone();
    all.extend(leader.map(|leader_id| update(SessionUpdateKind::LeaderChanged { leader_id })));
    all
}

fn lock(shared: &Mutex<Buffer>) -> MutexGuard<'_, Buffer> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
