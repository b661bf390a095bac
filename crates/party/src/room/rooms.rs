//! All sessions that concern this node, each with a room of its own.

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
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, timeout};
use tracing::{debug, info, warn};

use crate::room::archive::PartyArchive;
use crate::room::archivist::Archivist;
use crate::room::census::Census;
use crate::room::listener::{Listener, Topic};
use crate::room::metrics::PartyMetrics;
use crate::room::store::{Notice, PartyStore};
use crate::room::task::{Answer, Asked, OPERATION_DEADLINE, Replayed, Request, Room, Wanted};
use crate::room::unavailable::Unavailable;
use crate::value::error::PartyError;
use crate::value::limits::Limits;
use crate::value::log::LogLimits;
use crate::value::operation::{Actor, Lifecycle, Membership, Operation};
use crate::value::session::Session;

/// Requests that may wait in one room.
const ROOM_REQUESTS_MAX: usize = 1024;

/// Rooms that a node may have.
const ROOMS_MAX: usize = 100_000;

/// How often rooms look at the time and at who is alive.
const TICK: Duration = Duration::from_secs(1);

/// How often a node compares its sessions with the store, in ticks.
const COMPARE_TICKS: u64 = 5;

/// How often sessions with members are kept from being cleared away, in ticks.
const KEEP_TICKS: u64 = 60;

/// How often sessions are looked at that show no sign of life, and how many: their nodes
/// may have died, and nobody else may be there to notice.
const SILENT_INTERVAL: Duration = Duration::from_secs(10);
const SILENT_LOOKED_AT: usize = 16;

/// How often sessions are ended that nobody uses, and how many at a time.
const END_INTERVAL: Duration = Duration::from_secs(300);
const ENDED_AT_ONCE: usize = 50;

/// Sessions that are left at the same time when the node stops, and how long that may take.
const PARTINGS: usize = 64;
const PARTING_DEADLINE: Duration = Duration::from_secs(5);

/// How long the archive may take in the end.
const FLUSH_DEADLINE: Duration = Duration::from_secs(5);

/// What may be configured.
#[derive(Debug, Clone, Copy)]
pub struct PartyConfig {
    /// Bounds of a session.
    pub limits: Limits,
    /// Bounds of its log.
    pub log: LogLimits,
    /// How long a session rests before it is archived.
    pub archive_debounce: Duration,
    /// After how long without members a session is ended; none for never.
    pub auto_end: Option<Duration>,
    /// Events that may wait for one subscriber before it gets the whole state instead.
    pub subscription_queue: usize,
}

/// The surroundings of the party sessions of a node.
#[derive(Debug)]
pub struct PartyParts {
    /// The store of live sessions.
    pub store: PartyStore,
    /// The archive of all sessions.
    pub archive: Arc<dyn PartyArchive>,
    /// The id of this node.
    pub node_id: NodeId,
    /// The configuration.
    pub config: PartyConfig,
    /// The clocks of this node.
    pub clock: Clock,
    /// The random source of this node.
    pub random: Random,
}

/// The parts that all rooms share.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) store: PartyStore,
    pub(crate) archive: Arc<dyn PartyArchive>,
    pub(crate) archivist: Archivist,
    pub(crate) node_id: NodeId,
    pub(crate) config: PartyConfig,
    pub(crate) clock: Clock,
    pub(crate) metrics: PartyMetrics,
    pub(crate) random: Random,
    /// Owns the tasks of rooms, and work that must be finished although its caller may give up.
    pub(crate) tasks: Tasks,
    /// The last reading of the store's clock, and the time of that reading.
    store_time: Mutex<(Instant, u64)>,
}

impl Parts {
    /// The time by the store's clock.
    pub(crate) fn now_ms(&self) -> u64 {
        let (read_at, read_ms) = *self.store_time.lock().unwrap_or_else(PoisonError::into_inner);
        read_ms + (self.clock.now() - read_at).as_millis() as u64
    }

    async fn read_time(&self) {
        match self.store.activity.now_ms().await {
            Ok(now_ms) => {
                let read = (self.clock.now(), now_ms);
                *self.store_time.lock().unwrap_or_else(PoisonError::into_inner) = read;
            }
            Err(error) => debug!(%error, "the party store did not tell the time"),
        }
    }
}

/// All rooms. Clones share them.
#[derive(Debug, Clone)]
pub struct Rooms(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    parts: Arc<Parts>,
    rooms: Mutex<BTreeMap<String, mpsc::Sender<Request>>>,
    /// Whether members' changes are refused because the node is about to stop.
    is_leaving: AtomicBool,
}

