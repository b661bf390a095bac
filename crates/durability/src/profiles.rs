//! The port [`Profiles`]: what is known of people.

use async_trait::async_trait;
use heartline_protocol::rest::Visibility;
use heartline_protocol::{Timestamp, UserId};

use crate::members::Edited;
use crate::store::StoreError;

/// Characters of the longest display name.
pub const DISPLAY_NAME_CHARACTERS_MAX: usize = 64;

/// What is known of a user. One who never came looks like one who never said anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Who.
    pub user_id: UserId,
    /// What they want to be called.
    pub display_name: Option<String>,
    /// When they were last online, if they ever were.
    pub last_seen: Option<Timestamp>,
}

/// Contacts that one user may have.
pub const CONTACTS_MAX: usize = 5000;

/// One user looking at another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sight {
    /// Who looks.
    pub observer_id: UserId,
    /// At whom.
    pub user_id: UserId,
}

/// What decides whether one user may see another's presence, and what is stored of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Relation {
    /// What the seen one has chosen, if anything.
    pub visibility: Option<Visibility>,
    /// Whether each has put the other as a contact.
    pub are_contacts: bool,
    /// When the seen one was last online, if that is known.
    pub last_seen: Option<Timestamp>,
}

impl Sight {
    /// Whether the observer may see the user, given what the store says of the two. Everybody
    /// sees themselves.
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

/// A user has as many contacts as one may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("you have as many contacts as one may have: {CONTACTS_MAX}")]
pub struct ContactsFull;

/// What is known of people.
#[async_trait]
pub trait Profiles: Send + Sync + std::fmt::Debug {
    /// A user's profile. Asking creates nothing.
    async fn profile(&self, user_id: &UserId) -> Result<Profile, StoreError>;

    /// Sets what a user wants to be called; none takes the name away.
    async fn set_display_name(
        &self,
        user_id: &UserId,
        display_name: Option<String>,
    ) -> Result<Profile, StoreError>;

    /// Raises when users were last online; it never falls.
    async fn record_last_seen(&self, seen: Vec<(UserId, Timestamp)>) -> Result<(), StoreError>;

    /// What a user has chosen for their presence; none if nothing.
    async fn visibility(&self, user_id: &UserId) -> Result<Option<Visibility>, StoreError>;

    /// Chooses who may see a user's presence. Answers whether that is a change.
    async fn set_visibility(
        &self,
        user_id: &UserId,
        visibility: Visibility,
    ) -> Result<bool, StoreError>;

    /// A user's own contacts in the order of their ids, beginning after one.
    async fn contacts(
        &self,
        user_id: &UserId,
        after: Option<&UserId>,
        limit: usize,
    ) -> Result<Vec<UserId>, StoreError>;

    /// Makes somebody a user's contact. Answers whether that is a change.
    async fn put_contact(
        &self,
        user_id: &UserId,
        contact_id: &UserId,
    ) -> Result<Result<bool, ContactsFull>, StoreError>;

    /// Ends that. Answers whether it is a change.
    async fn remove_contact(
        &self,
        user_id: &UserId,
        contact_id: &UserId,
    ) -> Result<bool, StoreError>;

    /// What is between users, one answer per question and in order. Asking creates nothing, and
    /// a user who never came has an empty relation.
    async fn relations(&self, sights: Vec<Sight>) -> Result<Vec<Relation>, StoreError>;

    /// Removes a person: the profile, the contacts in both directions and the memberships at once, the content of their
    /// messages by and by through [`ChatLog::forget`](crate::log::ChatLog::forget). An owned group passes
    /// to its longest-standing admin, or else member; one without other members is deleted.
    /// Answers every chat that changed.
    async fn delete_user(&self, user_id: &UserId) -> Result<Vec<Edited>, StoreError>;
}
