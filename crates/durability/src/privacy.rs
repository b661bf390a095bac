//! The port [`Privacy`]: who may see whose presence.

use async_trait::async_trait;
use heartline_protocol::rest::Visibility;
use heartline_protocol::{Timestamp, UserId};

use crate::store::StoreError;

/// A pair of users: one who wants to see the other's presence.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sight {
    /// The user who wants to see.
    pub observer_id: UserId,
    /// The user whose presence it is.
    pub user_id: UserId,
}

/// The relation of a [`Sight`]: the facts that decide it, and the last-seen time to show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Relation {
    /// The visibility that the seen user has chosen, if any.
    pub visibility: Option<Visibility>,
    /// Whether each has added the other as a contact.
    pub are_contacts: bool,
    /// When the seen user was last online, if that is known.
    pub last_seen: Option<Timestamp>,
}

impl Sight {
    /// Whether the observer may see the user, given the relation of the two. Every user sees
    /// themselves.
    pub fn is_allowed(&self, relation: Relation, default_visibility: Visibility) -> bool {
        if self.observer_id == self.user_id {
            return true;
        }
        match relation.visibility.unwrap_or(default_visibility) {
            Visibility::Everyone => true,
            Visibility::ContactsOnly => relation.are_contacts,
            Visibility::Nobody => false,
        }
    }
}

/// The settings and relations that decide who may see whose presence.
#[async_trait]
pub trait Privacy: Send + Sync + std::fmt::Debug {
    /// The visibility that a user has chosen for their presence, if any.
    async fn visibility(&self, user_id: &UserId) -> Result<Option<Visibility>, StoreError>;

    /// Sets the visibility of a user's presence. Returns whether this is a change.
    async fn set_visibility(
        &self,
        user_id: &UserId,
        visibility: Visibility,
    ) -> Result<bool, StoreError>;

    /// The relations of pairs of users, one per pair and in order. Reading creates nothing, and a
    /// user who never connected has an empty relation.
    async fn relations(&self, sights: Vec<Sight>) -> Result<Vec<Relation>, StoreError>;
}