impl Rooms {
    /// A node without rooms.
    pub fn new(parts: PartyParts) -> Self {
        let PartyParts { store, archive, node_id, config, clock, random } = parts;
        let (debounce, metrics) = (config.archive_debounce, PartyMetrics::default());
        let archivist = Archivist::new(Arc::clone(&archive), debounce, clock, metrics.clone());
        let parts = Parts {
            store,
            archive,
            archivist,
            node_id,
            config,
            clock,
            metrics,
            random,
            tasks: Tasks::new(),
            store_time: Mutex::new((clock.now(), clock.wall().unix_ms)),
        };
        let is_leaving = AtomicBool::new(false);
        Self(Arc::new(Inner { parts: Arc::new(parts), rooms: Mutex::default(), is_leaving }))
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

    /// Where sessions are found that are not known by their id.
    pub fn archive(&self) -> &dyn PartyArchive {
        &*self.0.parts.archive
    }

    /// Has something done, and answers what came of it.
    ///
    /// # Errors
    /// It was refused, or could not be done in time; then it may have been done nevertheless.
    pub async fn operate(
        &self,
        session_id: &str,
        operation: Operation,
        actor: Option<Actor>,
        correlation_id: Option<String>,
    ) -> Result<Answer, PartyError> {
        if self.0.is_leaving.load(Ordering::Relaxed) && !is_parting(&operation) {
            return Err(Unavailable::ShuttingDown.into());
        }
        let since = self.0.parts.clock.now();
        self.ask(session_id, |answer| {
            let asked = Asked { operation, actor, correlation_id };
            Request::Operate(Box::new(Wanted { asked, since, answer }))
        })
        .await
    }

    /// Lets a member hear: first what is so now, then everything that follows.
    ///
    /// # Errors
    /// The actor is no member on this socket.
    pub async fn listen(
        &self,
        session_id: &str,
        topic: Topic,
        actor: Actor,
    ) -> Result<Listener, PartyError> {
        self.ask(session_id, |answer| Request::Listen { topic, actor, answer }).await
    }

    /// What followed a sequence.
    ///
    /// # Errors
    /// The actor is no member on this socket.
    pub async fn replay(
        &self,
        session_id: &str,
        since: u64,
        actor: Actor,
    ) -> Result<Replayed, PartyError> {
        self.ask(session_id, |answer| Request::Replay { since, actor, answer }).await
    }

    /// A session as it is; one that nobody has created or joined does not exist.
    ///
    /// # Errors
    /// It could not be read.
    pub async fn look(&self, session_id: &str) -> Result<Arc<Session>, PartyError> {
        self.ask(session_id, |answer| Request::Look { answer }).await
    }

    async fn ask<T>(
        &self,
        session_id: &str,
        request: impl FnOnce(oneshot::Sender<Result<T, PartyError>>) -> Request,
    ) -> Result<T, PartyError> {
        let (answer, answered) = oneshot::channel();
        let mut request = request(answer);
        loop {
            let room = self.room(session_id)?;
            match room.try_send(request) {
                Ok(()) => break,
                Err(mpsc::error::TrySendError::Full(_)) => {
                    return Err(Unavailable::Overloaded.into());
                }
                // It was about to end: the next one is a new one.
                Err(mpsc::error::TrySendError::Closed(unheard)) => {
                    self.forget(session_id, &room);
                    request = unheard;
                }
            }
        }
        match timeout(OPERATION_DEADLINE * 2, answered).await {
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

    /// Lets the next room do what came too late for the last one.
    fn pass_on(&self, session_id: &str, unheard: Vec<Request>) {
        let mut rooms = self.lock();
        if rooms.get(session_id).is_some_and(mpsc::Sender::is_closed) {
            rooms.remove(session_id);
        }
        drop(rooms);
        for request in unheard {
            // Without a room its caller hears that it was closed.
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

    /// Follows the store, the time and the other nodes, for ever.
    pub async fn run(self, nodes: Arc<dyn Nodes>) {
        let mut notices = self.0.parts.store.watch.notices();
        let following = async {
            loop {
                match notices.recv().await {
                    Ok(notice) => self.noticed(notice),
                    Err(broadcast::error::RecvError::Lagged(_)) => self.noticed(Notice::Gap),
                    Err(broadcast::error::RecvError::Closed) => return,
                }
            }
        };
        let ticking = async {
            let (mut ticks, mut census) = (ticks_of(TICK), Census::default());
            for tick in 0_u64.. {
                ticks.tick().await;
                self.tick(tick, &*nodes, &mut census).await;
            }
        };
        // What may take long must not hold up the ticks, which rooms wait for.
        let looking = async {
            let mut ticks = ticks_of(SILENT_INTERVAL);
            loop {
                ticks.tick().await;
                self.look_at_silent().await;
            }
        };
        let ending = async {
            let mut ticks = ticks_of(END_INTERVAL);
            loop {
                ticks.tick().await;
                self.end_idle().await;
            }
        };
        tokio::join!(following, ticking, looking, ending, self.0.parts.archivist.run());
    }

    pub(crate) fn noticed(&self, notice: Notice) {
        match notice {
            Notice::Committed { session_id, revision, entry } => {
                self.tell(&session_id, Request::Told { revision, entry });
            }
            Notice::Wanted { session_id } => self.tell(&session_id, Request::Offer),
            Notice::Gap => {
                let session_ids: Vec<String> = self.lock().keys().cloned().collect();
                session_ids.iter().for_each(|session_id| self.tell(session_id, Request::Compare));
            }
        }
    }

    /// Tells a room something that it finds out by comparing if it cannot hear it now. Half of its
    /// places are kept for what members ask, or a node that stood still would refuse them while it
    /// hears all that it has missed.
    fn tell(&self, session_id: &str, request: Request) {
        let Some(room) = self.lock().get(session_id).cloned() else { return };
        let has_place = room.capacity() > ROOM_REQUESTS_MAX / 2;
        let is_closed = match has_place.then(|| room.try_send(request)) {
            Some(Err(mpsc::error::TrySendError::Closed(_))) => true,
            Some(_) => false,
            None => room.is_closed(),
        };
        if is_closed {
            self.forget(session_id, &room);
        }
    }

    async fn tick(&self, tick: u64, nodes: &dyn Nodes, census: &mut Census) {
        let session_ids: Vec<String> = self.lock().keys().cloned().collect();
        self.0.parts.metrics.sessions.set(session_ids.len() as i64);
        let named = match nodes.nodes().await {
            Ok(named) if nodes.silence().is_zero() => Some(named),
            // Who is alive is not known now, so nobody is taken for dead.
            Ok(_) | Err(_) => None,
        };
        let nodes = census.take(named, self.0.parts.clock.now());
        let must_keep = tick.is_multiple_of(KEEP_TICKS);
        for session_id in &session_ids {
            self.tell(session_id, Request::Tick { nodes: nodes.clone(), must_keep });
        }
        if tick.is_multiple_of(COMPARE_TICKS) {
            self.0.parts.read_time().await;
            session_ids.iter().for_each(|session_id| self.tell(session_id, Request::Compare));
        }
    }

    /// Opens the rooms of sessions that have shown no sign of life for longest, so that they find out
    /// whether their members' nodes are still there.
    async fn look_at_silent(&self) {
        let silent = match self.0.parts.store.activity.active(SILENT_LOOKED_AT).await {
            Ok(silent) => silent,
            Err(error) => return debug!(%error, "silent sessions could not be looked at"),
        };
        for session_id in silent {
            let seen = self.look(&session_id).await;
            let is_over = seen.is_ok_and(|session| session.roster.members.is_empty());
            if is_over && let Err(error) = self.0.parts.store.activity.inactive(&session_id).await {
                debug!(%error, session_id, "an empty session stays on the list");
            }
        }
    }

    async fn end_idle(&self) {
        let parts = &self.0.parts;
        let Some(auto_end) = parts.config.auto_end else { return };
        let before_ms = parts.now_ms().saturating_sub(auto_end.as_millis() as u64);
        let idle = match parts.archive.idle(before_ms, ENDED_AT_ONCE).await {
            Ok(idle) => idle,
            Err(error) => return warn!(%error, "sessions that nobody uses could not be found"),
        };
        for session_id in idle {
            let operation = Operation::Lifecycle(Lifecycle::EndIdle);
            if let Err(error) = self.operate(&session_id, operation, None, None).await {
                warn!(%error, session_id, "a session that nobody uses was not ended");
            }
        }
    }

    /// Begins the goodbye: members change nothing any more through this node, and what they have
    /// changed is archived. Their sockets close after this, so that nobody comes back elsewhere to
    /// something that is still changed here. An archive that is slow is not waited for longer than
    /// this: what it lacks is archived in the end.
    pub async fn leave(&self, within: Duration) {
        self.0.is_leaving.store(true, Ordering::Relaxed);
        info!("party sessions take no more changes");
        self.flush(within).await;
    }

    /// Ends the goodbye once the sockets are closed: members that cannot come back are out, and the
    /// others are away. Then archives what that has changed.
    pub async fn close(&self) {
        self.0.is_leaving.store(true, Ordering::Relaxed);
        let session_ids: Vec<String> = self.lock().keys().cloned().collect();
        let parting = stream::iter(session_ids).for_each_concurrent(PARTINGS, async |session_id| {
            let node = self.0.parts.node_id.clone();
            let operation = Operation::Membership(Membership::NodeLost { node });
            if let Err(error) = self.operate(&session_id, operation, None, None).await {
                warn!(%error, session_id, "the members of this node are out when it is missed");
            }
        });
        if timeout(PARTING_DEADLINE, parting).await.is_err() {
            warn!("some members of this node are out when it is missed");
        }
        // A room ends when nobody can send to it any more.
        self.lock().clear();
        let tasks = self.tasks();
        if timeout(PARTING_DEADLINE, tasks.join()).await.is_err() {
            warn!(tasks = tasks.len(), "party tasks still running at shutdown");
        }
        self.flush(FLUSH_DEADLINE).await;
    }

    async fn flush(&self, within: Duration) {
        if timeout(within, self.0.parts.archivist.flush()).await.is_err() {
            warn!("the archive did not take the last changes in time");
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

/// Whether something is still done by a node that is about to stop.
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
