//! The ports that the embedded store implements.

use std::time::Duration;

use async_trait::async_trait;
use heartline_durability::{
    Actor, Announcements, AppendError, Appended, ChatEdit, ChatLog, ChatSummary, Chats, Contacts,
    ContactsFull, Created, EditError, Edited, Idempotency, LazyStore, LogPage, LogRead, NewChat,
    NewMessage, People, Privacy, Profile, Published, Relation, Repair, Sight, StoreError,
    Unpublished, Upkeep, Watermark,
};
use heartline_fanout::{Audience, Audiences};
use heartline_protocol::rest::Visibility;
use heartline_protocol::server_frame::{Chat, ManifestChat};
use heartline_protocol::{ChatId, Timestamp, UserId};

use super::companions::Active;
use super::write_transaction::WriteTransaction;
use super::{
    SqliteStore, chats, companions, contacts, create, edit, forget, pages, people, publish, repair,
};

#[async_trait]
impl ChatLog for SqliteStore {
    async fn append(&self, batch: Vec<NewMessage>) -> Vec<Result<Appended, AppendError>> {
        self.0.writer.append(batch).await
    }

    async fn read(&self, read: LogRead) -> Result<Option<LogPage>, StoreError> {
        self.0.readers.read(move |connection| pages::page(connection, &read)).await
    }

    async fn manifest(
        &self,
        user_id: &UserId,
        after: Option<ChatId>,
        limit: usize,
    ) -> Result<Vec<ManifestChat>, StoreError> {
        let user_id = user_id.clone();
        let read = move |connection: &_| pages::manifest(connection, &user_id, after, limit);
        self.0.readers.read(read).await
    }
}

#[async_trait]
impl Announcements for SqliteStore {
    async fn record_published(&self, ranges: Vec<Published>) -> Result<(), StoreError> {
        self.0.writer.write(|transaction| publish::record(transaction, ranges)).await
    }

    async fn unpublished(
        &self,
        older_than: Duration,
        limit: usize,
    ) -> Result<Vec<Unpublished>, StoreError> {
        let now = self.0.clock.wall();
        let read = move |connection: &_| publish::unpublished(connection, older_than, limit, now);
        self.0.readers.read(read).await
    }
}

#[async_trait]
impl Upkeep for SqliteStore {
    async fn forget(&self, retention: Option<Duration>, limit: usize) -> Result<usize, StoreError> {
        let mut changed = 0;
        loop {
            let left = limit - changed;
            let write = move |transaction: &mut WriteTransaction<'_>| {
                forget::forget(transaction, retention, left)
            };
            let forgotten = self.0.writer.write(write).await?;
            changed += forgotten.changed;
            if forgotten.is_last || changed >= limit {
                return Ok(changed);
            }
        }
    }

    async fn halted(&self, limit: usize) -> Result<Vec<ChatId>, StoreError> {
        self.0.readers.read(move |connection| repair::halted(connection, limit)).await
    }

    async fn repair_counter(&self, chat_id: ChatId) -> Result<Repair, StoreError> {
        self.0.writer.write(move |transaction| repair::repair(transaction, chat_id)).await
    }

    /// Runs an empty transaction.
    async fn probe(&self) -> Result<(), StoreError> {
        self.0.writer.write(|_| Ok(())).await
    }
}

#[async_trait]
impl Chats for SqliteStore {
    async fn create(
        &self,
        chat: NewChat,
        idempotency: Option<Idempotency>,
    ) -> Result<Result<Created, EditError>, StoreError> {
        let write = move |transaction: &mut WriteTransaction<'_>| {
            create::create(transaction, &chat, idempotency.as_ref())
        };
        self.0.writer.write(write).await
    }

    async fn chat(
        &self,
        chat_id: ChatId,
        viewer: Option<&UserId>,
    ) -> Result<Option<Chat>, StoreError> {
        let viewer = viewer.cloned();
        let read = move |connection: &_| chats::visible(connection, chat_id, viewer.as_ref());
        self.0.readers.read(read).await
    }

    async fn chats_of(
        &self,
        user_id: &UserId,
        after: Option<ChatId>,
        limit: usize,
    ) -> Result<Vec<ChatSummary>, StoreError> {
        let user_id = user_id.clone();
        let read = move |connection: &_| chats::of_user(connection, &user_id, after, limit);
        self.0.readers.read(read).await
    }

    async fn edit(
        &self,
        chat_id: ChatId,
        actor: Actor,
        edit: ChatEdit,
        idempotency: Option<Idempotency>,
    ) -> Result<Result<Edited, EditError>, StoreError> {
        let write = move |transaction: &mut WriteTransaction<'_>| {
            edit::edit(transaction, chat_id, &actor, &edit, idempotency.as_ref())
        };
        self.0.writer.write(write).await
    }

    async fn watermarks(
        &self,
        chat_id: ChatId,
        viewer: &UserId,
    ) -> Result<Option<Vec<Watermark>>, StoreError> {
        let viewer = viewer.clone();
        let read = move |connection: &_| chats::watermarks(connection, chat_id, &viewer);
        self.0.readers.read(read).await
    }
}

