//! The port [`People`]: profiles of users.

use async_trait::async_trait;
use heartline_protocol::{Timestamp, UserId};

use crate::chats::Edited;
use crate::store::StoreError;

/// Characters of the longest display name.
pub const DISPLAY_NAME_CHARACTERS_MAX: usize = 64;

/// The profile of a user. A user who never connected has an empty one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The user.
    pub user_id: UserId,
    /// The name that others see.
    pub display_name: Option<String>,
    /// When the user was last online, if ever.
    pub last_seen: Option<Timestamp>,
}

/// Profiles of users.
#[async_trait]
pub trait People: Send + Sync + std::fmt::Debug {
    /// The profile of a user. Reading creates nothing.
    async fn profile(&self, user_id: &UserId) -> Result<Profile, StoreError>;

    /// Sets the name that others see; none removes it.
    async fn set_display_name(
        &self,
        user_id: &UserId,
        display_name: Option<String>,
    ) -> Result<Profile, StoreError>;

    /// Deletes a user: the profile, the contacts in both directions and the memberships at once,
    /// the content of their messages later by [`Upkeep::forget`](crate::upkeep::Upkeep::forget). An
    /// owned group passes to its longest-standing admin, or else member; one without other members
    /// is deleted. Returns every chat that changed.
    async fn delete_user(&self, user_id: &UserId) -> Result<Vec<Edited>, StoreError>;
}
