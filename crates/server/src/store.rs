//! The store of a node: every port, opened by URL.

use std::sync::Arc;

use anyhow::{Context, Result};
use async_trait::async_trait;
use heartline_adapters::postgres::{PostgresConfig, PostgresStore};
use heartline_adapters::sqlite::{SqliteConfig, SqliteStore};
use heartline_durability::{
    Announcements, ChatLog, Chats, Contacts, LazyStore, People, Privacy, StoreError, Upkeep,
};
use heartline_fanout::Audiences;
use heartline_party::PartyArchive;
use heartline_protocol::Timestamp;
use heartline_runtime::{Clock, Random};
use prometheus_client::registry::Registry;

use crate::config::{Config, StoreEngine};

/// Batches of messages that are stored in PostgreSQL at the same time: enough to keep it busy
/// during a commit, few enough for large batches.
const POSTGRES_SHARDS: usize = 4;

/// An open store. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    /// The engine's name, as metrics label it.
    pub(crate) name: &'static str,
    /// Batches of messages that may be stored at the same time.
    pub(crate) ingest_shards: usize,
    /// The checks of durable commits that passed while the store was opened.
    pub(crate) proof: &'static str,
    pub(crate) log: Arc<dyn ChatLog>,
    pub(crate) announcements: Arc<dyn Announcements>,
    pub(crate) upkeep: Arc<dyn Upkeep>,
    pub(crate) chats: Arc<dyn Chats>,
    pub(crate) lazy: Arc<dyn LazyStore>,
    pub(crate) audiences: Arc<dyn Audiences>,
    pub(crate) people: Arc<dyn People>,
    pub(crate) contacts: Arc<dyn Contacts>,
    pub(crate) privacy: Arc<dyn Privacy>,
    /// The archive of party sessions, if the engine has one.
    pub(crate) archive: Option<Arc<dyn PartyArchive>>,
    /// The file of an embedded store, which can hold party sessions too.
    pub(crate) file: Option<SqliteStore>,
    engine: Arc<dyn Engine>,
}

/// The calls of assembly to an engine beside its ports.
#[async_trait]
trait Engine: Send + Sync + std::fmt::Debug {
    /// Registers the engine's metrics.
    fn register(&self, registry: &mut Registry);

    /// The time by the clock of the engine's server; none if it runs in this process.
    async fn now(&self) -> Option<Result<Timestamp, StoreError>>;

    /// Finishes pending calls and closes the engine.
    async fn close(&self);
}

impl Store {
    /// Opens the store that the configuration names.
    pub(crate) async fn open(config: &Config, clock: Clock, random: Random) -> Result<Self> {
        Self::open_at(&config.store.url, config, clock, random).await.context("store.url")
    }

    /// Opens the store of the party archive, if the configuration names another one for it.
    pub(crate) async fn open_archive(
        config: &Config,
        clock: Clock,
        random: Random,
    ) -> Result<Option<Self>> {
        let elsewhere = config.party.archive_url.as_deref().filter(|url| *url != config.store.url);
        let Some(url) = elsewhere else { return Ok(None) };
        Ok(Some(Self::open_at(url, config, clock, random).await.context("party.archive_url")?))
    }

    /// Opens the engine of a URL; no other function chooses between engines.
    async fn open_at(url: &str, config: &Config, clock: Clock, random: Random) -> Result<Self> {
        let store = &config.store;
        match StoreEngine::of(url) {
            StoreEngine::Postgres => {
                let mut postgres = PostgresConfig::from_url(url)?;
                postgres.allow_unsafe = store.allow_unsafe;
                Ok(Self::postgres(PostgresStore::open(&postgres, clock, random).await?))
            }
            StoreEngine::Sqlite => {
                let mut sqlite = SqliteConfig::from_url(url, &config.server.data_dir)?;
                sqlite.disk_reserve_bytes = store.disk_reserve;
                sqlite.allow_unsafe = store.allow_unsafe;
                Ok(Self::sqlite(SqliteStore::open(&sqlite, clock, random)?))
            }
        }
    }

    /// An open PostgreSQL database, shared by nodes.
    fn postgres(store: PostgresStore) -> Self {
        let archive: Arc<dyn PartyArchive> = Arc::new(store.clone());
        Self {
            name: "postgres",
            ingest_shards: POSTGRES_SHARDS,
            proof: "fsync, full_page_writes and synchronous_commit were read back",
            archive: Some(archive),
            file: None,
            ..Self::of(Arc::new(store))
        }
    }

    /// An open file of this node.
    pub(crate) fn sqlite(store: SqliteStore) -> Self {
        let archive: Arc<dyn PartyArchive> = Arc::new(store.clone());
        Self { archive: Some(archive), file: Some(store.clone()), ..Self::of(Arc::new(store)) }
    }

    /// The ports of one object that implements all of them, with the settings of an embedded store.
    fn of<S>(store: Arc<S>) -> Self
    where
        S: ChatLog + Announcements + Upkeep + Chats + LazyStore + Audiences,
        S: People + Contacts + Privacy + Engine + 'static,
    {
        Self {
            name: "sqlite",
            // One thread writes to the file, so more shards would only make smaller batches.
            ingest_shards: 1,
            proof: "journal_mode=wal and synchronous=FULL were set and read back",
            log: Arc::clone(&store) as _,
            announcements: Arc::clone(&store) as _,
            upkeep: Arc::clone(&store) as _,
            chats: Arc::clone(&store) as _,
            lazy: Arc::clone(&store) as _,
            audiences: Arc::clone(&store) as _,
            people: Arc::clone(&store) as _,
            contacts: Arc::clone(&store) as _,
            privacy: Arc::clone(&store) as _,
            archive: None,
            file: None,
            engine: store,
        }
    }

    /// Registers the engine's metrics.
    pub(crate) fn register(&self, registry: &mut Registry) {
        self.engine.register(registry);
    }

    /// The time by the clock of the engine's server; none if it runs in this process.
    pub(crate) async fn now(&self) -> Option<Result<Timestamp, StoreError>> {
        self.engine.now().await
    }

    /// Finishes pending calls and closes the engine.
    pub(crate) async fn close(&self) {
        self.engine.close().await;
    }
}

#[async_trait]
impl Engine for SqliteStore {
    fn register(&self, registry: &mut Registry) {
        self.counters().register(registry);
    }

    async fn now(&self) -> Option<Result<Timestamp, StoreError>> {
        None
    }

    async fn close(&self) {
        Self::close(self).await;
    }
}

#[async_trait]
impl Engine for PostgresStore {
    fn register(&self, registry: &mut Registry) {
        self.counters().register(registry);
    }

    async fn now(&self) -> Option<Result<Timestamp, StoreError>> {
        Some(Self::now(self).await)
    }

    async fn close(&self) {
        Self::close(self).await;
    }
}
