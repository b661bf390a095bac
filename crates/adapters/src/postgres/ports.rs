//! The ports that the shared store implements.

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
use ulid::Ulid;

use super::append::Batch;
use super::contacts::Active;
use super::pool::Purpose;
use super::{
    PostgresStore, append, chats, contacts, create, edit, forget, pages, people, publish, repair,
};

#[async_trait]
impl ChatLog for PostgresStore {
    async fn append(&self, batch: Vec<NewMessage>) -> Vec<Result<Appended, AppendError>> {
        if batch.is_empty() {
            return Vec::new();
        }
        let batch = Batch::new(batch, self.0.clock.wall(), self.0.random);
        append::append(&self.0.pool, self.0.clock, &batch).await
    }

    async fn read(&self, read: LogRead) -> Result<Option<LogPage>, StoreError> {
        self.0.pool.call(Purpose::Read, |connection| pages::page(connection, &read)).await
    }

    async fn manifest(
        &self,
        user_id: &UserId,
        after: Option<ChatId>,
        limit: usize,
    ) -> Result<Vec<ManifestChat>, StoreError> {
        let read = |connection| pages::manifest(connection, user_id, after, limit);
        self.0.pool.call(Purpose::Read, read).await
    }
}

#[async_trait]
impl Announcements for PostgresStore {
    async fn record_published(&self, mut ranges: Vec<Published>) -> Result<(), StoreError> {
        ranges.sort_unstable_by_key(|range| range.chat_id);
        for chunk in ranges.chunks(publish::RANGES_MAX) {
            let record = |connection| publish::record(connection, chunk);
            self.0.pool.call(Purpose::Note, record).await?;
        }
        Ok(())
    }

    async fn unpublished(
        &self,
        older_than: Duration,
        limit: usize,
    ) -> Result<Vec<Unpublished>, StoreError> {
        let claimant = self.0.claimant;
        let claim = |connection| publish::unpublished(connection, claimant, older_than, limit);
        self.0.pool.call(Purpose::Note, claim).await
    }
}

#[async_trait]
impl Upkeep for PostgresStore {
    async fn forget(&self, retention: Option<Duration>, limit: usize) -> Result<usize, StoreError> {
        let mut changed = 0;
        while changed < limit {
            let forget = |connection| forget::forget(connection, retention, limit - changed);
            let forgotten = self.0.pool.call(Purpose::Note, forget).await?;
            changed += forgotten.changed;
            if forgotten.is_last {
                break;
            }
        }
        Ok(changed)
    }

    async fn halted(&self, limit: usize) -> Result<Vec<ChatId>, StoreError> {
        self.0.pool.call(Purpose::Read, |connection| repair::halted(connection, limit)).await
    }

    async fn repair_counter(&self, chat_id: ChatId) -> Result<Repair, StoreError> {
        let repair = |connection| repair::repair(connection, chat_id);
        self.0.pool.call(Purpose::Change, repair).await
    }

    /// Runs the statement that writes watermarks, with none.
    async fn probe(&self) -> Result<(), StoreError> {
        let record = |connection| people::record_watermarks(connection, &[]);
        self.0.pool.call(Purpose::Note, record).await
    }
}

#[async_trait]
impl Chats for PostgresStore {
    async fn create(
        &self,
        chat: NewChat,
        idempotency: Option<Idempotency>,
    ) -> Result<Result<Created, EditError>, StoreError> {
        // Drawn once, so that a retry creates the same chat.
        let ulid = Ulid::from_parts(self.0.clock.wall().unix_ms, self.0.random.draw());
        let chat_id = ChatId(ulid);
        let create = |connection| create::create(connection, &chat, idempotency.as_ref(), chat_id);
        self.0.pool.call(Purpose::Change, create).await
    }

    async fn chat(
        &self,
        chat_id: ChatId,
        viewer: Option<&UserId>,
    ) -> Result<Option<Chat>, StoreError> {
        self.0
            .pool
            .call(Purpose::Read, |connection| chats::visible(connection, chat_id, viewer))
            .await
    }

    async fn chats_of(
        &self,
        user_id: &UserId,
        after: Option<ChatId>,
        limit: usize,
    ) -> Result<Vec<ChatSummary>, StoreError> {
        let read = |connection| chats::of_user(connection, user_id, after, limit);
        self.0.pool.call(Purpose::Read, read).await
    }

