//! The port [`Profiles`]: what is known of people.

use async_trait::async_trait;
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

    /// Removes a person: the profile and the memberships at once, the content of their messages
    /// by and by through [`ChatLog::forget`](crate::log::ChatLog::forget). An owned group passes
    /// to its longest-standing admin, or else member; one without other members is deleted.
    /// Answers every chat that changed.
    async fn delete_user(&self, user_id: &UserId) -> Result<Vec<Edited>, StoreError>;
}
