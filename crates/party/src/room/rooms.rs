//! The sessions of this node, each with its own room.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use heartline_protocol::NodeId;
use heartline_routing::Nodes;
use heartline_runtime::{Clock, Random, Tasks};
use prometheus_client::registry::Registry;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};
use tracing::{debug, info, warn};

use crate::room::archive::PartyArchive;
use crate::room::listener::{Listener, Topic};
use crate::room::live_nodes::LiveNodes;
use crate::room::parts::{Parts, PartyParts};
use crate::room::store::Notice;
use crate::room::task::{
    Completed, OPERATION_DEADLINE, OperationRequest, PendingOperation, Replayed, Request, Room,
};
use crate::room::unavailable::Unavailable;
use crate::value::error::PartyError;
use crate::value::limits::Limits;
use crate::value::operation::{Actor, Lifecycle, Membership, Operation};
use crate::value::session::PartySession;

/// The most requests that wait in one room.
const ROOM_REQUESTS_MAX: usize = 1024;

/// The most rooms of a node.
const ROOMS_MAX: usize = 100_000;

/// The interval between ticks of the rooms.
const TICK: Duration = Duration::from_secs(1);

/// Ticks between comparisons of all sessions with the store.
const COMPARE_TICKS: u64 = 5;

/// Ticks between extensions of the lifetime of sessions with members.
const KEEP_TICKS: u64 = 60;

/// The interval between checks of the sessions whose last sign of life is oldest, and their number:
/// their nodes may have died without any other node that watches them.
const SILENT_INTERVAL: Duration = Duration::from_secs(10);
const SILENT_CHECKED: usize = 16;

/// The interval between searches for unused sessions to end, and how many are ended each time.
const END_INTERVAL: Duration = Duration::from_secs(300);
const ENDED_AT_ONCE: usize = 50;

/// Concurrent operations that remove this node's members at shutdown, and their deadline.
const PARTINGS: usize = 64;
const PARTING_DEADLINE: Duration = Duration::from_secs(5);

/// The deadline of the last write to the archive.
const FLUSH_DEADLINE: Duration = Duration::from_secs(5);

/// All rooms. Clones share them.
#[derive(Debug, Clone)]
pub struct Rooms(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    parts: Arc<Parts>,
    rooms: Mutex<BTreeMap<String, mpsc::Sender<Request>>>,
    /// Whether changes are rejected because the node is shutting down.
    is_leaving: AtomicBool,
}

impl Rooms {
    /// A node without rooms.
    pub fn new(parts: PartyParts) -> Self {
        let is_leaving = AtomicBool::new(false);
        let parts = Arc::new(Parts::new(parts));
        Self(Arc::new(Inner { parts, rooms: Mutex::default(), is_leaving }))
    }

    /// Registers the metrics of party sessions.
    pub fn register(&self, registry: &mut Registry) {
        self.0.parts.metrics.register(registry, self.0.parts.tasks.panics());
    }

    /// The clocks of this node.
    pub(crate) fn clock(&self) -> Clock {
        self.0.parts.clock
    }

    /// The random source of this node.
    pub(crate) fn random(&self) -> Random {
        self.0.parts.random
    }

