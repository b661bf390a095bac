//! The embedded store: one SQLite file, one thread that writes it, a few that read beside it.
//!
//! Every commit is forced to the disk before anything is answered. What waits together is
//! committed together, which is what makes that affordable.

mod append;
mod backup;
mod chats;
mod check;
mod checkpoint;
mod companions;
mod config;
mod contacts;
mod counters;
mod create;
mod disk;
mod edit;
mod error;
mod forget;
mod job;
mod keys;
mod lock;
mod open;
mod pages;
mod party_archive;
mod party_store;
mod people;
mod publish;
mod readers;
mod repair;
mod rows;
mod schema;
mod session;
mod writer;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, OnceLock};
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

pub use backup::{BackupError, RestoreError, back_up, restore, unfinished};
pub use check::{Thoroughness, check_store};
pub use config::{DATABASE_FILE, DISK_RESERVE_BYTES, SqliteConfig, UrlError};
pub use counters::SqliteCounters;
pub use open::OpenError;
pub use party_store::{SESSION_TTL, SqlitePartyStore};

use check::{BackgroundCheck, Health};
use checkpoint::Checkpointer;
use companions::Active;
use disk::DiskGuard;
use lock::StoreLock;
use party_store::LiveSessions;
use readers::Readers;
use writer::{Writer, WriterParts};

/// The embedded store. Clones share it; when the last one goes, it finishes what it was asked
/// for and closes in order.
#[derive(Clone)]
pub struct SqliteStore(Arc<Inner>);

/// The fields end in this order: nothing new is read, a check is broken off, everything that
/// waits is written, and only then may another process come.
struct Inner {
    readers: Readers,
    _check: Option<BackgroundCheck>,
    writer: Writer,
    clock: Clock,
    counters: SqliteCounters,
    health: Arc<Health>,
    /// What the nodes of this process share of party sessions, once one has asked for it.
    party: OnceLock<Arc<LiveSessions>>,
    _lock: StoreLock,
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SqliteStore")
            .field("health", &self.0.health)
            .finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the store, making it if there is none.
    ///
    /// # Errors
    /// Something is in the way; the sentence says what, and what to do.
    pub fn open(config: &SqliteConfig, clock: Clock) -> Result<Self, OpenError> {
        let path = &config.path;
        let (lock, connection) = open::open_writer(config)?;
        let was_open = check::mark_open(&connection).map_err(|error| open::explain(path, error))?;
        let counters = SqliteCounters::default();
        let health = Arc::new(Health::new(was_open));
        let no_thread = |source| OpenError::Directory { path: path.clone(), source };
        let check = if was_open {
            let connection = open::open_reader(path)?;
            let check = BackgroundCheck::start(connection, Arc::clone(&health));
            Some(check.map_err(no_thread)?)
        } else {
            None
        };
        let readers = (0..config.readers.max(1)).map(|_| open::open_reader(path));
        let readers = Readers::start(readers.collect::<Result<_, _>>()?).map_err(no_thread)?;
        let disk = DiskGuard::new(path, config.disk_reserve_bytes);
        let checkpointer = Checkpointer::start(open::open_beside(path)?).map_err(no_thread)?;
        let parts = WriterParts {
            checkpointer,
            connection,
            clock,
            disk,
            counters: counters.clone(),
            health: Arc::clone(&health),
        };
        let writer = Writer::start(parts).map_err(no_thread)?;
        let party = OnceLock::new();
        let inner =
            Inner { readers, _check: check, writer, clock, counters, health, party, _lock: lock };
        Ok(Self(Arc::new(inner)))
    }

    /// Finishes what it was asked for so far and closes in order. Later writes are refused.
    pub async fn close(&self) {
        self.0.writer.close().await;
    }

    /// What went wrong so far; clones share the numbers.
    pub fn counters(&self) -> SqliteCounters {
        self.0.counters.clone()
    }

    /// What the check after an unclean stop has found, if anything. Then nothing is written.
    pub fn damage(&self) -> Option<&str> {
        self.0.health.damage()
    }

    /// Sets a halted chat's counter to exactly its newest number and lifts the halt.
    ///
    /// # Errors
    /// The store failed.
    pub async fn repair_counter(&self, chat_id: ChatId) -> Result<Repair, StoreError> {
        self.0.writer.write(move |session| repair::repair(session, chat_id)).await
    }
}

#[async_trait]
impl ChatLog for SqliteStore {
    async fn append(
        &self,
        batch: Vec<NewMessage>,
    ) -> Result<Vec<Result<Appended, AppendError>>, StoreError> {
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

    async fn record_published(&self, ranges: Vec<Published>) -> Result<(), StoreError> {
        self.0.writer.write(|session| publish::record(session, ranges)).await
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

    async fn forget(&self, before: Option<Timestamp>, limit: usize) -> Result<usize, StoreError> {
        let mut changed = 0;
        loop {
            let left = limit - changed;
            let write =
                move |session: &mut session::Session<'_>| forget::forget(session, before, left);
            let bite = self.0.writer.write(write).await?;
            changed += bite.changed;
            if bite.is_last || changed >= limit {
                return Ok(changed);
            }
        }
    }

    async fn halted(&self, limit: usize) -> Result<Vec<ChatId>, StoreError> {
        self.0.readers.read(move |connection| repair::halted(connection, limit)).await
    }
}

#[async_trait]
impl Members for SqliteStore {
    async fn create(
        &self,
        chat: NewChat,
        idempotency: Option<Idempotency>,
    ) -> Result<Result<Created, EditError>, StoreError> {
        let write = move |session: &mut session::Session<'_>| {
            create::create(session, &chat, idempotency.as_ref())
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
        let write = move |session: &mut session::Session<'_>| {
            edit::edit(session, chat_id, &actor, &edit, idempotency.as_ref())
        };
        self.0.writer.write(write).await
    }

    async fn audience(&self, chat_id: ChatId) -> Result<Option<Audience>, StoreError> {
        self.0.readers.read(move |connection| chats::audience(connection, chat_id)).await
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

    async fn record_watermarks(&self, watermarks: Vec<Watermark>) -> Result<(), StoreError> {
        self.0.writer.write(move |session| people::record_watermarks(session, &watermarks)).await
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
impl Profiles for SqliteStore {
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
        let write = move |session: &mut session::Session<'_>| {
            people::set_display_name(session, &user_id, display_name.as_deref())
        };
        self.0.writer.write(write).await
    }

    async fn record_last_seen(&self, seen: Vec<(UserId, Timestamp)>) -> Result<(), StoreError> {
        self.0.writer.write(move |session| people::record_last_seen(session, &seen)).await
    }

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
        let write = move |session: &mut session::Session<'_>| {
            contacts::set_visibility(session, &user_id, visibility)
        };
        self.0.writer.write(write).await
    }

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
        self.0.writer.write(move |session| contacts::put(session, &user_id, &contact_id)).await
    }

    async fn remove_contact(
        &self,
        user_id: &UserId,
        contact_id: &UserId,
    ) -> Result<bool, StoreError> {
        let (user_id, contact_id) = (user_id.clone(), contact_id.clone());
        self.0.writer.write(move |session| contacts::remove(session, &user_id, &contact_id)).await
    }

    async fn relations(&self, sights: Vec<Sight>) -> Result<Vec<Relation>, StoreError> {
        self.0.readers.read(move |connection| contacts::relations(connection, &sights)).await
    }

    async fn delete_user(&self, user_id: &UserId) -> Result<Vec<Edited>, StoreError> {
        let user_id = user_id.clone();
        self.0.writer.write(move |session| people::delete(session, &user_id)).await
    }
}
