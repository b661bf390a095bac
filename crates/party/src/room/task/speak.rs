//! What listeners hear.

use std::sync::Arc;

use super::{OPERATION_DEADLINE, Replayed, Room};
use crate::room::archivist::Haste;
use crate::room::listener::{
    Heard, Listener, SessionNews, SessionNewsChange, SessionUser, Topic, subscription,
};
use crate::value::entry::Entry;
use crate::value::error::PartyError;
use crate::value::fact::{Fact, QueueChange, QueueEvent, SessionChange};
use crate::value::log::EventLog;
use crate::value::operation::Actor;
use crate::value::roster::{Member, MemberId};
use crate::value::session::{Session, Status};

/// Whether the session does not know that a member is here through its socket.
pub(super) fn is_lost(session: &Session, known: &Member) -> bool {
    let present = session.present(&known.id, &known.attachment);
    present.is_none_or(|member| member.away.is_some())
}

impl Room {
    pub(super) fn listen(&mut self, topic: Topic, actor: &Actor) -> Result<Listener, PartyError> {
        self.authorise(actor)?;
        let (member, attachment) = (actor.member.clone(), actor.attachment.clone());
        let events_max = self.parts.config.subscription_queue;
        let (speaker, listener) = subscription(topic, member, attachment, events_max);
        speaker.say_present(&self.session);
        self.parts.metrics.full_sync("subscribed");
        self.speakers.push(speaker);
        Ok(listener)
    }

    pub(super) async fn replay(
        &mut self,
        since: u64,
        actor: &Actor,
    ) -> Result<Replayed, PartyError> {
        self.authorise(actor)?;
        if since > self.session.queue.sequence && self.parts.store.is_shared() {
            // Whoever comes from another node may have seen more than this one yet.
            self.catch_up_before(self.parts.clock.now() + OPERATION_DEADLINE).await?;
        }
        let replay = self.log.replay(since, self.session.queue.sequence);
        self.parts.metrics.replayed(&replay);
        Ok(Replayed { replay, session: Arc::clone(&self.session) })
    }

    pub(super) fn authorise(&self, actor: &Actor) -> Result<(), PartyError> {
        match self.session.present(&actor.member, &actor.attachment) {
            Some(_) => Ok(()),
            None if self.session.status == Status::Ended => Err(PartyError::session_has_ended()),
            None => Err(PartyError::not_in_any_session()),
        }
    }

    /// Takes the next state and tells what led there.
    pub(super) fn take(&mut self, session: Arc<Session>, entry: &Entry) {
        self.note_rest(&session);
        self.session = session;
        self.log.append(entry);
        self.say_queue(entry);
        let mut is_restored = false;
        for fact in &entry.facts {
            match fact {
                Fact::Session(event) => self.say_session(event.sequence, &event.change),
                Fact::Seeded { .. } | Fact::Restored { .. } => is_restored = true,
                _ => {}
            }
        }
        if is_restored {
            self.say_present();
        }
        self.settle();
    }

    /// Takes another state, of which listeners have not heard all that led there.
    pub(super) fn replace(&mut self, session: Session, log: EventLog) {
        let session = Arc::new(session);
        self.note_rest(&session);
        (self.session, self.log) = (session, log);
        self.parts.metrics.full_sync("reloaded");
        self.say_present();
        if self.session.status == Status::Ended {
            let reason = "Session ended".to_owned();
            let change = SessionNewsChange::SessionEnded { reason };
            self.say_news(None, &change);
        }
        self.settle();
    }

    /// Has a session archived that rests or has ended, whichever node made it so: nothing may follow
    /// that would do it, and that node may not live to do it.
    fn note_rest(&self, next: &Arc<Session>) {
        let is_news = self.session.exists() && next.status != self.session.status;
        if is_news && next.status != Status::Active {
            self.parts.archivist.note(next, self.parts.now_ms(), Haste::Now);
        }
    }

