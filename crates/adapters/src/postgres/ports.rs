//! The ports that the shared store implements.

use std::time::Duration;

use async_trait::async_trait;
use heartline_durability::{
    Actor, Announcements, AppendError, Appended, ChatEdit, ChatLog, ChatSummary, Chats, Contacts,
    ContactsFull, Created, EditError, Edited, Idempotency, LazyStore, LogPage, LogRead, NewChat,
    NewMessage, People, Privacy, Profile, Published, Relation, Repair, Sight, StoreError,
    Unpublished, Upkeep, Watermark, log,
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
        let count = batch.len();
        let batch = Batch::new(batch, self.0.clock.wall(), self.0.random);
        let append = |lease| append::append(lease, &batch);
        log::answers(count, self.0.pool.call(Purpose::Append, append).await)
    }

    async fn read(&self, read: LogRead) -> Result<Option<LogPage>, StoreError> {
        self.0.pool.call(Purpose::Read, |lease| pages::page(lease, &read)).await
    }

    async fn manifest(
        &self,
        user_id: &UserId,
        after: Option<ChatId>,
        limit: usize,
    ) -> Result<Vec<ManifestChat>, StoreError> {
        let read = |lease| pages::manifest(lease, user_id, after, limit);
        self.0.pool.call(Purpose::Read, read).await
    }
}

#[async_trait]
impl Announcements for PostgresStore {
    async fn record_published(&self, mut ranges: Vec<Published>) -> Result<(), StoreError> {
        ranges.sort_unstable_by_key(|range| range.chat_id);
        for bite in ranges.chunks(publish::RANGES_MAX) {
            let record = |lease| publish::record(lease, bite);
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
        let claim = |lease| publish::unpublished(lease, claimant, older_than, limit);
        self.0.pool.call(Purpose::Note, claim).await
    }
}

#[async_trait]
impl Upkeep for PostgresStore {
    async fn forget(&self, retention: Option<Duration>, limit: usize) -> Result<usize, StoreError> {
        let mut changed = 0;
        while changed < limit {
            let bite = |lease| forget::forget(lease, retention, limit - changed);
            let bite = self.0.pool.call(Purpose::Note, bite).await?;
            changed += bite.changed;
            if bite.is_last {
                break;
            }
        }
        Ok(changed)
    }

    async fn halted(&self, limit: usize) -> Result<Vec<ChatId>, StoreError> {
        self.0.pool.call(Purpose::Read, |lease| repair::halted(lease, limit)).await
    }

    async fn repair_counter(&self, chat_id: ChatId) -> Result<Repair, StoreError> {
        let repair = |lease| repair::repair(lease, chat_id);
        self.0.pool.call(Purpose::Change, repair).await
    }

    /// The statement that writes watermarks, without any.
    async fn probe(&self) -> Result<(), StoreError> {
        let record = |lease| people::record_watermarks(lease, &[]);
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
        // Made once, so that another attempt makes the same chat.
        let ulid = Ulid::from_parts(self.0.clock.wall().unix_ms, self.0.random.draw());
        let chat_id = ChatId(ulid);
        let create = |lease| create::create(lease, &chat, idempotency.as_ref(), chat_id);
        self.0.pool.call(Purpose::Change, create).await
    }

    async fn chat(
        &self,
        chat_id: ChatId,
        viewer: Option<&UserId>,
    ) -> Result<Option<Chat>, StoreError> {
        self.0.pool.call(Purpose::Read, |lease| chats::visible(lease, chat_id, viewer)).await
    }

    async fn chats_of(
        &self,
        user_id: &UserId,
        after: Option<ChatId>,
        limit: usize,
    ) -> Result<Vec<ChatSummary>, StoreError> {
        let read = |lease| chats::of_user(lease, user_id, after, limit);
        self.0.pool.call(Purpose::Read, read).await
    }

