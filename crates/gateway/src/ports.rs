//! The ports through which the gateway uses the durability plane.
//!
//! The gateway knows nothing of a store, a breaker or a shard. [`local`] implements the ports with
//! the durability plane of the same process. An implementation that calls another node must keep
//! the same contracts: it carries each deadline to that node, sends the calls of one chat over one
//! ordered stream to one node, and repeats a call on another node only if the call never left this
//! one.

pub mod local;

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use heartline_durability::catch_up::Manifest;
use heartline_durability::{
    LogPage, LogRead, NewMessage, ReadRefusal, Receipt, Relation, SendError, Sight,
};
use heartline_protocol::server_frame::Message;
use heartline_protocol::{ChatId, Timestamp, UserId};
use tokio::time::Instant;

/// The durability plane as the gateway uses it. Clones share it.
#[derive(Debug, Clone)]
pub struct DurabilityPorts {
    /// Stores messages.
    pub sends: Arc<dyn Sends>,
    /// Reads messages and chats.
    pub reads: Arc<dyn Reads>,
    /// Records watermarks and last-seen times.
    pub records: Arc<dyn Records>,
    /// Reads the relations that decide whether one user may see another.
    pub relations: Arc<dyn Relations>,
}

/// The result of a send, once it is known.
pub type SendOutcome = BoxFuture<'static, Result<Receipt, SendError>>;

/// Stores messages.
pub trait Sends: Send + Sync + Debug {
    /// Submits a message and returns its pending outcome.
    ///
    /// - **Order.** Messages of one chat that are submitted one after the other are stored in this
    ///   order. The call itself takes the message's place in the order and does not wait.
    /// - **Deadline.** The outcome is ready at the deadline at the latest.
    /// - **Durable.** A [`Receipt`] stands for a committed write and for nothing else.
    /// - **Known failure.** An error with [`Outcome::Rejected`](heartline_protocol::Outcome) means
    ///   that the message is not stored and will not be. If that is not certain, for example after
    ///   the call left this node and its answer did not come, the error says `Unknown`.
    /// - **No cancellation.** Dropping the outcome leaves the message on its way.
    ///
    /// # Errors
    /// The message was refused before it took its place.
    fn submit(&self, message: NewMessage, deadline: Instant) -> Result<SendOutcome, SendError>;
}

/// Reads messages and chats. Every call ends at its deadline at the latest, and dropping it cancels
/// it.
#[async_trait]
pub trait Reads: Send + Sync + Debug {
    /// Reads a page of a chat. The reads of clients are limited in number; over the limit the call
    /// is refused at once with [`ReadRefusal::Busy`].
    async fn page(&self, read: LogRead, deadline: Instant) -> Result<LogPage, ReadRefusal>;

    /// Reads a page of a user's chats, under the same limit. `page` is the `next_page` of the page
    /// before. The watermarks in it may be behind those given to [`Records`], by at most the
    /// interval in which they are written.
    async fn manifest(
        &self,
        user_id: &UserId,
        page: Option<&str>,
        deadline: Instant,
    ) -> Result<Manifest, ReadRefusal>;

    /// Reads the messages `first` to `last` of a chat for the server itself, outside of the limit.
    /// `None` unless every one of them was read.
    async fn hole(
        &self,
        chat_id: ChatId,
        first: u64,
        last: u64,
        deadline: Instant,
    ) -> Option<Vec<Message>>;
}

/// Records facts that only rise and that the client or the directory repeats. The calls return at
/// once and never fail; an implementation holds a bounded number of facts in memory, writes them
/// within seconds, and drops new ones while it is full.
pub trait Records: Send + Sync + Debug {
    /// Records that a user has acknowledged a chat up to this sequence.
    fn acknowledged(&self, user_id: &UserId, chat_id: ChatId, sequence: u64);

    /// Records that a user's last connection ended at this time.
    fn left(&self, user_id: &UserId, at: Timestamp);
}

/// Reads the relations that decide whether one user may see another.
#[async_trait]
pub trait Relations: Send + Sync + Debug {
    /// Reads one relation per sight, in order. The result reflects every privacy change that was
    /// committed before the call. A user who does not exist has an empty relation, and reading
    /// creates nothing.
    ///
    /// # Errors
    /// The relations could not be read before the deadline. The caller then shows nothing.
    async fn relations(
        &self,
        sights: Vec<Sight>,
        deadline: Instant,
    ) -> Result<Vec<Relation>, RelationsError>;
}

/// Why relations could not be read.
#[derive(Debug, thiserror::Error)]
pub enum RelationsError {
    /// There was no answer before the deadline.
    #[error("no answer before the deadline")]
    Deadline,
    /// The store, or the connection to it, failed.
    #[error("the store failed")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
}
