//! One session on one node: the task that owns the node's copy of it.
//!
//! The room serves one request after the other: operations of members, commits of other nodes, and
//! subscriptions. For an operation, the room decides on its copy and commits by comparing
//! revisions; if another node committed first, the room catches up and decides again.

mod catch_up;
mod operate;
mod publish;
mod tick;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use heartline_protocol::NodeId;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tracing::debug;

use crate::room::listener::{Listener, Publisher, Topic};
use crate::room::parts::Parts;
use crate::room::store::Revision;
use crate::room::unavailable::Unavailable;
use crate::value::error::PartyError;
use crate::value::log::{EventLog, Replay};
use crate::value::operation::{Actor, Membership, Operation, Outcome};
use crate::value::roster::{Member, MemberId};
use crate::value::session::PartySession;

/// The deadline of an operation, counted from its request.
pub(crate) const OPERATION_DEADLINE: Duration = Duration::from_secs(5);

/// The time after which a room without members and listeners ends.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// A request to a room.
#[derive(Debug)]
pub(crate) enum Request {
    /// Perform an operation.
    Operate(Box<PendingOperation>),
    /// Subscribe a member.
    Listen { topic: Topic, actor: Actor, reply: oneshot::Sender<Result<Listener, PartyError>> },
    /// Replay the events after a sequence to a member.
    Replay { since: u64, actor: Actor, reply: oneshot::Sender<Result<Replayed, PartyError>> },
    /// Read the session.
    Read { reply: oneshot::Sender<Result<Arc<PartySession>, PartyError>> },
    /// The store reported a commit.
    Committed { revision: Revision, entry: Option<Bytes> },
    /// Compare the copy with the store, because notices may be missing.
    Compare,
    /// A second has passed. `nodes` are alive, if that is known; with `must_keep` the room extends
    /// the lifetime of a session that is in use.
    Tick { nodes: Option<Arc<BTreeSet<NodeId>>>, must_keep: bool },
    /// Offer the copy to the node that is restoring the session.
    Offer,
}

/// An operation and its caller.
#[derive(Debug)]
pub(crate) struct OperationRequest {
    pub(crate) operation: Operation,
    pub(crate) actor: Option<Actor>,
    pub(crate) correlation_id: Option<String>,
}

/// An operation that waits in a room, with the channel for its result.
#[derive(Debug)]
pub(crate) struct PendingOperation {
    pub(crate) request: OperationRequest,
    pub(crate) since: Instant,
    pub(crate) reply: oneshot::Sender<Result<Completed, PartyError>>,
}

impl PendingOperation {
    /// Whether this is a join whose connection has already received an error. If it were
    /// performed now, the connection would be a member without knowing it.
    fn is_given_up(&self) -> bool {
        let is_join = matches!(self.request.operation, Operation::Membership(Membership::Join(_)));
        is_join && self.reply.is_closed()
    }
}

/// The result of an operation that was performed.
#[derive(Debug, Clone)]
pub struct Completed {
    /// The result for the caller.
    pub outcome: Outcome,
    /// The session after the operation.
    pub session: Arc<PartySession>,
}

/// The events after a sequence, and the present session.
#[derive(Debug, Clone)]
pub struct Replayed {
    /// All events, or the instruction to send the whole state instead.
    pub replay: Replay,
    /// The present session.
    pub session: Arc<PartySession>,
}

/// The task of one session.
#[derive(Debug)]
pub(crate) struct Room {
    parts: Arc<Parts>,
    session: Arc<PartySession>,
    log: EventLog,
    publishers: Vec<Publisher>,
    /// Members with an open socket on this node, as last read.
    attached: BTreeMap<MemberId, Member>,
    requests: mpsc::Receiver<Request>,
    /// The request that ended the collection of edits, and is served next.
    held: Option<Request>,
    /// Whether the session lacks members whose sockets are open on this node.
    must_reattach: bool,
    /// Whether the last call to the store failed.
    is_store_failing: bool,
    idle_since: Option<Instant>,
    /// The number of attached members that the gauge includes.
    counted: i64,
}

