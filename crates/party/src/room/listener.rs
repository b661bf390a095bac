//! One open subscription: what it has still to hear, and what happens when it falls behind.
//!
//! Whoever is too slow loses nothing that counts: the events that wait are replaced by one picture
//! of the present, which says the same in less.

use std::collections::{BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::Stream;

use crate::value::fact::QueueEvent;
use crate::value::roster::{Attachment, Member, MemberId, Roster};
use crate::value::session::Session;

/// Bytes of events that may wait for one subscriber.
const WAITING_BYTES_MAX: usize = 1024 * 1024;

/// What a subscription hears.
#[derive(Debug, Clone)]
pub enum Heard {
    /// The whole queue.
    FullSync(Arc<Session>),
    /// One event of the queue, of this incarnation.
    Queue {
        /// The event.
        event: Arc<QueueEvent>,
        /// Of which incarnation its sequence is.
        incarnation: u64,
    },
    /// Something about the members.
    Session(SessionNews),
}

/// Something about the members, with the number of the session event that told it, if one did.
#[derive(Debug, Clone)]
pub struct SessionNews {
    /// The number; none for what was so before.
    pub sequence: Option<u64>,
    /// Of which incarnation it is.
    pub incarnation: u64,
    /// What.
    pub change: SessionNewsChange,
}

/// What is said about the members, with the names of the wire's events.
#[derive(Debug, Clone)]
pub enum SessionNewsChange {
    /// Somebody is here, or is called something else.
    UserJoined {
        /// Who.
        user: SessionUser,
    },
    /// Somebody is not here any more.
    UserLeft {
        /// Who.
        user_id: MemberId,
    },
    /// Somebody leads.
    LeaderChanged {
        /// Who.
        leader_id: MemberId,
    },
    /// It is over.
    SessionEnded {
        /// Why.
        reason: String,
    },
}

/// A member as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionUser {
    /// Who.
    pub id: MemberId,
    /// The name to show.
    pub username: String,
    /// Whether it leads.
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

/// Which of a session's two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// `queueUpdates`.
    Queue,
    /// `sessionUpdates`.
    Session,
}

/// The room's end of a subscription.
#[derive(Debug)]
pub(crate) struct Speaker {
    pub(crate) topic: Topic,
    /// Whose subscription it is, and on which socket: it ends when that is not theirs any more.
    pub(crate) member: MemberId,
    pub(crate) attachment: Attachment,
    /// Events that may wait for it.
    events_max: usize,
    shared: Arc<Mutex<Waiting>>,
}

/// The subscriber's end. It is over when the session is, or when the member has left.
#[derive(Debug)]
pub struct Listener {
    shared: Arc<Mutex<Waiting>>,
}

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<(Heard, usize)>,
    bytes: usize,
    is_over: bool,
    /// Whether nobody listens any more.
    is_deaf: bool,
    /// Whom the subscriber believes to be here, by what it has heard.
    believed: BTreeSet<MemberId>,
    waker: Option<Waker>,
}

/// Both ends of a subscription.
pub(crate) fn subscription(
    topic: Topic,
    member: MemberId,
    attachment: Attachment,
    events_max: usize,
) -> (Speaker, Listener) {
    let shared = Arc::new(Mutex::new(Waiting::default()));
    let speaker = Speaker { topic, member, attachment, events_max, shared: Arc::clone(&shared) };
    (speaker, Listener { shared })
}

impl Speaker {
    /// Says something of this size. Answers false if it was too much: then everything that waited is
    /// dropped, and a picture of the present must follow.
    #[must_use]
    pub(crate) fn say(&self, heard: Heard, bytes: usize) -> bool {
        let mut waiting = lock(&self.shared);
        let is_too_much =
            waiting.events.len() >= self.events_max || waiting.bytes + bytes > WAITING_BYTES_MAX;
        if is_too_much {
            waiting.events.clear();
            waiting.bytes = 0;
            return false;
        }
        waiting.bytes += bytes;
        waiting.events.push_back((heard, bytes));
        waiting.wake();
        true
    }

    /// Says what is so now, in place of everything that waits.
    pub(crate) fn say_present(&self, session: &Arc<Session>) {
        let mut waiting = lock(&self.shared);
        let picture = match self.topic {
            Topic::Queue => vec![Heard::FullSync(Arc::clone(session))],
            Topic::Session => roster(session, &waiting.believed),
        };
        waiting.events.clear();
        waiting.bytes = 0;
        // However large a picture is, it is one and does not count as slowness.
        waiting.events.extend(picture.into_iter().map(|heard| (heard, 0)));
        waiting.wake();
    }

    /// Ends it once everything that waits was heard.
    pub(crate) fn end(&self) {
        let mut waiting = lock(&self.shared);
        waiting.is_over = true;
        waiting.wake();
    }

    /// Whether nobody listens any more.
    pub(crate) fn is_deaf(&self) -> bool {
        lock(&self.shared).is_deaf
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        self.end();
    }
}

impl Waiting {
    /// Follows what the subscriber believes.
    fn believe(&mut self, heard: &Heard) {
        let Heard::Session(news) = heard else { return };
        match &news.change {
            SessionNewsChange::UserJoined { user } => drop(self.believed.insert(user.id.clone())),
            SessionNewsChange::UserLeft { user_id } => drop(self.believed.remove(user_id)),
            SessionNewsChange::LeaderChanged { .. } | SessionNewsChange::SessionEnded { .. } => {}
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Stream for Listener {
    type Item = Heard;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Heard>> {
        let mut waiting = lock(&self.shared);
        if let Some((heard, bytes)) = waiting.events.pop_front() {
            waiting.bytes -= bytes;
            waiting.believe(&heard);
            return Poll::Ready(Some(heard));
        }
        if waiting.is_over {
            return Poll::Ready(None);
        }
        waiting.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        lock(&self.shared).is_deaf = true;
    }
}

/// Who is no longer here of those who are believed to be, everybody who is, and who leads.
fn roster(session: &Session, believed: &BTreeSet<MemberId>) -> Vec<Heard> {
    let news = |change| {
        Heard::Session(SessionNews { sequence: None, incarnation: session.incarnation, change })
    };
    let members = session.roster.by_seniority().into_iter();
    let user = |member: &Member| SessionUser::of(member, &session.roster);
    let gone = believed.iter().filter(|id| session.roster.get(id).is_none());
    let gone = gone.map(|id| news(SessionNewsChange::UserLeft { user_id: id.clone() }));
    let here = members.map(|member| news(SessionNewsChange::UserJoined { user: user(member) }));
    let mut all: Vec<Heard> = gone.chain(here).collect();
    let leader = session.roster.leader.clone();
    all.extend(leader.map(|leader_id| news(SessionNewsChange::LeaderChanged { leader_id })));
    all
}

fn lock(shared: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
