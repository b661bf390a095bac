//! Changes of chats and users, and the errors of those that fail.

use std::sync::Arc;

use heartline_durability::send_error::not_a_member;
use heartline_durability::{
    Actor, ChatChanges, ChatEdit, Contacts, ContactsFull, Created, EditError, Edited, Idempotency,
    NewChat, Privacy, Profile, StoreError,
};
use heartline_gateway::Refusal;
use heartline_protocol::rest::Visibility;
use heartline_protocol::server_frame::ErrorDetails;
use heartline_protocol::{ChatId, ErrorCode, Outcome, UserId};

use super::privacy::PrivacyChanges;
use super::store::{as_refusal, change_refusal};
use super::{Api, ChatParts};

/// Makes changes and returns their results. Clones share the limit of changes under way.
#[derive(Debug, Clone)]
pub(super) struct Edits {
    chat_changes: ChatChanges,
    contacts: Arc<dyn Contacts>,
    privacy: Arc<dyn Privacy>,
    privacy_changes: PrivacyChanges,
}

impl Edits {
    /// Changes of this node's store.
    pub(super) fn new(api: &Api) -> Self {
        let ChatParts { chat_changes, contacts, privacy, .. } = &api.chat;
        Self {
            chat_changes: chat_changes.clone(),
            contacts: Arc::clone(contacts),
            privacy: Arc::clone(privacy),
            privacy_changes: api.privacy_changes.clone(),
        }
    }

    async fn make<T: Send + 'static>(
        &self,
        change: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.chat_changes.changes.make(change).await.map_err(|error| change_refusal(&error))
    }

    /// Creates a chat, or finds the existing direct chat.
    pub(super) async fn create(
        &self,
        chat: NewChat,
        idempotency: Option<Idempotency>,
    ) -> Result<Created, Refusal> {
        let created = self.chat_changes.create(chat, idempotency).await;
        created.map_err(|error| change_refusal(&error))?.map_err(refusal)
    }

    /// Changes a chat.
    pub(super) async fn edit(
        &self,
        chat_id: ChatId,
        actor: Actor,
        edit: ChatEdit,
        idempotency: Option<Idempotency>,
    ) -> Result<Edited, Refusal> {
        let edited = self.chat_changes.edit(chat_id, actor, edit, idempotency).await;
        edited.map_err(|error| change_refusal(&error))?.map_err(refusal)
    }

    /// Sets the display name of a user.
    pub(super) async fn set_display_name(
        &self,
        user_id: UserId,
        display_name: Option<String>,
    ) -> Result<Profile, Refusal> {
        let people = Arc::clone(&self.chat_changes.people);
        self.make(async move { people.set_display_name(&user_id, display_name).await }).await
    }

    /// Sets who may see a user's presence.
    pub(super) async fn set_visibility(
        &self,
        user_id: UserId,
        visibility: Visibility,
    ) -> Result<(), Refusal> {
        let Self { privacy, privacy_changes, .. } = self.clone();
        let made = self.make(async move {
            let set = privacy.set_visibility(&user_id, visibility).await;
            if may_be_stored(&set) {
                privacy_changes.changed(&[user_id]).await;
            }
            set
        });
        made.await.map(|_| ())
    }

    /// Adds a contact of a user.
    pub(super) async fn put_contact(
        &self,
        user_id: UserId,
        contact_id: UserId,
    ) -> Result<(), Refusal> {
        let Self { contacts, privacy_changes, .. } = self.clone();
        let made = self.make(async move {
            let put = contacts.put_contact(&user_id, &contact_id).await;
            if may_be_stored(&put) && !matches!(put, Ok(Err(ContactsFull))) {
                privacy_changes.changed(&[user_id, contact_id]).await;
            }
            put
        });
        let put = made.await?;
        put.map(|_| ()).map_err(|full: ContactsFull| conflict("contacts_full", full.to_string()))
    }

    /// Removes a contact of a user.
    pub(super) async fn remove_contact(
        &self,
        user_id: UserId,
        contact_id: UserId,
    ) -> Result<(), Refusal> {
        let Self { contacts, privacy_changes, .. } = self.clone();
        let made = self.make(async move {
            let removed = contacts.remove_contact(&user_id, &contact_id).await;
            if may_be_stored(&removed) {
                privacy_changes.changed(&[user_id, contact_id]).await;
            }
            removed
        });
        made.await.map(|_| ())
    }

    /// Deletes a user, also from all chats and from the contacts of others.
    pub(super) async fn delete_user(&self, user_id: UserId) -> Result<(), Refusal> {
        let (privacy_changes, deleted_id) = (self.privacy_changes.clone(), user_id.clone());
        let deleted = async move { privacy_changes.changed(&[deleted_id]).await };
        self.chat_changes
            .delete_user(user_id, deleted)
            .await
            .map_err(|error| change_refusal(&error))
    }
}

/// Whether the change is stored, or may be. A change that was stored before is announced again,
/// because the node that stored it may have died before it announced it.
fn may_be_stored<T>(result: &Result<T, StoreError>) -> bool {
    match result {
        Ok(_) => true,
        Err(error) => error.outcome == Outcome::Unknown,
    }
}

fn conflict(reason: &str, message: String) -> Refusal {
    let details = ErrorDetails { reason: Some(reason.to_owned()), ..Default::default() };
    Refusal { details: Some(details), ..Refusal::new(ErrorCode::Conflict, message) }
}

fn refusal(error: EditError) -> Refusal {
    let message = error.to_string();
    match error {
        EditError::NotAMember => as_refusal(not_a_member()),
        EditError::Forbidden => Refusal::new(ErrorCode::Forbidden, message),
        EditError::NoSuchMember => Refusal::new(ErrorCode::NotFound, message),
        EditError::AlreadyMember => conflict("already_member", message),
        EditError::Full => conflict("group_full", message),
        EditError::OwnerMustStay => conflict("owner_must_stay", message),
        EditError::DirectChat => conflict("direct_chat", message),
        EditError::KeyReused => conflict("idempotency_key_reused", message),
    }
}