    async fn edit(
        &self,
        chat_id: ChatId,
        actor: Actor,
        edit: ChatEdit,
        idempotency: Option<Idempotency>,
    ) -> Result<Result<Edited, EditError>, StoreError> {
        let edit = |lease| edit::edit(lease, chat_id, &actor, &edit, idempotency.as_ref());
        self.0.pool.call(Purpose::Change, edit).await
    }

    async fn watermarks(
        &self,
        chat_id: ChatId,
        viewer: &UserId,
    ) -> Result<Option<Vec<Watermark>>, StoreError> {
        self.0.pool.call(Purpose::Read, |lease| chats::watermarks(lease, chat_id, viewer)).await
    }
}

#[async_trait]
impl LazyStore for PostgresStore {
    async fn record_watermarks(&self, watermarks: Vec<Watermark>) -> Result<(), StoreError> {
        for bite in watermarks.chunks(people::NOTES_MAX) {
            let record = |lease| people::record_watermarks(lease, bite);
            self.0.pool.call(Purpose::Note, record).await?;
        }
        Ok(())
    }

    async fn record_last_seen(&self, seen: Vec<(UserId, Timestamp)>) -> Result<(), StoreError> {
        for bite in people::latest(seen).chunks(people::NOTES_MAX) {
            let record = |lease| people::record_last_seen(lease, bite);
            self.0.pool.call(Purpose::Note, record).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Audiences for PostgresStore {
    async fn audience(&self, chat_id: ChatId) -> Result<Option<Audience>, StoreError> {
        self.0.pool.call(Purpose::Read, |lease| chats::audience(lease, chat_id)).await
    }

    async fn companions(
        &self,
        user_ids: &[UserId],
        active_within: Duration,
        members_max: usize,
    ) -> Result<Vec<Vec<UserId>>, StoreError> {
        let active = Active { within: active_within, members_max };
        let read = |lease| contacts::companions(lease, user_ids, active);
        self.0.pool.call(Purpose::Read, read).await
    }
}

#[async_trait]
impl People for PostgresStore {
    async fn profile(&self, user_id: &UserId) -> Result<Profile, StoreError> {
        self.0.pool.call(Purpose::Read, |lease| people::profile(lease, user_id)).await
    }

    async fn set_display_name(
        &self,
        user_id: &UserId,
        display_name: Option<String>,
    ) -> Result<Profile, StoreError> {
        let set = |lease| people::set_display_name(lease, user_id, display_name.as_deref());
        self.0.pool.call(Purpose::Note, set).await
    }

    async fn delete_user(&self, user_id: &UserId) -> Result<Vec<Edited>, StoreError> {
        self.0.pool.call(Purpose::Change, |lease| people::delete(lease, user_id)).await
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
        let read = |lease| contacts::of_user(lease, user_id, after, limit);
        self.0.pool.call(Purpose::Read, read).await
    }

    async fn put_contact(
        &self,
        user_id: &UserId,
        contact_id: &UserId,
    ) -> Result<Result<bool, ContactsFull>, StoreError> {
        let put = |lease| contacts::put(lease, user_id, contact_id);
        self.0.pool.call(Purpose::Change, put).await
    }

    async fn remove_contact(
        &self,
        user_id: &UserId,
        contact_id: &UserId,
    ) -> Result<bool, StoreError> {
        let remove = |lease| contacts::remove(lease, user_id, contact_id);
        self.0.pool.call(Purpose::Change, remove).await
    }
}

#[async_trait]
impl Privacy for PostgresStore {
    async fn visibility(&self, user_id: &UserId) -> Result<Option<Visibility>, StoreError> {
        self.0.pool.call(Purpose::Read, |lease| contacts::visibility(lease, user_id)).await
    }

    async fn set_visibility(
        &self,
        user_id: &UserId,
        visibility: Visibility,
    ) -> Result<bool, StoreError> {
        let set = |lease| contacts::set_visibility(lease, user_id, visibility);
        self.0.pool.call(Purpose::Change, set).await
    }

    async fn relations(&self, sights: Vec<Sight>) -> Result<Vec<Relation>, StoreError> {
        self.0.pool.call(Purpose::Read, |lease| contacts::relations(lease, &sights)).await
    }
}
