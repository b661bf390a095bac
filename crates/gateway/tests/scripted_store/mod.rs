//! A gateway whose store can be read as far as a test says, and does nothing else: sockets live on
//! without it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use heartline_durability::catch_up::CatchUpParts;
use heartline_durability::ingest::IngestParts;
use heartline_durability::{
    AppendError, Appended, Breaker, BreakerConfig, CatchUp, ChatLog, InProcessBus, Ingest,
    IngestLimits, LazyWrites, LogPage, LogRead, Metrics, NewMessage, Position, Published,
    StoreError, Unpublished,
};
use heartline_durability::{ContactsFull, Edited, Profile, Profiles, Relation, Sight};
use heartline_gateway::auth::{AuthConfig, Authenticator, Keys, Secret};
use heartline_gateway::{ChatPlane, Config, Gateway, Parts};
use heartline_protocol::rest::Visibility;
use heartline_protocol::server_frame::{ManifestChat, Message};
use heartline_protocol::{ChatId, NodeId, Timestamp, UserId};
use heartline_routing::{Clock, Directory, Envelope, LocalLink, MemoryDirectory, NodeLink};
use tokio::sync::mpsc;

/// What the tests' tokens are signed with.
pub(crate) const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

/// A gateway on a store that holds these messages, or, without any, is down; with its link to
/// itself and what arrives by it.
pub(crate) fn gateway(
    config: Config,
    messages: Vec<Message>,
) -> (Arc<Gateway>, Arc<LocalLink>, mpsc::Receiver<Envelope>) {
    let node_id: NodeId = "node-1".parse().unwrap();
    let (link, envelopes) = LocalLink::new(node_id.clone());
    let link = Arc::new(link);
    let keys = Keys::Hmac(vec![Secret::new(SECRET)]);
    let auth = AuthConfig {
        keys,
        issuer: None,
        audience: None,
        leeway: Duration::ZERO,
        nextauth_secret: None,
    };
    let directory = MemoryDirectory::new(config.shards, Clock::system());
    let directory = Directory::new(Arc::new(directory));
    let (gateway, _) = Gateway::new(Parts {
        leases: directory.leases,
        presence: directory.presence,
        config,
        node_id,
        clock: Clock::system(),
        authenticator: Authenticator::new(auth, Clock::system()).unwrap(),
        link: Arc::clone(&link) as Arc<dyn NodeLink>,
        chat: chat_plane(messages),
        profiles: Arc::new(Scripted { messages: Vec::new() }),
        metrics: heartline_gateway::Metrics::default(),
    });
    (Arc::new(gateway), link, envelopes)
}

/// A plane on a store that holds these messages, or, without any, is down.
fn chat_plane(messages: Vec<Message>) -> ChatPlane {
    let metrics = Metrics::default();
    let log: Arc<dyn ChatLog> = Arc::new(Scripted { messages });
    let breaker = |metrics| {
        Arc::new(Breaker::new("store", BreakerConfig::default(), Clock::system(), metrics))
    };
    let (bus, _) = InProcessBus::new();
    let bus = Arc::new(bus);
    let lazy_writes = LazyWrites::new(metrics.clone());
    let (ingest, _) = Ingest::new(IngestParts {
        limits: IngestLimits { per_chat: 1, per_node: 1 },
        shards: 1,
        log: Arc::clone(&log),
        bus: Arc::clone(&bus) as _,
        breaker: breaker(metrics.write_breaker.clone()),
        clock: Clock::system(),
        metrics: metrics.clone(),
    });
    let catch_up = Arc::new(CatchUp::new(CatchUpParts {
        log,
        breaker: breaker(metrics.read_breaker.clone()),
        reads_max: 1,
        lazy_writes: lazy_writes.clone(),
        metrics,
    }));
    ChatPlane { ingest, catch_up, lazy_writes, bus }
}

#[derive(Debug)]
struct Scripted {
    messages: Vec<Message>,
}

fn down<T>() -> Result<T, StoreError> {
    Err(StoreError::rejected("it is down"))
}

#[async_trait]
impl ChatLog for Scripted {
    async fn append(
        &self,
        _: Vec<NewMessage>,
    ) -> Result<Vec<Result<Appended, AppendError>>, StoreError> {
        down()
    }

    async fn read(&self, read: LogRead) -> Result<Option<LogPage>, StoreError> {
        let Some(last) = self.messages.last() else { return down() };
        let Position::After(after) = read.position else { return down() };
        let messages = self.messages.iter().filter(|message| message.sequence > after);
        let messages: Vec<Message> = messages.take(read.limit).cloned().collect();
        let head_sequence = last.sequence;
        Ok(Some(LogPage { messages, has_more: false, head_sequence }))
    }

    async fn manifest(
        &self,
        _: &UserId,
        _: Option<ChatId>,
        _: usize,
    ) -> Result<Vec<ManifestChat>, StoreError> {
        down()
    }

    async fn record_published(&self, _: Vec<Published>) -> Result<(), StoreError> {
        down()
    }

    async fn unpublished(&self, _: Duration, _: usize) -> Result<Vec<Unpublished>, StoreError> {
        down()
    }

    async fn forget(&self, _: Option<Timestamp>, _: usize) -> Result<usize, StoreError> {
        down()
    }

    async fn halted(&self, _: usize) -> Result<Vec<ChatId>, StoreError> {
        down()
    }
}

#[async_trait]
impl Profiles for Scripted {
    async fn profile(&self, _: &UserId) -> Result<Profile, StoreError> {
        down()
    }

    async fn set_display_name(&self, _: &UserId, _: Option<String>) -> Result<Profile, StoreError> {
        down()
    }

    async fn record_last_seen(&self, _: Vec<(UserId, Timestamp)>) -> Result<(), StoreError> {
        down()
    }

    async fn visibility(&self, _: &UserId) -> Result<Option<Visibility>, StoreError> {
        down()
    }

    async fn set_visibility(&self, _: &UserId, _: Visibility) -> Result<bool, StoreError> {
        down()
    }

    async fn contacts(
        &self,
        _: &UserId,
        _: Option<&UserId>,
        _: usize,
    ) -> Result<Vec<UserId>, StoreError> {
        down()
    }

    async fn put_contact(
        &self,
        _: &UserId,
        _: &UserId,
    ) -> Result<Result<bool, ContactsFull>, StoreError> {
        down()
    }

    async fn remove_contact(&self, _: &UserId, _: &UserId) -> Result<bool, StoreError> {
        down()
    }

    async fn relations(&self, _: Vec<Sight>) -> Result<Vec<Relation>, StoreError> {
        down()
    }

    async fn delete_user(&self, _: &UserId) -> Result<Vec<Edited>, StoreError> {
        down()
    }
}
