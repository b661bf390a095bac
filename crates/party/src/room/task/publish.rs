//! Events to listeners.

use std::sync::Arc;

use super::{OPERATION_DEADLINE, Replayed, Room};
use crate::room::archivist::Urgency;
use crate::room::listener::{
    Listener, ListenerEvent, SessionUpdate, SessionUpdateKind, SessionUser, Topic, subscription,
};
use crate::value::entry::Entry;
use crate::value::error::PartyError;
use crate::value::fact::{Fact, QueueChange, QueueEvent, SessionChange};
use crate::value::log::EventLog;
use crate::value::operation::Actor;
use crate::value::roster::{Member, MemberId};
use crate::value::session::{PartySession, Status};

/// Whether the session lacks a member that is attached to this node.
pub(super) fn is_lost(session: &PartySession, known: &Member) -> bool {
    let present = session.present(&known.id, &known.attachment);
    present.is_none_or(|member| member.away.is_some())
}

impl Room {
    pub(super) fn listen(&mut self, topic: Topic, actor: &Actor) -> Result<Listener, PartyError> {
        self.authorise(actor)?;
        let (member, attachment) = (actor.member.clone(), actor.attachment.clone());
        let events_max = self.parts.config.subscription_queue;
        let (publisher, listener) = subscription(topic, member, attachment, events_max);
        publisher.publish_snapshot(&self.session);
        self.parts.metrics.full_sync("subscribed");
        self.publishers.push(publisher);
        Ok(listener)
    }

    pub(super) async fn replay(
        &mut self,
        since: u64,
        actor: &Actor,
    ) -> Result<Replayed, PartyError> {
        self.authorise(actor)?;
        if since > self.session.queue.sequence && self.parts.store.is_shared() {
            // The client may have seen newer events on another node.
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

    /// Stop 11 of the life of a party edit: applied. Replaces the state by the next one and
    /// publishes the events that led to it.
    pub(super) fn apply(&mut self, session: Arc<PartySession>, entry: &Entry) {
        tracing::trace!(target: "heartline::life", party_stop = 11, "applied");
        self.archive_inactive(&session);
        self.session = session;
        self.log.append(entry);
        self.publish_queue_events(entry);
        let mut is_restored = false;
        for fact in &entry.facts {
            match fact {
                Fact::Session(event) => self.publish_session_event(event.sequence, &event.change),
                Fact::Seeded { .. } | Fact::Restored { .. } => is_restored = true,
                _ => {}
            }
        }
        if is_restored {
            self.publish_snapshot();
        }
        self.end_streams_of_former_members();
    }

    /// Replaces the state by one that was read as a whole, and publishes a snapshot of it.
    pub(super) fn replace(&mut self, session: PartySession, log: EventLog) {
        let session = Arc::new(session);
        self.archive_inactive(&session);
        (self.session, self.log) = (session, log);
        self.parts.metrics.full_sync("reloaded");
        self.publish_snapshot();
        if self.session.status == Status::Ended {
            let reason = "Session ended".to_owned();
            let change = SessionUpdateKind::SessionEnded { reason };
            self.publish_update(None, &change);
        }
        self.end_streams_of_former_members();
    }

    /// Archives a session that became inactive or ended, whichever node committed that: no later
    /// commit may do it, and the committing node may die before it does.
    fn archive_inactive(&self, next: &Arc<PartySession>) {
        let has_changed = self.session.exists() && next.status != self.session.status;
        if has_changed && next.status != Status::Active {
            self.parts.archivist.enqueue(next, self.parts.now_ms(), Urgency::Now);
        }
    }

    /// Updates the attached members, and ends the streams of sockets that are no longer members.
    /// The streams of an attached socket stay open if only the session lacks it, because the store
    /// lost commits or this node was taken for dead: the room is about to reattach it.
    pub(super) fn end_streams_of_former_members(&mut self) {
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
        self.publishers.retain(|publisher| {
            let known = attached.get(&publisher.member);
            let is_attached = known.is_some_and(|known| known.attachment == publisher.attachment);
            let is_member = session.present(&publisher.member, &publisher.attachment).is_some();
            (is_member || is_attached) && !is_over && !publisher.is_closed()
        });
        self.must_reattach |= attached.values().any(|known| is_lost(session, known));
    }

    pub(super) fn publish_snapshot(&self) {
        self.publishers.iter().for_each(|publisher| publisher.publish_snapshot(&self.session));
    }

    /// Stop 12 of the life of a party edit: published. Publishes the queue events of a commit, or
    /// one snapshot if the queue was replaced.
    fn publish_queue_events(&self, entry: &Entry) {
        tracing::trace!(target: "heartline::life", party_stop = 12, "published");
        let events: Vec<&QueueEvent> = entry.facts.iter().filter_map(Fact::queue_event).collect();
        let is_replacement =
            |event: &&QueueEvent| matches!(event.change, QueueChange::QueueReplaced { .. });
        let is_replaced = events.iter().any(is_replacement);
        let incarnation = self.session.incarnation;
        let sized = |event: &&QueueEvent| {
            let bytes = event.change.size_bytes();
            (ListenerEvent::Queue { event: Arc::new((*event).clone()), incarnation }, bytes)
        };
        let all: Vec<(ListenerEvent, usize)> = events.iter().map(sized).collect();
        for publisher in self.publishers.iter().filter(|publisher| publisher.topic == Topic::Queue)
        {
            let mut published =
                all.iter().map(|(event, bytes)| publisher.publish(event.clone(), *bytes));
            if is_replaced || !published.all(|fits| fits) {
                self.parts.metrics.full_sync(if is_replaced { "replaced" } else { "slow" });
                publisher.publish_snapshot(&self.session);
            }
        }
    }

    pub(super) fn publish_session_event(&self, sequence: u64, change: &SessionChange) {
        let roster = &self.session.roster;
        let user = |id: &MemberId| roster.get(id).map(|member| SessionUser::of(member, roster));
        let change = match change {
            SessionChange::MemberJoined { member } => {
                let user = user(&member.id).unwrap_or_else(|| SessionUser::of(member, roster));
                SessionUpdateKind::UserJoined { user }
            }
            SessionChange::MemberUpdated { member, .. } => match user(member) {
                Some(user) => SessionUpdateKind::UserJoined { user },
                None => return,
            },
            SessionChange::MemberLeft { member } => {
                SessionUpdateKind::UserLeft { user_id: member.clone() }
            }
            SessionChange::LeaderElected { member, .. } => {
                SessionUpdateKind::LeaderChanged { leader_id: member.clone() }
            }
            SessionChange::Ended { reason, .. } => {
                SessionUpdateKind::SessionEnded { reason: reason.clone() }
            }
        };
        self.publish_update(Some(sequence), &change);
    }

    pub(super) fn publish_update(&self, sequence: Option<u64>, change: &SessionUpdateKind) {
        for publisher in
            self.publishers.iter().filter(|publisher| publisher.topic == Topic::Session)
        {
            let (incarnation, change) = (self.session.incarnation, change.clone());
            let update = SessionUpdate { sequence, incarnation, change };
            if !publisher.publish(ListenerEvent::Session(update), size_of::<SessionUpdate>()) {
                publisher.publish_snapshot(&self.session);
            }
        }
    }
}
