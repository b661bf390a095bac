//! The visibility of users to each other, and the announcement of its changes.

use heartline_durability::Sight;
use heartline_fanout::Fanout;
use heartline_gateway::Refusal;
use heartline_protocol::UserId;

use super::{Api, store};

/// Announces changes of privacy to all nodes, which then read the affected presence again.
#[derive(Debug, Clone)]
pub struct PrivacyChanges(pub Fanout);

impl PrivacyChanges {
    /// Announces a committed change of the privacy of these users.
    pub(super) async fn changed(&self, user_ids: &[UserId]) {
        self.0.privacy_changed(user_ids).await;
    }
}

/// Whether an observer may see each of these users, in order, by one call to the store.
pub(super) async fn may_see(
    api: &Api,
    observer_id: &UserId,
    user_ids: impl Iterator<Item = &UserId>,
) -> Result<Vec<bool>, Refusal> {
    let sight =
        |user_id: &UserId| Sight { observer_id: observer_id.clone(), user_id: user_id.clone() };
    let sights: Vec<_> = user_ids.map(sight).collect();
    let relations = store::read(api.chat.privacy.relations(sights.clone())).await?;
    let pairs = sights.iter().zip(relations);
    Ok(pairs.map(|(sight, relation)| sight.is_allowed(relation, api.default_visibility)).collect())
}