    async fn edit(
        &self,
        chat_id: ChatId,
        actor: Actor,
        edit: ChatEdit,
        idempotency: Option<Idempotency>,
    ) -> Result<Result<Edited, EditError>, StoreError> {
        let edit =
            |connection| edit::edit(connection, chat_id, &actor, &edit, idempotency.as_ref());
        self.0.pool.call(Purpose::Change, edit).await
    }

    async fn watermarks(
        &self,
        chat_id: ChatId,
        viewer: &UserId,
    ) -> Result<Option<Vec<Watermark>>, StoreError> {
        self.0
            .pool
            .call(Purpose::Read, |connection| chats::watermarks(connection, chat_id, viewer))
            .await
    }
}

#[async_trait]
impl LazyStore for PostgresStore {
    async fn record_watermarks(&self, watermarks: Vec<Watermark>) -> Result<(), StoreError> {
        for chunk in watermarks.chunks(people::NOTES_MAX) {
            let record = |connection| people::record_watermarks(connection, chunk);
            self.0.pool.call(Purpose::Note, record).await?;
        }
        Ok(())
    }

    async fn record_last_seen(&self, seen: Vec<(UserId, Timestamp)>) -> Result<(), StoreError> {
        for chunk in people::latest(seen).chunks(people::NOTES_MAX) {
            let record = |connection| people::record_last_seen(connection, chunk);
            self.0.pool.call(Purpose::Note, record).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Audiences for PostgresStore {
    async fn audience(&self, chat_id: ChatId) -> Result<Option<Audience>, StoreError> {
        self.0.pool.call(Purpose::Read, |connection| chats::audience(connection, chat_id)).await
    }

    async fn companions(
        &self,
        user_ids: &[UserId],
        active_within: Duration,
        members_max: usize,
    ) -> Result<Vec<Vec<UserId>>, StoreError> {
        let active = Active { within: active_within, members_max };
        let read = |connection| contacts::companions(connection, user_ids, active);
        self.0.pool.call(Purpose::Read, read).await
    }
}

#[async_trait]
impl People for PostgresStore {
    async fn profile(&self, user_id: &UserId) -> Result<Profile, StoreError> {
        self.0.pool.call(Purpose::Read, |connection| people::profile(connection, user_id)).await
    }

    async fn set_display_name(
        &self,
        user_id: &UserId,
        display_name: Option<String>,
    ) -> Result<Profile, StoreError> {
        let set =
            |connection| people::set_display_name(connection, user_id, display_name.as_deref());
        self.0.pool.call(Purpose::Note, set).await
    }

    async fn delete_user(&self, user_id: &UserId) -> Result<Vec<Edited>, StoreError> {
        self.0.pool.call(Purpose::Change, |connection| people::delete(connection, user_id)).await
    }
}

#[async_trait]
impl Contacts for PostgresStore {
    async fn contacts(
        &self,
        user_id: &UserId,
        after: Option<&UserId>,
        limit: usize,
    ) -> Result<Vec<UserId>, StoreError> {
        let read = |connection| contacts::of_user(connection, user_id, after, limit);
        self.0.pool.call(Purpose::Read, read).await
    }

    async fn put_contact(
        &self,
        user_id: &UserId,
        contact_id: &UserId,
    ) -> Result<Result<bool, ContactsFull>, StoreError> {
        let put = |connection| contacts::put(connection, user_id, contact_id);
        self.0.pool.call(Purpose::Change, put).await
    }

    async fn remove_contact(
        &self,
        user_id: &UserId,
        contact_id: &UserId,
    ) -> Result<bool, StoreError> {
        let remove = |connection| contacts::remove(connection, user_id, contact_id);
        self.0.pool.call(Purpose::Change, remove).await
    }
}

#[async_trait]
impl Privacy for PostgresStore {
    async fn visibility(&self, user_id: &UserId) -> Result<Option<Visibility>, StoreError> {
        self.0
            .pool
            .call(Purpose::Read, |connection| contacts::visibility(connection, user_id))
            .await
    }

    async fn set_visibility(
        &self,
        user_id: &UserId,
        visibility: Visibility,
    ) -> Result<bool, StoreError> {
        let set = |connection| contacts::set_visibility(connection, user_id, visibility);
        self.0.pool.call(Purpose::Change, set).await
    }

    async fn relations(&self, sights: Vec<Sight>) -> Result<Vec<Relation>, StoreError> {
        self.0.pool.call(Purpose::Read, |connection| contacts::relations(connection, &sights)).await
    }
}
