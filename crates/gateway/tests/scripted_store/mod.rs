//! A gateway whose store only reads as many messages as a test sets; connections work without it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use heartline_auth::{AuthConfig, Authenticator, Keys, Secret};
use heartline_durability::catch_up::Manifest;
use heartline_durability::{LogPage, LogRead, NewMessage, ReadRefusal, Relation, SendError, Sight};
use heartline_gateway::ports::{Reads, Records, Relations, RelationsError, SendOutcome, Sends};
use heartline_gateway::{Config, DurabilityPorts, Gateway, Metrics, Parts, TypingNotices};
use heartline_protocol::server_frame::Message;
use heartline_protocol::{ChatId, NodeId, Outcome, Timestamp, UserId};
use heartline_routing::{Directory, Envelope, LocalLink, MemoryDirectory, NodeLink};
use heartline_runtime::Clock;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// The secret of the tests' tokens.
pub(crate) const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// A gateway on a store that holds these messages, or, without any, is down; with its link to
/// itself and the envelopes that arrive.
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
        random: heartline_runtime::Random::system(),
        authenticator: Authenticator::new(auth, Clock::system()).unwrap(),
        link: Arc::clone(&link) as Arc<dyn NodeLink>,
        durability: ports(messages),
        typing: Arc::new(Scripted { messages: Vec::new() }),
        metrics: Metrics::default(),
    });
    (Arc::new(gateway), link, envelopes)
}

/// A durability plane that holds these messages, or, without any, is down. Only holes can be read.
#[derive(Debug)]
struct Scripted {
    messages: Vec<Message>,
}

fn ports(messages: Vec<Message>) -> DurabilityPorts {
    let scripted = Arc::new(Scripted { messages });
    DurabilityPorts {
        sends: Arc::clone(&scripted) as _,
        reads: Arc::clone(&scripted) as _,
        records: Arc::clone(&scripted) as _,
        relations: scripted,
    }
}

fn down() -> ReadRefusal {
    ReadRefusal::Unavailable { retry_after: Duration::from_secs(1) }
}

impl TypingNotices for Scripted {
    fn typing(&self, _: ChatId, _: UserId, _: bool) -> bool {
        false
    }
}

impl Sends for Scripted {
    fn submit(&self, _: NewMessage, _: Instant) -> Result<SendOutcome, SendError> {
        Err(SendError::Unavailable { outcome: Outcome::Rejected })
    }
}

#[async_trait]
impl Reads for Scripted {
    async fn page(&self, _: LogRead, _: Instant) -> Result<LogPage, ReadRefusal> {
        Err(down())
    }

    async fn manifest(
        &self,
        _: &UserId,
        _: Option<&str>,
        _: Instant,
    ) -> Result<Manifest, ReadRefusal> {
        Err(down())
    }

    async fn hole(&self, _: ChatId, first: u64, last: u64, _: Instant) -> Option<Vec<Message>> {
        let hole = self.messages.iter().filter(|m| (first..=last).contains(&m.sequence));
        let hole: Vec<Message> = hole.cloned().collect();
        (hole.len() as u64 == last - first + 1).then_some(hole)
    }
}

impl Records for Scripted {
    fn acknowledged(&self, _: &UserId, _: ChatId, _: u64) {}

    fn left(&self, _: &UserId, _: Timestamp) {}
}

#[async_trait]
impl Relations for Scripted {
    async fn relations(&self, _: Vec<Sight>, _: Instant) -> Result<Vec<Relation>, RelationsError> {
        Err(RelationsError::Deadline)
    }
}
