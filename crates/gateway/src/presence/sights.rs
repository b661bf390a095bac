//! What one user may see of another: the one place where presence meets privacy.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use heartline_durability::{Relation, Sight};
use heartline_protocol::rest::Visibility;
use heartline_protocol::server_frame::{Presence, PresenceStatus};
use heartline_protocol::{Timestamp, UserId};
use heartline_routing::{Clock, PresenceState, PresenceStates};
use tracing::warn;

use crate::ports::Relations;

/// How long the store may take to say who may see whom.
const RELATIONS_DEADLINE: Duration = Duration::from_secs(1);

/// Tells who may see what of whom.
#[derive(Debug, Clone)]
pub struct Sights {
    /// Which users are online.
    pub states: Arc<dyn PresenceStates>,
    /// Who may know.
    pub relations: Arc<dyn Relations>,
    /// The clocks.
    pub clock: Clock,
    /// What holds for users who have chosen nothing.
    pub default_visibility: Visibility,
    /// For how long the directory may be silent before its last word is too old.
    pub window: Duration,
}

impl Sights {
    /// What each observer sees, in order. It never fails: what cannot be told is unknown and
    /// stale, for everybody alike, so that not even an outage tells who is hidden.
    pub async fn see(&self, sights: &[Sight]) -> Vec<Presence> {
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

    /// Which observers may see, in order; nobody while it cannot be told.
    pub async fn allowed(&self, sights: &[Sight]) -> Vec<bool> {
        let relations = self.relations(sights).await;
        let relations = relations.into_iter().flatten().map(Some).chain(std::iter::repeat(None));
        let allowed = |(sight, relation): (&Sight, Option<Relation>)| {
            relation.is_some_and(|relation| sight.is_allowed(relation, self.default_visibility))
        };
        sights.iter().zip(relations).map(allowed).collect()
    }

    /// Whether the directory's last word is too old to be told.
    pub fn is_stale(&self) -> bool {
        self.states.silence() > self.window
    }

    async fn known(
        &self,
        sights: &[Sight],
    ) -> Option<(HashMap<UserId, PresenceState>, Vec<Relation>)> {
        if self.is_stale() {
            return None;
        }
        let mut user_ids: Vec<UserId> = sights.iter().map(|sight| sight.user_id.clone()).collect();
        user_ids.sort_unstable();
        user_ids.dedup();
        let states = match self.states.presence(&user_ids).await {
            Ok(states) => states,
            Err(error) => {
                warn!(%error, "presence cannot be told");
                return None;
            }
        };
        // After the states: who has just hidden is hidden.
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
                    // Who never came looks like one who does not exist, and like one who hides.
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
