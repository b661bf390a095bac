//! The tick of every second: expired graces, dead nodes, and sockets without a member.

use std::collections::BTreeSet;

use heartline_protocol::NodeId;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::publish::is_lost;
use super::{OPERATION_DEADLINE, OperationRequest, Room};
use crate::room::restore;
use crate::value::operation::{Membership, Operation};
use crate::value::roster::{Attachment, Member};

impl Room {
    pub(super) async fn tick(&mut self, nodes: Option<&BTreeSet<NodeId>>) {
        self.publishers.retain(|publisher| !publisher.is_closed());
        let deadline = self.parts.clock.now() + OPERATION_DEADLINE;
        let now_ms = self.parts.now_ms();
        if self.session.roster.next_deadline_ms().is_some_and(|deadline| deadline <= now_ms) {
            self.perform_own(Membership::Expire, deadline).await;
        }
        self.reattach_all().await;
        let unheld: Vec<Attachment> = self.unheld().cloned().collect();
        for attachment in unheld {
            self.perform_own(Membership::Depart { attachment }, deadline).await;
        }
        let Some(nodes) = nodes else { return };
        let members = self.session.roster.members.values();
        let lost = members.filter(|member| member.away.is_none());
        let lost = lost.map(|member| &member.attachment.node).filter(|node| !nodes.contains(*node));
        let lost: BTreeSet<NodeId> = lost.cloned().collect();
        for node in lost {
            if node != self.parts.node_id {
                self.perform_own(Membership::NodeLost { node }, deadline).await;
            }
        }
    }

    /// Sockets of this node that are members of the session but not attached to the room: a
    /// departure was not stored, or a join was stored but its result was lost. No other node
    /// removes these members, because this node is alive.
    pub(super) fn unheld(&self) -> impl Iterator<Item = &Attachment> {
        let present = self.session.roster.members.values().filter(|it| it.away.is_none());
        let own = present.filter(|it| it.attachment.node == self.parts.node_id);
        let held = |it: &Member| {
            self.attached.get(&it.id).is_some_and(|known| known.attachment == it.attachment)
        };
        own.filter(move |it| !held(it)).map(|it| &it.attachment)
    }

    pub(super) async fn keep(&self) {
        let session_id = [self.session.id.clone()];
        if let Err(error) = self.parts.store.activity.keep(&session_id).await {
            warn!(%error, session_id = %self.session.id, "extending the lifetime of a session failed");
        }
    }

    /// Adds the attached members again that the session lacks.
    pub(super) async fn reattach_all(&mut self) {
        self.must_reattach = false;
        let lost = self.attached.values().filter(|known| is_lost(&self.session, known));
        let mut lost: Vec<Member> = lost.cloned().collect();
        // If all members were lost, the first to return leads: the one present longest.
        lost.sort_by_key(|member| (member.joined_at_ms, member.id.clone()));
        for member in lost {
            let deadline = self.parts.clock.now() + OPERATION_DEADLINE;
            self.perform_own(Membership::Reattach { member }, deadline).await;
        }
    }

    pub(super) async fn perform_own(&mut self, change: Membership, deadline: Instant) {
        let operation = Operation::Membership(change);
        let request = OperationRequest { operation, actor: None, correlation_id: None };
        if let Err(error) = self.operate(request, deadline).await {
            debug!(%error, session_id = %self.session.id, "updating the members of a session failed");
        }
    }

    pub(super) async fn offer(&self) {
        let Some(recovery) = &self.parts.store.recovery else { return };
        if self.session.exists() {
            let copy = restore::copy(&self.session);
            if let Err(error) = recovery.offer(&self.session.id, copy).await {
                warn!(%error, session_id = %self.session.id, "offering a copy of a session failed");
            }
        }
    }
}