    /// The owner of tasks that must be finished although their caller may give up.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.0.parts.tasks
    }

    /// This node.
    pub fn node_id(&self) -> &NodeId {
        &self.0.parts.node_id
    }

    /// The bounds of a session.
    pub fn limits(&self) -> &Limits {
        &self.0.parts.config.limits
    }

    /// The archive, for searches.
    pub fn archive(&self) -> &dyn PartyArchive {
        &*self.0.parts.archive
    }

    /// Stop 7 of the life of a party edit: queued for its room. Performs an operation.
    ///
    /// # Errors
    /// The operation was rejected, or not confirmed in time; in that case it may have been applied.
    pub async fn operate(
        &self,
        session_id: &str,
        operation: Operation,
        actor: Option<Actor>,
        correlation_id: Option<String>,
    ) -> Result<Completed, PartyError> {
        if self.0.is_leaving.load(Ordering::Relaxed) && !is_parting(&operation) {
            return Err(Unavailable::ShuttingDown.into());
        }
        tracing::trace!(target: "heartline::life", party_stop = 7, "queued");
        let since = self.0.parts.clock.now();
        self.request(session_id, |reply| {
            let request = OperationRequest { operation, actor, correlation_id };
            Request::Operate(Box::new(PendingOperation { request, since, reply }))
        })
        .await
    }

    /// Subscribes a member: first a snapshot, then every later event.
    ///
    /// # Errors
    /// The actor is not a member on this socket.
    pub async fn listen(
        &self,
        session_id: &str,
        topic: Topic,
        actor: Actor,
    ) -> Result<Listener, PartyError> {
        self.request(session_id, |reply| Request::Listen { topic, actor, reply }).await
    }

    /// The events after a sequence.
    ///
    /// # Errors
    /// The actor is not a member on this socket.
    pub async fn replay(
        &self,
        session_id: &str,
        since: u64,
        actor: Actor,
    ) -> Result<Replayed, PartyError> {
        self.request(session_id, |reply| Request::Replay { since, actor, reply }).await
    }

    /// Reads a session. The session may be one that does not exist.
    ///
    /// # Errors
    /// The session could not be read.
    pub async fn read(&self, session_id: &str) -> Result<Arc<PartySession>, PartyError> {
        self.request(session_id, |reply| Request::Read { reply }).await
    }

    /// Sends a request to the room of a session and awaits its reply.
    async fn request<T>(
        &self,
        session_id: &str,
        request: impl FnOnce(oneshot::Sender<Result<T, PartyError>>) -> Request,
    ) -> Result<T, PartyError> {
        let (sender, reply) = oneshot::channel();
        let mut request = request(sender);
        loop {
            let room = self.room(session_id)?;
            match room.try_send(request) {
                Ok(()) => break,
                Err(mpsc::error::TrySendError::Full(_)) => {
                    return Err(Unavailable::Overloaded.into());
                }
                // The room has ended: the next attempt opens a new one.
                Err(mpsc::error::TrySendError::Closed(unserved)) => {
                    self.forget(session_id, &room);
                    request = unserved;
                }
            }
        }
        match timeout(OPERATION_DEADLINE * 2, reply).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(Unavailable::RoomClosed.into()),
            Err(_) => Err(Unavailable::RoomTimeout.into()),
        }
    }

    fn room(&self, session_id: &str) -> Result<mpsc::Sender<Request>, PartyError> {
        let mut rooms = self.lock();
        if let Some(room) = rooms.get(session_id) {
            return Ok(room.clone());
        }
        if rooms.len() >= ROOMS_MAX {
            return Err(Unavailable::Overloaded.into());
        }
        let (sender, requests) = mpsc::channel(ROOM_REQUESTS_MAX);
        let room = Room::new(Arc::clone(&self.0.parts), session_id.to_owned(), requests);
        let (all, id) = (self.clone(), session_id.to_owned());
        let serving = async move { all.pass_on(&id, room.run().await) };
        // A room that panics drops its requests; the next request opens a new room.
        drop(self.0.parts.tasks.spawn("party room", serving));
        rooms.insert(session_id.to_owned(), sender.clone());
        Ok(sender)
    }

    /// Passes the requests that a room did not serve to the next room.
    fn pass_on(&self, session_id: &str, unserved: Vec<Request>) {
        let mut rooms = self.lock();
        if rooms.get(session_id).is_some_and(mpsc::Sender::is_closed) {
            rooms.remove(session_id);
        }
        drop(rooms);
        for request in unserved {
            // Without a room the request is dropped, and its caller gets an error.
            if let Ok(room) = self.room(session_id) {
                let _ = room.try_send(request);
            }
        }
    }

    fn forget(&self, session_id: &str, room: &mpsc::Sender<Request>) {
        let mut rooms = self.lock();
        if rooms.get(session_id).is_some_and(|held| held.same_channel(room)) {
            rooms.remove(session_id);
        }
    }

    /// Runs the background work of all rooms, for ever: notices, ticks, checks and the archive.
    pub async fn run(self, nodes: Arc<dyn Nodes>) {
        let mut notices = self.0.parts.store.watch.notices();
        let following = async {
            loop {
                match notices.recv().await {
                    Ok(notice) => self.on_notice(notice),
                    Err(broadcast::error::RecvError::Lagged(_)) => self.on_notice(Notice::Gap),
                    Err(broadcast::error::RecvError::Closed) => return,
                }
            }
        };
        let ticking = async {
            let (mut ticks, mut live_nodes) = (ticks_of(TICK), LiveNodes::default());
            for tick in 0_u64.. {
                ticks.tick().await;
                self.tick(tick, &*nodes, &mut live_nodes).await;
            }
        };
        // These checks may take long, so they run beside the ticks and do not delay them.
        let checking = async {
            let mut ticks = ticks_of(SILENT_INTERVAL);
            loop {
                ticks.tick().await;
                self.check_silent().await;
            }
        };
        let ending = async {
            let mut ticks = ticks_of(END_INTERVAL);
            loop {
                ticks.tick().await;
                self.end_idle().await;
            }
        };
        tokio::join!(following, ticking, checking, ending, self.0.parts.archivist.run());
    }

    pub(crate) fn on_notice(&self, notice: Notice) {
        match notice {
            Notice::Committed { session_id, revision, entry } => {
                self.notify(&session_id, Request::Committed { revision, entry });
            }
            Notice::Wanted { session_id } => self.notify(&session_id, Request::Offer),
            Notice::Gap => {
                let session_ids: Vec<String> = self.lock().keys().cloned().collect();
                session_ids.iter().for_each(|session_id| self.notify(session_id, Request::Compare));
            }
        }
    }

    /// Sends a room a request that may be lost, because comparing with the store makes up for it.
    /// Half of the queue is reserved for requests of members: otherwise a node that resumes after a
    /// pause would reject them while it processes the notices of that pause.
    fn notify(&self, session_id: &str, request: Request) {
        let Some(room) = self.lock().get(session_id).cloned() else { return };
        let has_capacity = room.capacity() > ROOM_REQUESTS_MAX / 2;
        let is_closed = match has_capacity.then(|| room.try_send(request)) {
            Some(Err(mpsc::error::TrySendError::Closed(_))) => true,
            Some(_) => false,
            None => room.is_closed(),
        };
        if is_closed {
            self.forget(session_id, &room);
        }
    }

    async fn tick(&self, tick: u64, nodes: &dyn Nodes, live_nodes: &mut LiveNodes) {
        let session_ids: Vec<String> = self.lock().keys().cloned().collect();
        self.0.parts.metrics.sessions.set(session_ids.len() as i64);
        let named = match nodes.nodes().await {
            Ok(named) if nodes.silence().is_zero() => Some(named),
            // The list may be incomplete, so no node is taken for dead.
            Ok(_) | Err(_) => None,
        };
        let nodes = live_nodes.update(named, self.0.parts.clock.now());
        let must_keep = tick.is_multiple_of(KEEP_TICKS);
        for session_id in &session_ids {
            self.notify(session_id, Request::Tick { nodes: nodes.clone(), must_keep });
        }
        if tick.is_multiple_of(COMPARE_TICKS) {
            self.0.parts.read_time().await;
            session_ids.iter().for_each(|session_id| self.notify(session_id, Request::Compare));
        }
    }

    /// Opens the rooms of the sessions whose last sign of life is oldest. Each room then checks
    /// whether the nodes of its members are alive.
    async fn check_silent(&self) {
        let silent = match self.0.parts.store.activity.active(SILENT_CHECKED).await {
            Ok(silent) => silent,
            Err(error) => return debug!(%error, "listing active party sessions failed"),
        };
        for session_id in silent {
            let read = self.read(&session_id).await;
            let is_empty = read.is_ok_and(|session| session.roster.members.is_empty());
            if is_empty && let Err(error) = self.0.parts.store.activity.inactive(&session_id).await
            {
                debug!(%error, session_id, "removing an empty session from the active list failed");
            }
        }
    }

    async fn end_idle(&self) {
        let parts = &self.0.parts;
        let Some(auto_end) = parts.config.auto_end else { return };
        let before_ms = parts.now_ms().saturating_sub(auto_end.as_millis() as u64);
        let idle = match parts.archive.idle(before_ms, ENDED_AT_ONCE).await {
            Ok(idle) => idle,
            Err(error) => return warn!(%error, "searching unused party sessions failed"),
        };
        for session_id in idle {
            let operation = Operation::Lifecycle(Lifecycle::EndIdle);
            if let Err(error) = self.operate(&session_id, operation, None, None).await {
                warn!(%error, session_id, "ending an unused party session failed");
            }
        }
    }

    /// Begins the shutdown: rejects changes and writes the archive. Sockets close after this, so
    /// that no client returns on another node to a session that is still changing here. A slow
    /// archive is not awaited for longer than `within`; `close` writes the rest.
    pub async fn leave(&self, within: Duration) {
        self.0.is_leaving.store(true, Ordering::Relaxed);
        info!("party sessions reject changes: shutting down");
        self.flush(within).await;
    }

    /// Ends the shutdown after the sockets are closed: removes this node's members, or marks them
    /// as away if they may resume, ends all rooms and writes the archive.
    pub async fn close(&self) {
        self.0.is_leaving.store(true, Ordering::Relaxed);
        let session_ids: Vec<String> = self.lock().keys().cloned().collect();
        let parting = stream::iter(session_ids).for_each_concurrent(PARTINGS, async |session_id| {
            let node = self.0.parts.node_id.clone();
            let operation = Operation::Membership(Membership::NodeLost { node });
            if let Err(error) = self.operate(&session_id, operation, None, None).await {
                warn!(%error, session_id, "removing party members failed; other nodes will remove them");
            }
        });
        if timeout(PARTING_DEADLINE, parting).await.is_err() {
            warn!("removing party members took too long; other nodes will remove them");
        }
        // A room ends when its last sender is dropped.
        self.lock().clear();
        let tasks = self.tasks();
        if timeout(PARTING_DEADLINE, tasks.join()).await.is_err() {
            warn!(tasks = tasks.len(), "party tasks still running at shutdown");
        }
        self.flush(FLUSH_DEADLINE).await;
    }

    async fn flush(&self, within: Duration) {
        if timeout(within, self.0.parts.archivist.flush()).await.is_err() {
            warn!("flushing the party archive took too long");
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, mpsc::Sender<Request>>> {
        self.0.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ticks that do not catch up after a pause.
fn ticks_of(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Whether a node that is shutting down still accepts the operation.
fn is_parting(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Membership(
            Membership::Leave
                | Membership::Depart { .. }
                | Membership::Expire
                | Membership::NodeLost { .. }
        )
    )
}
