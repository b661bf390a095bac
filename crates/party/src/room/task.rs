//! One session on one node: the task that owns the node's copy of it.
//!
//! Everything that concerns the session on this node goes through the room, one thing after the
//! other: what its members want, what other nodes have committed, and who listens. What members want
//! is decided on the copy and committed by comparing revisions; if another node was first, the room
//! catches up and decides again.

mod follow;
mod operate;
mod speak;
mod time;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use heartline_protocol::NodeId;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tracing::debug;

use crate::room::listener::{Listener, Speaker, Topic};
use crate::room::rooms::Parts;
use crate::room::store::Revision;
use crate::room::unavailable::Unavailable;
use crate::value::error::PartyError;
use crate::value::log::{EventLog, Replay};
use crate::value::operation::{Actor, Membership, Operation, Outcome};
use crate::value::roster::{Member, MemberId};
use crate::value::session::Session;

/// How long an operation may take, from when it was asked for.
pub(crate) const OPERATION_DEADLINE: Duration = Duration::from_secs(5);

/// How long a room without members and listeners is kept.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// What is asked of a room.
#[derive(Debug)]
pub(crate) enum Request {
    /// Somebody wants something.
    Operate(Box<Wanted>),
    /// A member wants to hear.
    Listen { topic: Topic, actor: Actor, answer: oneshot::Sender<Result<Listener, PartyError>> },
    /// A member wants to hear again what followed a sequence.
    Replay { since: u64, actor: Actor, answer: oneshot::Sender<Result<Replayed, PartyError>> },
    /// Somebody wants to see the session.
    Look { answer: oneshot::Sender<Result<Arc<Session>, PartyError>> },
    /// A commit was told.
    Told { revision: Revision, entry: Option<Bytes> },
    /// Something may have been missed.
    Compare,
    /// A second has passed; these nodes are alive, if that is known. From time to time a session
    /// that is in use must be kept from being cleared away.
    Tick { nodes: Option<Arc<BTreeSet<NodeId>>>, must_keep: bool },
    /// Another node restores the session and asks for copies.
    Offer,
}

/// An operation, and who wants it.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) operation: Operation,
    pub(crate) actor: Option<Actor>,
    pub(crate) correlation_id: Option<String>,
}

/// What is asked for, since when, and who waits for it.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) asked: Asked,
    pub(crate) since: Instant,
    pub(crate) answer: oneshot::Sender<Result<Answer, PartyError>>,
}

impl Wanted {
    /// Whether it is a join whose connection was told that it failed: done now, it would make a
    /// member of a connection that believes to be outside.
    fn is_given_up(&self) -> bool {
        let is_join = matches!(self.asked.operation, Operation::Membership(Membership::Join(_)));
        is_join && self.answer.is_closed()
    }
}

/// What an operation came to, and the session as it was then.
#[derive(Debug, Clone)]
pub struct Answer {
    /// What the caller is told.
    pub outcome: Outcome,
    /// The session afterwards.
    pub session: Arc<Session>,
}

/// What followed a sequence, and the session as it is.
#[derive(Debug, Clone)]
pub struct Replayed {
    /// All events, or none and the state instead.
    pub replay: Replay,
    /// The session.
    pub session: Arc<Session>,
}

/// The task.
#[derive(Debug)]
pub(crate) struct Room {
    parts: Arc<Parts>,
    session: Arc<Session>,
    log: EventLog,
    speakers: Vec<Speaker>,
    /// Members who are here through an open socket of this node, as they were last known.
    attached: BTreeMap<MemberId, Member>,
    requests: mpsc::Receiver<Request>,
    /// What was found in the way while edits were gathered, and is served next.
    held: Option<Request>,
    /// Whether the session has lost members who are here.
    must_reattach: bool,
    /// Whether the store did not answer the last time.
    is_store_silent: bool,
    idle_since: Option<Instant>,
    /// How many of `attached` the metrics count.
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
            session: Arc::new(Session::new(session_id)),
            log,
            speakers: Vec::new(),
            attached: BTreeMap::new(),
            requests,
            held: None,
            must_reattach: false,
            is_store_silent: false,
            idle_since: None,
            counted: 0,
        }
    }

    /// Opens the room and serves it until nobody needs it. Answers what was asked in the last moment,
    /// for the next room.
    pub(crate) async fn run(mut self) -> Vec<Request> {
        let session_id = self.session.id.clone();
        let opened = match self.parts.store.watch.watch(&session_id).await {
            Ok(()) => self.catch_up().await,
            Err(error) => Err(Unavailable::from(error).into()),
        };
        if opened.is_ok() {
            self.serve_all().await;
        }
        // Before the next room can begin to watch.
        self.parts.store.watch.unwatch(&session_id).await;
        self.requests.close();
        if let Err(error) = opened {
            self.refuse_all(&error);
        }
        let mut unheard: Vec<Request> = self.held.take().into_iter().collect();
        while let Ok(request) = self.requests.try_recv() {
            unheard.push(request);
        }
        unheard
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
            Request::Operate(wanted) if wanted.is_given_up() => {
                debug!(session_id = %self.session.id, "nobody waits for a join any more");
            }
            Request::Operate(wanted) => {
                let group = self.gather(*wanted);
                self.operate_all(group).await;
            }
            Request::Listen { topic, actor, answer } => {
                let _ = answer.send(self.listen(topic, &actor));
            }
            Request::Replay { since, actor, answer } => {
                let _ = answer.send(self.replay(since, &actor).await);
            }
            Request::Look { answer } => {
                let _ = answer.send(Ok(Arc::clone(&self.session)));
            }
            Request::Told { revision, entry } => self.told(revision, entry.as_ref()).await,
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

    /// Tells the metrics how many members are here through this node.
    fn count(&mut self) {
        let members = self.attached.len() as i64;
        self.parts.metrics.members.inc_by(members - self.counted);
        self.counted = members;
    }

    fn refuse_all(&mut self, error: &PartyError) {
        while let Ok(request) = self.requests.try_recv() {
            match request {
                Request::Operate(wanted) => drop(wanted.answer.send(Err(error.clone()))),
                Request::Listen { answer, .. } => drop(answer.send(Err(error.clone()))),
                Request::Replay { answer, .. } => drop(answer.send(Err(error.clone()))),
                Request::Look { answer } => drop(answer.send(Err(error.clone()))),
                Request::Told { .. } | Request::Compare | Request::Tick { .. } | Request::Offer => {
                }
            }
        }
    }

    fn is_done(&mut self) -> bool {
        let is_needed = !self.attached.is_empty() || !self.speakers.is_empty();
        if is_needed || self.unheld().next().is_some() {
            self.idle_since = None;
            return false;
        }
        let now = self.parts.clock.now();
        let idle_since = *self.idle_since.get_or_insert(now);
        // What does not exist need not be kept: anybody may ask for any id.
        !self.session.exists() || now - idle_since >= IDLE_MAX
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.parts.metrics.members.dec_by(self.counted);
    }
}
