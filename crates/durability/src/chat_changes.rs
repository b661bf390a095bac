//! Changes of chats: committed by the store, then announced to the users concerned.

use std::sync::Arc;

use heartline_protocol::server_frame::ChatChange;
use heartline_protocol::{ChatId, UserId};
use heartline_runtime::Set;
use tracing::warn;

use crate::bus::EventBus;
use crate::changes::{ChangeError, Changes};
use crate::chats::{Actor, ChatEdit, Chats, Created, EditError, Edited, Idempotency, NewChat};
use crate::event::Event;
use crate::people::People;
use crate::store::Chain;

/// Changes chats and announces the changes. Clones share the limit of pending changes.
#[derive(Debug, Clone)]
pub struct ChatChanges {
    /// Makes changes in tasks of their own.
    pub changes: Changes,
    /// Stores changes of chats.
    pub chats: Arc<dyn Chats>,
    /// Deletes users.
    pub people: Arc<dyn People>,
    /// Publishes changes.
    pub bus: Arc<dyn EventBus>,
}

impl ChatChanges {
    /// Creates a chat, or finds the existing direct chat.
    ///
    /// # Errors
    /// The store failed; inside, it refused.
    pub async fn create(
        &self,
        chat: NewChat,
        idempotency: Option<Idempotency>,
    ) -> Result<Result<Created, EditError>, ChangeError> {
        let Self { chats, bus, .. } = self.clone();
        let change = async move {
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
        };
        self.changes.make(change).await
    }

    /// Changes a chat.
    ///
    /// # Errors
    /// The store failed; inside, it refused.
    pub async fn edit(
        &self,
        chat_id: ChatId,
        actor: Actor,
        edit: ChatEdit,
        idempotency: Option<Idempotency>,
    ) -> Result<Result<Edited, EditError>, ChangeError> {
        let Self { chats, bus, .. } = self.clone();
        let change = async move {
            let kind = kind(&edit);
            let edited = chats.edit(chat_id, actor, edit, idempotency).await?;
            if let Ok(edited) = &edited
                && edited.has_changed
            {
                announce(&*bus, vec![event(kind, edited.clone())]).await;
            }
            Ok(edited)
        };
        self.changes.make(change).await
    }

    /// Deletes a user, their memberships, and their entries in other users' contacts. `deleted`
    /// runs after the commit and before the change is announced.
    ///
    /// # Errors
    /// The store failed.
    pub async fn delete_user(
        &self,
        user_id: UserId,
        deleted: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ChangeError> {
        let Self { people, bus, .. } = self.clone();
        let change = async move {
            let edited = people.delete_user(&user_id).await?;
            deleted.await;
            let changed = edited.into_iter().filter(|edited| edited.has_changed);
            let events = changed.map(|edited| event(ChatChange::MemberRemoved, edited)).collect();
            announce(&*bus, events).await;
            Ok(())
        };
        self.changes.make(change).await
    }
}

/// The kind of change that members receive. For them a deleted chat is one that they are removed
/// from.
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
    let gone: Set<_> = removed.iter().collect();
    chat.members.retain(|member| !gone.contains(&member.user_id));
    Event::ChatChanged { change, chat: Arc::new(chat), removed, members_version }
}

/// Publishes changes. They are already committed, so a failing bus does not change the result: a
/// client that missed a change sees it when it reads its chats again.
async fn announce(bus: &dyn EventBus, events: Vec<Event>) {
    if let Err(error) = bus.publish(events).await {
        warn!(error = %Chain(&error), "publishing a chat change failed");
    }
}