    /// Ends the streams of those who are no longer members on their socket, and follows who of this
    /// node's sockets still is one. A socket of this node that the session has lost, because the
    /// store did or because the node was taken for dead, is a member again in a moment: its streams
    /// go on.
    pub(super) fn settle(&mut self) {
        let session = &self.session;
        let is_over = session.status == Status::Ended;
        for (id, known) in &mut self.attached {
            if let Some(member) = session.present(id, &known.attachment)
                && known != member
            {
                *known = member.clone();
            }
        }
        let moved =
            |id: &MemberId, known: &Member| session.roster.has_moved_on(id, &known.attachment);
        self.attached.retain(|id, known| !is_over && !moved(id, known));
        let attached = &self.attached;
        self.speakers.retain(|speaker| {
            let known = attached.get(&speaker.member);
            let is_attached = known.is_some_and(|known| known.attachment == speaker.attachment);
            let is_member = session.present(&speaker.member, &speaker.attachment).is_some();
            (is_member || is_attached) && !is_over && !speaker.is_deaf()
        });
        self.must_reattach |= attached.values().any(|known| is_lost(session, known));
    }

    pub(super) fn say_present(&self) {
        self.speakers.iter().for_each(|speaker| speaker.say_present(&self.session));
    }

    /// Tells every event of a commit, or instead of them the state after all of them.
    fn say_queue(&self, entry: &Entry) {
        let events: Vec<&QueueEvent> = entry.facts.iter().filter_map(Fact::queue_event).collect();
        let is_replacement =
            |event: &&QueueEvent| matches!(event.change, QueueChange::QueueReplaced { .. });
        let is_replaced = events.iter().any(is_replacement);
        let incarnation = self.session.incarnation;
        let heard = |event: &&QueueEvent| {
            let bytes = event.change.size_bytes();
            (Heard::Queue { event: Arc::new((*event).clone()), incarnation }, bytes)
        };
        let all: Vec<(Heard, usize)> = events.iter().map(heard).collect();
        for speaker in self.speakers.iter().filter(|speaker| speaker.topic == Topic::Queue) {
            let mut said = all.iter().map(|(heard, bytes)| speaker.say(heard.clone(), *bytes));
            if is_replaced || !said.all(|is_said| is_said) {
                self.parts.metrics.full_sync(if is_replaced { "replaced" } else { "slow" });
                speaker.say_present(&self.session);
            }
        }
    }

    pub(super) fn say_session(&self, sequence: u64, change: &SessionChange) {
        let roster = &self.session.roster;
        let user = |id: &MemberId| roster.get(id).map(|member| SessionUser::of(member, roster));
        let change = match change {
            SessionChange::MemberJoined { member } => {
                let user = user(&member.id).unwrap_or_else(|| SessionUser::of(member, roster));
                SessionNewsChange::UserJoined { user }
            }
            SessionChange::MemberUpdated { member, .. } => match user(member) {
                Some(user) => SessionNewsChange::UserJoined { user },
                None => return,
            },
            SessionChange::MemberLeft { member } => {
                SessionNewsChange::UserLeft { user_id: member.clone() }
            }
            SessionChange::LeaderElected { member, .. } => {
                SessionNewsChange::LeaderChanged { leader_id: member.clone() }
            }
            SessionChange::Ended { reason, .. } => {
                SessionNewsChange::SessionEnded { reason: reason.clone() }
            }
        };
        self.say_news(Some(sequence), &change);
    }

    pub(super) fn say_news(&self, sequence: Option<u64>, change: &SessionNewsChange) {
        for speaker in self.speakers.iter().filter(|speaker| speaker.topic == Topic::Session) {
            let (incarnation, change) = (self.session.incarnation, change.clone());
            let news = SessionNews { sequence, incarnation, change };
            if !speaker.say(Heard::Session(news), size_of::<SessionNews>()) {
                speaker.say_present(&self.session);
            }
        }
    }
}
