//! Party sessions of a node: their rooms, where they are kept, and GraphQL for their sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use heartline_adapters::redis::{RedisClient, RedisPartyConfig, RedisPartyStore};
use heartline_adapters::sqlite::{SqliteConfig, SqlitePartyStore, SqliteStore};
use heartline_gateway::graphql::{GraphQl, GraphQlCaller};
use heartline_party::{
    Caller, Limits, LogLimits, Party, PartyConfig, PartyParts, PartyRates, PartySocket, PartyStore,
    Rooms,
};
use heartline_protocol::graphql::{GraphQlRequest, Reply};
use heartline_protocol::{NodeId, UserId};
use heartline_rest::PartyApi;
use heartline_routing::rate::Rate;
use heartline_runtime::{Clock, Random};
use prometheus_client::registry::Registry;

use crate::config::{self, Config};
use crate::patience::retry_while_down;
use crate::store::Store;

/// The file for the party sessions of a single node that stores its messages in PostgreSQL.
const PARTY_FILE: &str = "sqlite:party.db";

/// The assembled party plane; its background tasks are not started.
#[derive(Debug, Clone)]
pub(crate) struct PartyPlane {
    pub(crate) rooms: Rooms,
    party: Party,
    /// The archive of sessions, if it is not the store of messages.
    archive: Option<Store>,
    /// HTTP requests per address and second.
    query_rate: u32,
}

impl PartyPlane {
    /// Assembles the party plane: on Redis if nodes share sessions, else in the node's own file.
    pub(crate) async fn new(
        config: &Config,
        store: &Store,
        redis: Option<RedisClient>,
        node_id: NodeId,
        (clock, random): (Clock, Random),
        registry: &mut Registry,
    ) -> Result<Self> {
        let party_store = party_store(config, store, redis, clock, random).await?;
        let party = &config.party;
        let settings = PartyConfig {
            limits: Limits {
                queue_items_max: party.max_queue,
                resume_grace_ms: party.resume_grace.as_millis() as u64,
                ..Limits::default()
            },
            log: LogLimits { events_max: party.event_log_size, ..LogLimits::default() },
            archive_debounce: party.archive_debounce,
            auto_end: party.auto_end,
            subscription_queue: party.subscription_queue,
        };
        let elsewhere = Store::open_archive(config, clock, random).await?;
        let archive = elsewhere.as_ref().unwrap_or(store).archive.clone();
        let archive = archive.context("the store has no archive for party sessions")?;
        let rooms = Rooms::new(PartyParts {
            store: party_store,
            archive,
            node_id,
            config: settings,
            clock,
            random,
        });
        rooms.register(registry);
        let query_rate = party.query_rate;
        let party = Party::new(rooms.clone(), rates(party));
        Ok(Self { rooms, party, archive: elsewhere, query_rate })
    }

    /// Leaves every session once all sockets are closed, and closes the archive.
    pub(crate) async fn close(&self) {
        self.rooms.close().await;
        if let Some(archive) = &self.archive {
            archive.close().await;
        }
    }

    /// The party's part of the REST API.
    pub(crate) fn parts(&self) -> PartyApi {
        let Self { rooms, party, query_rate, .. } = self;
        PartyApi { party: party.clone(), rooms: rooms.clone(), query_rate: *query_rate }
    }

    /// The GraphQL service for sockets.
    pub(crate) fn graphql(&self) -> Arc<dyn GraphQl> {
        Arc::new(Sockets { party: self.party.clone(), count: AtomicU64::new(0) })
    }
}

fn rates(party: &config::Party) -> PartyRates {
    PartyRates {
        edits: Rate::per_second(party.edit_rate, party.edit_rate * 2),
        joins: Rate::per_minute(party.join_rate),
        ..PartyRates::default()
    }
}

/// Opens the store of active sessions.
async fn party_store(
    config: &Config,
    store: &Store,
    redis: Option<RedisClient>,
    clock: Clock,
    random: Random,
) -> Result<PartyStore> {
    let session_ttl = config.party.session_ttl;
    if let Some(client) = redis {
        let settings = RedisPartyConfig { session_ttl, event_log_ttl: config.party.event_log_ttl };
        let store =
            retry_while_down(clock, || RedisPartyStore::connect(client.clone(), settings, clock));
        return Ok(PartyStore::shared(Arc::new(store.await?)));
    }
    let file = match &store.file {
        Some(file) => file.clone(),
        None => {
            let file = SqliteConfig::from_url(PARTY_FILE, &config.server.data_dir)?;
            SqliteStore::open(&file, clock, random).context("the file of party sessions")?
        }
    };
    let store = SqlitePartyStore::open(&file, session_ttl).await;
    Ok(PartyStore::of_one_node(Arc::new(store)))
}

/// Assigns a number to every socket and connects it to the party plane.
#[derive(Debug)]
struct Sockets {
    party: Party,
    count: AtomicU64,
}

#[derive(Debug)]
struct Socket {
    party: Party,
    socket: Arc<PartySocket>,
}

impl GraphQl for Sockets {
    fn open(&self, account: Option<UserId>) -> Arc<dyn GraphQlCaller> {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let socket = self.party.open(account, number);
        Arc::new(Socket { party: self.party.clone(), socket })
    }
}

impl GraphQlCaller for Socket {
    fn run(&self, request: GraphQlRequest) -> BoxStream<'static, Reply> {
        self.party.run(Caller::Socket(Arc::clone(&self.socket)), request)
    }

    fn close(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move { self.socket.close().await })
    }
}
