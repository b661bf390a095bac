//! Which store a node keeps everything in.

use std::sync::Arc;

use anyhow::{Context, Result};
use heartline_adapters::postgres::{PostgresConfig, PostgresStore};
use heartline_adapters::sqlite::{SqliteConfig, SqliteStore};
use heartline_durability::{ChatLog, Members, Profiles, Repair, StoreError};
use heartline_party::PartyArchive;
use heartline_protocol::ChatId;
use heartline_routing::Clock;
use prometheus_client::registry::Registry;

use crate::config::{Config, is_postgres};

/// Batches of messages that are stored in PostgreSQL at the same time: enough to keep it busy
/// while others wait for their commit, few enough for batches to be large.
const POSTGRES_SHARDS: usize = 4;

/// An open store of either kind. Clones share it.
#[derive(Debug, Clone)]
pub(crate) enum Store {
    /// A file of this node alone.
    Sqlite(SqliteStore),
    /// A database that nodes share.
    Postgres(PostgresStore),
}

impl Store {
    /// Opens what the configuration names.
    pub(crate) async fn open(config: &Config, clock: Clock) -> Result<Self> {
        Self::open_at(&config.store.url, config, clock).await.context("store.url")
    }

    /// Opens where party sessions are kept for good, if that is elsewhere.
    pub(crate) async fn open_archive(config: &Config, clock: Clock) -> Result<Option<Self>> {
        let elsewhere = config.party.archive_url.as_deref().filter(|url| *url != config.store.url);
        let Some(url) = elsewhere else { return Ok(None) };
        Ok(Some(Self::open_at(url, config, clock).await.context("party.archive_url")?))
    }

    async fn open_at(url: &str, config: &Config, clock: Clock) -> Result<Self> {
        let store = &config.store;
        if is_postgres(url) {
            let mut postgres = PostgresConfig::from_url(url)?;
            postgres.allow_unsafe = store.allow_unsafe;
            return Ok(Self::Postgres(PostgresStore::open(&postgres, clock).await?));
        }
        let mut sqlite = SqliteConfig::from_url(url, &config.server.data_dir)?;
        sqlite.disk_reserve_bytes = store.disk_reserve;
        sqlite.allow_unsafe = store.allow_unsafe;
        Ok(Self::Sqlite(SqliteStore::open(&sqlite, clock)?))
    }

    /// The engine's name, as metrics label it.
    pub(crate) fn engine(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "sqlite",
            Self::Postgres(_) => "postgres",
        }
    }

    /// How many batches may be stored at the same time.
    pub(crate) fn ingest_shards(&self) -> usize {
        match self {
            // One thread writes to the file, so more shards would only make smaller batches.
            Self::Sqlite(_) => 1,
            Self::Postgres(_) => POSTGRES_SHARDS,
        }
    }

    /// Registers what the engine counts.
    pub(crate) fn register(&self, registry: &mut Registry) {
        match self {
            Self::Sqlite(store) => store.counters().register(registry),
            Self::Postgres(store) => store.counters().register(registry),
        }
    }

    /// Messages.
    pub(crate) fn log(&self) -> Arc<dyn ChatLog> {
        match self {
            Self::Sqlite(store) => Arc::new(store.clone()),
            Self::Postgres(store) => Arc::new(store.clone()),
        }
    }

    /// Chats and who belongs to them.
    pub(crate) fn members(&self) -> Arc<dyn Members> {
        match self {
            Self::Sqlite(store) => Arc::new(store.clone()),
            Self::Postgres(store) => Arc::new(store.clone()),
        }
    }

    /// People.
    pub(crate) fn profiles(&self) -> Arc<dyn Profiles> {
        match self {
            Self::Sqlite(store) => Arc::new(store.clone()),
            Self::Postgres(store) => Arc::new(store.clone()),
        }
    }

    /// Party sessions that are kept for good.
    pub(crate) fn archive(&self) -> Arc<dyn PartyArchive> {
        match self {
            Self::Sqlite(store) => Arc::new(store.clone()),
            Self::Postgres(store) => Arc::new(store.clone()),
        }
    }

    /// Sets a halted chat's counter to exactly its newest number and lifts the halt.
    pub(crate) async fn repair_counter(&self, chat_id: ChatId) -> Result<Repair, StoreError> {
        match self {
            Self::Sqlite(store) => store.repair_counter(chat_id).await,
            Self::Postgres(store) => store.repair_counter(chat_id).await,
        }
    }

    /// Finishes what it was asked for and closes in order.
    pub(crate) async fn close(&self) {
        match self {
            Self::Sqlite(store) => store.close().await,
            Self::Postgres(store) => store.close().await,
        }
    }
}