#[async_trait]
impl LazyStore for SqliteStore {
    async fn record_watermarks(&self, watermarks: Vec<Watermark>) -> Result<(), StoreError> {
        self.0
            .writer
            .write(move |transaction| people::record_watermarks(transaction, &watermarks))
            .await
    }

    async fn record_last_seen(&self, seen: Vec<(UserId, Timestamp)>) -> Result<(), StoreError> {
        self.0.writer.write(move |transaction| people::record_last_seen(transaction, &seen)).await
    }
}

#[async_trait]
impl Audiences for SqliteStore {
    async fn audience(&self, chat_id: ChatId) -> Result<Option<Audience>, StoreError> {
        self.0.readers.read(move |connection| chats::audience(connection, chat_id)).await
    }

    async fn companions(
        &self,
        user_ids: &[UserId],
        active_within: Duration,
        members_max: usize,
    ) -> Result<Vec<Vec<UserId>>, StoreError> {
        let user_ids = user_ids.to_vec();
        let active = Active { since: self.0.clock.wall().minus(active_within), members_max };
        let read = move |connection: &_| companions::of_users(connection, &user_ids, active);
        self.0.readers.read(read).await
    }
}

#[async_trait]
impl People for SqliteStore {
    async fn profile(&self, user_id: &UserId) -> Result<Profile, StoreError> {
        let user_id = user_id.clone();
        self.0.readers.read(move |connection| people::profile(connection, &user_id)).await
    }

    async fn set_display_name(
        &self,
        user_id: &UserId,
        display_name: Option<String>,
    ) -> Result<Profile, StoreError> {
        let user_id = user_id.clone();
        let write = move |transaction: &mut WriteTransaction<'_>| {
            people::set_display_name(transaction, &user_id, display_name.as_deref())
        };
        self.0.writer.write(write).await
    }

    async fn delete_user(&self, user_id: &UserId) -> Result<Vec<Edited>, StoreError> {
        let user_id = user_id.clone();
        self.0.writer.write(move |transaction| people::delete(transaction, &user_id)).await
    }
}

#[async_trait]
impl Contacts for SqliteStore {
    async fn contacts(
        &self,
        user_id: &UserId,
        after: Option<&UserId>,
        limit: usize,
    ) -> Result<Vec<UserId>, StoreError> {
        let (user_id, after) = (user_id.clone(), after.cloned());
        let read =
            move |connection: &_| contacts::of_user(connection, &user_id, after.as_ref(), limit);
        self.0.readers.read(read).await
    }

    async fn put_contact(
        &self,
        user_id: &UserId,
        contact_id: &UserId,
    ) -> Result<Result<bool, ContactsFull>, StoreError> {
        let (user_id, contact_id) = (user_id.clone(), contact_id.clone());
        self.0
            .writer
            .write(move |transaction| contacts::put(transaction, &user_id, &contact_id))
            .await
    }

    async fn remove_contact(
        &self,
        user_id: &UserId,
        contact_id: &UserId,
    ) -> Result<bool, StoreError> {
        let (user_id, contact_id) = (user_id.clone(), contact_id.clone());
        self.0
            .writer
            .write(move |transaction| contacts::remove(transaction, &user_id, &contact_id))
            .await
    }
}

#[async_trait]
impl Privacy for SqliteStore {
    async fn visibility(&self, user_id: &UserId) -> Result<Option<Visibility>, StoreError> {
        let user_id = user_id.clone();
        self.0.readers.read(move |connection| contacts::visibility(connection, &user_id)).await
    }

    async fn set_visibility(
        &self,
        user_id: &UserId,
        visibility: Visibility,
    ) -> Result<bool, StoreError> {
        let user_id = user_id.clone();
        let write = move |transaction: &mut WriteTransaction<'_>| {
            contacts::set_visibility(transaction, &user_id, visibility)
        };
        self.0.writer.write(write).await
    }

    async fn relations(&self, sights: Vec<Sight>) -> Result<Vec<Relation>, StoreError> {
        self.0.readers.read(move |connection| contacts::relations(connection, &sights)).await
    }
}
