//! Changes to chats and people: made by the store, then announced to whom they concern.

use std::collections::HashSet;
use std::sync::Arc;

use heartline_durability::send_error::not_a_member;
use heartline_durability::{
    Actor, Chain, ChatEdit, Chats, Contacts, ContactsFull, Created, EditError, Edited, Event,
    EventBus, Idempotency, NewChat, People, Privacy, Profile, StoreError,
};
use heartline_gateway::Refusal;
use heartline_protocol::rest::Visibility;
use heartline_protocol::server_frame::{ChatChange, ErrorDetails};
use heartline_protocol::{ChatId, ErrorCode, Outcome, UserId};
use tracing::warn;

use super::privacy::PrivacyChanges;
use super::store::{Changes, as_refusal};
use super::{Api, ChatParts};

/// Makes changes and announces them. Clones share the bound of those that are under way.
#[derive(Debug, Clone)]
pub(super) struct Edits {
    changes: Changes,
    chats: Arc<dyn Chats>,
    people: Arc<dyn People>,
    contacts: Arc<dyn Contacts>,
    privacy: Arc<dyn Privacy>,
    bus: Arc<dyn EventBus>,
    privacy_changes: PrivacyChanges,
}

impl Edits {
    /// Changes of this node's store, in tasks that the node owns.
    pub(super) fn new(api: &Api) -> Self {
        let ChatParts { chats, people, contacts, privacy, bus, .. } = &api.chat;
        Self {
            changes: Changes::new(api.tasks.clone(), api.cut.clone()),
            chats: Arc::clone(chats),
            people: Arc::clone(people),
            contacts: Arc::clone(contacts),
            privacy: Arc::clone(privacy),
            bus: Arc::clone(bus),
            privacy_changes: api.privacy_changes.clone(),
        }
    }

    /// Makes a chat, or finds the one that is meant.
    pub(super) async fn create(
        &self,
        chat: NewChat,
        idempotency: Option<Idempotency>,
    ) -> Result<Created, Refusal> {
        let Self { changes, chats, bus, .. } = self.clone();
        let made = changes.make(async move {
            let created = chats.create(chat, idempotency).await?;
            if let Ok(Created { chat, is_new: true, members_version }) = &created {
                let edited = Edited {
                    chat: chat.clone(),
                    members_version: *members_version,
                    removed: Vec::new(),
                    has_changed: true,
                };
                announce(&*bus, vec![event(ChatChange::Created, edited)]).await;
            }
            Ok(created)
        });
        made.await?.map_err(refusal)
    }

    /// Changes a chat.
    pub(super) async fn edit(
        &self,
        chat_id: ChatId,
        actor: Actor,
        edit: ChatEdit,
        idempotency: Option<Idempotency>,
    ) -> Result<Edited, Refusal> {
        let Self { changes, chats, bus, .. } = self.clone();
        let made = changes.make(async move {
            let change = kind(&edit);
            let edited = chats.edit(chat_id, actor, edit, idempotency).await?;
            if let Ok(edited) = &edited
                && edited.has_changed
            {
                announce(&*bus, vec![event(change, edited.clone())]).await;
            }
            Ok(edited)
        });
        made.await?.map_err(refusal)
    }

    /// Sets what a user wants to be called.
    pub(super) async fn set_display_name(
        &self,
        user_id: UserId,
        display_name: Option<String>,
    ) -> Result<Profile, Refusal> {
        let Self { changes, people, .. } = self.clone();
        let change = async move { people.set_display_name(&user_id, display_name).await };
        changes.make(change).await
    }

    /// Chooses who may see a user's presence.
    pub(super) async fn set_visibility(
        &self,
        user_id: UserId,
        visibility: Visibility,
    ) -> Result<(), Refusal> {
        let Self { changes, privacy, privacy_changes, .. } = self.clone();
        let made = changes.make(async move {
            let set = privacy.set_visibility(&user_id, visibility).await;
            if may_be_stored(&set) {
                privacy_changes.changed(&[user_id]).await;
            }
            set
        });
        made.await.map(|_| ())
    }

    /// Makes somebody a user's contact.
    pub(super) async fn put_contact(
        &self,
        user_id: UserId,
        contact_id: UserId,
    ) -> Result<(), Refusal> {
        let Self { changes, contacts, privacy_changes, .. } = self.clone();
        let made = changes.make(async move {
            let put = contacts.put_contact(&user_id, &contact_id).await;
            if may_be_stored(&put) && !matches!(put, Ok(Err(ContactsFull))) {
                privacy_changes.changed(&[user_id, contact_id]).await;
            }
            put
        });
        let put = made.await?;
        put.map(|_| ()).map_err(|full: ContactsFull| conflict("contacts_full", full.to_string()))
    }

    /// Ends that.
    pub(super) async fn remove_contact(
        &self,
        user_id: UserId,
        contact_id: UserId,
    ) -> Result<(), Refusal> {
        let Self { changes, contacts, privacy_changes, .. } = self.clone();
        let made = changes.make(async move {
            let removed = contacts.remove_contact(&user_id, &contact_id).await;
            if may_be_stored(&removed) {
                privacy_changes.changed(&[user_id, contact_id]).await;
            }
            removed
        });
        made.await.map(|_| ())
    }

    /// Removes a person, from every chat and from everybody's contacts too.
    pub(super) async fn delete_user(&self, user_id: UserId) -> Result<(), Refusal> {
        let Self { changes, people, bus, privacy_changes, .. } = self.clone();
        let made = changes.make(async move {
            let edited = people.delete_user(&user_id).await?;
            privacy_changes.changed(&[user_id]).await;
            let changed = edited.into_iter().filter(|edited| edited.has_changed);
            let events = changed.map(|edited| event(ChatChange::MemberRemoved, edited)).collect();
            announce(&*bus, events).await;
            Ok(())
        });
        made.await
    }
}

/// What the members are told has happened. To them a chat that is no more is one that they are no
/// longer in.
fn kind(edit: &ChatEdit) -> ChatChange {
    match edit {
        ChatEdit::Rename(_) => ChatChange::Renamed,
        ChatEdit::Add { .. } => ChatChange::MemberAdded,
        ChatEdit::SetRole { .. } => ChatChange::RoleChanged,
        ChatEdit::Remove { .. } | ChatEdit::Delete => ChatChange::MemberRemoved,
    }
}

fn event(change: ChatChange, edited: Edited) -> Event {
    let Edited { mut chat, members_version, removed, .. } = edited;
    let gone: HashSet<_> = removed.iter().collect();
    chat.members.retain(|member| !gone.contains(&member.user_id));
    Event::ChatChanged { change, chat: Arc::new(chat), removed, members_version }
}

/// Tells the bus. It is committed already, so a bus that fails changes nothing about the answer:
/// who missed it finds out when it next asks for its chats.
async fn announce(bus: &dyn EventBus, events: Vec<Event>) {
    if let Err(error) = bus.publish(events).await {
        warn!(error = %Chain(&error), "publishing a chat change failed");
    }
}

/// Whether what was asked for is stored, or may be. It is told also if it was stored before: whoever
/// asks twice may do so because the node that stored it died before it told anybody.
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
