//! Reads presence as each observer may see it: the only place that applies privacy to presence.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use heartline_durability::{Relation, Sight};
use heartline_protocol::rest::Visibility;
use heartline_protocol::server_frame::{Presence, PresenceStatus};
use heartline_protocol::{Timestamp, UserId};
use heartline_routing::{PresenceState, PresenceStates};
use heartline_runtime::{Clock, Map};
use tracing::warn;

use crate::ports::Relations;

/// The deadline for reading relations from the store.
const RELATIONS_DEADLINE: Duration = Duration::from_secs(1);

/// Reads presence and applies privacy.
#[derive(Debug, Clone)]
pub struct PresenceReader {
    /// The presence of users.
    pub states: Arc<dyn PresenceStates>,
    /// The relations of observers and users.
    pub relations: Arc<dyn Relations>,
    /// The clocks.
    pub clock: Clock,
    /// The visibility of users who have set none.
    pub default_visibility: Visibility,
    /// The silence of the directory after which its last answer is stale.
    pub window: Duration,
}

impl PresenceReader {
    /// Stop 11 of the life of a presence transition: read. Returns what each observer may see, in
    /// order. Never fails: if the directory or the store does not answer, every user is unknown
    /// and stale, so that an outage does not show which users are hidden.
    pub async fn read(&self, sights: &[Sight]) -> Vec<Presence> {
        tracing::trace!(target: "heartline::life", presence_stop = 11, "read");
        let known = self.known(sights).await;
        let Some((states, relations)) = known else {
            return sights.iter().map(|sight| unknown(&sight.user_id, true)).collect();
        };
        let seen = sights.iter().zip(relations).map(|(sight, relation)| {
            let state = states.get(&sight.user_id).copied().unwrap_or(PresenceState::Stale);
            self.one(sight, relation, state)
        });
        seen.collect()
    }

    /// Whether each observer may see the user, in order; all false while the store does not answer.
    pub async fn may_see(&self, sights: &[Sight]) -> Vec<bool> {
        let relations = self.relations(sights).await;
        let relations = relations.into_iter().flatten().map(Some).chain(std::iter::repeat(None));
        let allowed = |(sight, relation): (&Sight, Option<Relation>)| {
            relation.is_some_and(|relation| sight.is_allowed(relation, self.default_visibility))
        };
        sights.iter().zip(relations).map(allowed).collect()
    }

    /// Whether the directory's last answer is stale.
    pub fn is_stale(&self) -> bool {
        self.states.silence() > self.window
    }

    async fn known(&self, sights: &[Sight]) -> Option<(Map<UserId, PresenceState>, Vec<Relation>)> {
        if self.is_stale() {
            return None;
        }
        let mut user_ids: Vec<UserId> = sights.iter().map(|sight| sight.user_id.clone()).collect();
        user_ids.sort_unstable();
        user_ids.dedup();
        let states = match self.states.presence(&user_ids).await {
            Ok(states) => states,
            Err(error) => {
                warn!(%error, "reading presence failed");
                return None;
            }
        };
        // Read after the states, so that a user who has just hidden is not shown.
        let relations = self.relations(sights).await?;
        Some((user_ids.into_iter().zip(states).collect(), relations))
    }

    async fn relations(&self, sights: &[Sight]) -> Option<Vec<Relation>> {
        let deadline = self.clock.now() + RELATIONS_DEADLINE;
        match self.relations.relations(sights.to_vec(), deadline).await {
            Ok(relations) => Some(relations),
            Err(error) => {
                let error = &error as &dyn Error;
                warn!(error, sights = sights.len(), "reading relations between users failed");
                None
            }
        }
    }

    fn one(&self, sight: &Sight, relation: Relation, state: PresenceState) -> Presence {
        let user_id = &sight.user_id;
        if state == PresenceState::Stale {
            return unknown(user_id, true);
        }
        if !sight.is_allowed(relation, self.default_visibility) {
            return unknown(user_id, false);
        }
        match state {
            PresenceState::Online { version } => {
                known(user_id, PresenceStatus::Online, version, None)
            }
            PresenceState::Offline { version, last_seen } => {
                match last_seen.max(relation.last_seen) {
                    // A user who never connected looks like one who does not exist or is hidden.
                    None => unknown(user_id, false),
                    last_seen => known(user_id, PresenceStatus::Offline, version, last_seen),
                }
            }
            PresenceState::Stale => unknown(user_id, true),
        }
    }
}

fn known(
    user_id: &UserId,
    status: PresenceStatus,
    version: u64,
    last_seen: Option<Timestamp>,
) -> Presence {
    Presence { user_id: user_id.clone(), status, last_seen, stale: false, version: Some(version) }
}

pub(super) fn unknown(user_id: &UserId, stale: bool) -> Presence {
    let status = PresenceStatus::Unknown;
    Presence { user_id: user_id.clone(), status, last_seen: None, stale, version: None }
}