impl Room {
    pub(crate) fn new(
        parts: Arc<Parts>,
        session_id: String,
        requests: mpsc::Receiver<Request>,
    ) -> Self {
        let log = EventLog::new(parts.config.log);
        Self {
            parts,
            session: Arc::new(PartySession::new(session_id)),
            log,
            publishers: Vec::new(),
            attached: BTreeMap::new(),
            requests,
            held: None,
            must_reattach: false,
            is_store_failing: false,
            idle_since: None,
            counted: 0,
        }
    }

    /// Opens the room and serves requests until it is unused. Returns the requests that it did
    /// not serve, for the next room.
    pub(crate) async fn run(mut self) -> Vec<Request> {
        let session_id = self.session.id.clone();
        let opened = match self.parts.store.watch.watch(&session_id).await {
            Ok(()) => self.catch_up().await,
            Err(error) => Err(Unavailable::from(error).into()),
        };
        if opened.is_ok() {
            self.serve_all().await;
        }
        // Unwatch before the next room watches: otherwise this would end the watch of that room.
        self.parts.store.watch.unwatch(&session_id).await;
        self.requests.close();
        if let Err(error) = opened {
            self.refuse_all(&error);
        }
        let mut unserved: Vec<Request> = self.held.take().into_iter().collect();
        while let Ok(request) = self.requests.try_recv() {
            unserved.push(request);
        }
        unserved
    }

    async fn serve_all(&mut self) {
        while let Some(request) = self.next_request().await {
            self.serve(request).await;
            if self.must_reattach {
                self.reattach_all().await;
            }
            self.count();
            if self.held.is_none() && self.is_done() {
                return;
            }
        }
    }

    async fn next_request(&mut self) -> Option<Request> {
        match self.held.take() {
            Some(request) => Some(request),
            None => self.requests.recv().await,
        }
    }

    async fn serve(&mut self, request: Request) {
        match request {
            Request::Operate(pending) if pending.is_given_up() => {
                debug!(session_id = %self.session.id, "join dropped: its caller gave up");
            }
            Request::Operate(pending) => {
                let group = self.gather(*pending);
                self.operate_all(group).await;
            }
            Request::Listen { topic, actor, reply } => {
                let _ = reply.send(self.listen(topic, &actor));
            }
            Request::Replay { since, actor, reply } => {
                let _ = reply.send(self.replay(since, &actor).await);
            }
            Request::Read { reply } => {
                let _ = reply.send(Ok(Arc::clone(&self.session)));
            }
            Request::Committed { revision, entry } => {
                self.on_commit(revision, entry.as_ref()).await
            }
            Request::Compare => self.compare().await,
            Request::Tick { nodes, must_keep } => {
                if must_keep && !self.attached.is_empty() {
                    self.keep().await;
                }
                self.tick(nodes.as_deref()).await;
            }
            Request::Offer => self.offer().await,
        }
    }

    /// Updates the gauge of members on this node.
    fn count(&mut self) {
        let members = self.attached.len() as i64;
        self.parts.metrics.members.inc_by(members - self.counted);
        self.counted = members;
    }

    fn refuse_all(&mut self, error: &PartyError) {
        while let Ok(request) = self.requests.try_recv() {
            match request {
                Request::Operate(pending) => drop(pending.reply.send(Err(error.clone()))),
                Request::Listen { reply, .. } => drop(reply.send(Err(error.clone()))),
                Request::Replay { reply, .. } => drop(reply.send(Err(error.clone()))),
                Request::Read { reply } => drop(reply.send(Err(error.clone()))),
                Request::Committed { .. }
                | Request::Compare
                | Request::Tick { .. }
                | Request::Offer => {}
            }
        }
    }

    fn is_done(&mut self) -> bool {
        let is_needed = !self.attached.is_empty() || !self.publishers.is_empty();
        if is_needed || self.unheld().next().is_some() {
            self.idle_since = None;
            return false;
        }
        let now = self.parts.clock.now();
        let idle_since = *self.idle_since.get_or_insert(now);
        // A room of a session that does not exist ends at once: clients may name any id.
        !self.session.exists() || now - idle_since >= IDLE_MAX
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.parts.metrics.members.dec_by(self.counted);
    }
}
