//! The port [`Contacts`]: the contacts that users have added.

use async_trait::async_trait;
use heartline_protocol::UserId;

use crate::store::StoreError;

/// Contacts that one user may have.
pub const CONTACTS_MAX: usize = 5000;

/// The user already has [`CONTACTS_MAX`] contacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("you have as many contacts as one may have: {CONTACTS_MAX}")]
pub struct ContactsFull;

/// The contacts that users have added. Two users are contacts once each has added the other.
#[async_trait]
pub trait Contacts: Send + Sync + std::fmt::Debug {
    /// A user's own contacts, ordered by user id, beginning after one.
    async fn contacts(
        &self,
        user_id: &UserId,
        after: Option<&UserId>,
        limit: usize,
    ) -> Result<Vec<UserId>, StoreError>;

    /// Adds a contact of a user. Returns whether this is a change.
    async fn put_contact(
        &self,
        user_id: &UserId,
        contact_id: &UserId,
    ) -> Result<Result<bool, ContactsFull>, StoreError>;

    /// Removes a contact of a user. Returns whether this is a change.
    async fn remove_contact(
        &self,
        user_id: &UserId,
        contact_id: &UserId,
    ) -> Result<bool, StoreError>;
}
