//! The store of a cluster: a PostgreSQL database that any number of nodes share.
//!
//! Every number is given under the lock of its chat's row, in the transaction that stores the
//! message, so commit order is the order of numbers on whatever node they are sent. Nothing is
//! answered before its commit, and every session makes its commits wait for the disk.
//!
//! Settings, statements and locks belong to sessions, so a pooler on the way must keep sessions
//! apart; one that hands out a connection per transaction does not.

mod append;
mod chats;
mod config;
mod connection;
mod contacts;
mod counters;
mod create;
mod edit;
mod failure;
mod forget;
mod keys;
mod lease;
mod open;
mod pages;
mod party_archive;
mod people;
mod pool;
mod publish;
mod repair;
mod rows;
mod schema;
mod tls;
mod users;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use heartline_durability::{
    Actor, AppendError, Appended, Audience, ChatEdit, ChatLog, ChatSummary, ContactsFull, Created,
    EditError, Edited, Idempotency, LogPage, LogRead, Members, NewChat, NewMessage, Profile,
    Profiles, Published, Relation, Repair, Sight, StoreError, Unpublished, Watermark,
};
use heartline_protocol::rest::Visibility;
use heartline_protocol::server_frame::{Chat, ManifestChat};
use heartline_protocol::{ChatId, Timestamp, UserId};
use heartline_routing::Clock;

pub use config::{Encryption, POOL_SIZE, PostgresConfig, SynchronousCommit, UrlError};
pub use counters::PostgresCounters;
pub use open::OpenError;

use append::Batch;
use contacts::Active;
use forget::Age;
use pool::{Pool, Purpose};
use tls::Tls;

/// How long the opening may take; another node may be changing the schema.
const OPEN_DEADLINE: Duration = Duration::from_secs(60);

/// The store of a cluster. Clones share its connections.
#[derive(Debug, Clone)]
pub struct PostgresStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pool: Pool,
    clock: Clock,
    /// Who claims what was not announced: this store and no other.
    claimant: i64,
}

impl PostgresStore {
    /// Connects, proves that the database is durable and brings its schema up to date.
    ///
    /// # Errors
    /// Something is in the way; the sentence says what, and what to do.
    pub async fn open(config: &PostgresConfig, clock: Clock) -> Result<Self, OpenError> {
        let tls = match &config.encryption {
            Encryption::Disable | Encryption::Require => Tls::unverified(),
            Encryption::VerifyFull { roots_file } => {
                Tls::verified(roots_file.as_deref()).map_err(|reason| {
                    let path = roots_file.as_deref().unwrap_or("".as_ref());
                    OpenError::Roots { path: path.display().to_string(), reason }
                })?
            }
        };
        let deadline = clock.now() + OPEN_DEADLINE;
        schema::migrate(config, &tls, deadline).await?;
        let pool = Pool::new(config.clone(), tls, clock, PostgresCounters::default());
        let claimant = rand::random();
        Ok(Self(Arc::new(Inner { pool, clock, claimant })))
    }

    /// Finishes what is under way and closes its connections. Later calls are refused.
    pub async fn close(&self) {
        self.0.pool.close().await;
    }

    /// What is counted; clones share the numbers.
    pub fn counters(&self) -> PostgresCounters {
        self.0.pool.counters().clone()
    }

    /// The time by the server's own clock.
    ///
    /// # Errors
    /// The store failed.
    pub async fn now(&self) -> Result<Timestamp, StoreError> {
        self.0.pool.call(Purpose::Read, schema::now).await
    }

    /// Sets a halted chat's counter to exactly its newest number and lifts the halt.
    ///
    /// # Errors
    /// The store failed.
    pub async fn repair_counter(&self, chat_id: ChatId) -> Result<Repair, StoreError> {
        let repair = |lease| repair::repair(lease, chat_id);
        self.0.pool.call(Purpose::Change, repair).await
    }
}

#[async_trait]
impl ChatLog for PostgresStore {
    async fn append(
        &self,
        batch: Vec<NewMessage>,
    ) -> Result<Vec<Result<Appended, AppendError>>, StoreError> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let batch = Batch::new(batch, self.0.clock.wall());
        self.0.pool.call(Purpose::Append, |lease| append::append(lease, &batch)).await
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

    async fn forget(&self, before: Option<Timestamp>, limit: usize) -> Result<usize, StoreError> {
        let now = self.0.clock.wall();
        let age = before.map(|before| Age { before, now });
        let mut changed = 0;
        while changed < limit {
            let bite = |lease| forget::forget(lease, age, limit - changed);
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
}

#[async_trait]
impl Members for PostgresStore {
    async fn create(
        &self,
        chat: NewChat,
        idempotency: Option<Idempotency>,
    ) -> Result<Result<Created, EditError>, StoreError> {
        let now = self.0.clock.wall();
        let create = |lease| create::create(lease, &chat, idempotency.as_ref(), now);
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

    async fn audience(&self, chat_id: ChatId) -> Result<Option<Audience>, StoreError> {
        self.0.pool.call(Purpose::Read, |lease| chats::audience(lease, chat_id)).await
    }

    async fn watermarks(
        &self,
        chat_id: ChatId,
        viewer: &UserId,
    ) -> Result<Option<Vec<Watermark>>, StoreError> {
        self.0.pool.call(Purpose::Read, |lease| chats::watermarks(lease, chat_id, viewer)).await
    }

    /// An empty list is written too: it tells whether the store takes writes.
    async fn record_watermarks(&self, watermarks: Vec<Watermark>) -> Result<(), StoreError> {
        let mut bites = watermarks.chunks(people::NOTES_MAX);
        let mut bite = bites.next().unwrap_or_default();
        loop {
            let record = |lease| people::record_watermarks(lease, bite);
            self.0.pool.call(Purpose::Note, record).await?;
            let Some(next) = bites.next() else { return Ok(()) };
            bite = next;
        }
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
impl Profiles for PostgresStore {
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

    async fn record_last_seen(&self, seen: Vec<(UserId, Timestamp)>) -> Result<(), StoreError> {
        for bite in people::latest(seen).chunks(people::NOTES_MAX) {
            let record = |lease| people::record_last_seen(lease, bite);
            self.0.pool.call(Purpose::Note, record).await?;
        }
        Ok(())
    }

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

    async fn relations(&self, sights: Vec<Sight>) -> Result<Vec<Relation>, StoreError> {
        self.0.pool.call(Purpose::Read, |lease| contacts::relations(lease, &sights)).await
    }

    async fn delete_user(&self, user_id: &UserId) -> Result<Vec<Edited>, StoreError> {
        self.0.pool.call(Purpose::Change, |lease| people::delete(lease, user_id)).await
    }
}
