//! The party state of one connection: its session, its member id, its profile and its rate limits.
//!
//! A connection is in one session at a time. Joining, leaving and closing run one after the other,
//! each as a separate task, so that a client that gives up does not leave a member behind that its
//! connection does not know of.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use heartline_protocol::{ErrorCode, UserId};
use heartline_routing::rate::TokenBucket;
use heartline_runtime::Random;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::{sleep, timeout};
use tracing::warn;

use crate::room::rate::{self, PartyRates};
use crate::room::rooms::Rooms;
use crate::room::task::Completed;
use crate::room::uuid::random_uuid;
use crate::value::error::PartyError;
use crate::value::operation::{Actor, Edit, Join, Membership, Operation, Outcome};
use crate::value::roster::{Attachment, MemberId};
use crate::value::session::Status;
use crate::value::validate;

/// The time that a subscription waits for its connection to join.
const JOIN_WITHIN: Duration = Duration::from_secs(6);

/// The delay between the close of a socket and its departure, so that a client that reconnects at
/// once causes no departure.
const DEPART_AFTER: Duration = Duration::from_millis(100);

/// The attempts to store a departure; the pause between them doubles from one second.
const DEPART_TRIES: u32 = 5;

/// One connection.
#[derive(Debug)]
pub struct PartySocket {
    rooms: Rooms,
    rates: PartyRates,
    account: Option<UserId>,
    attachment: Attachment,
    /// Its member id, unless it resumes as another member.
    own: MemberId,
    state: watch::Sender<SocketState>,
    /// One permit, so that joining, leaving and closing run one after the other; closed with the
    /// socket.
    turns: Semaphore,
    profile: Mutex<Profile>,
}

/// The session state of a connection.
#[derive(Debug, Clone, Default)]
struct SocketState {
    inside: Option<Joined>,
    /// The session that it is joining.
    joining: Option<String>,
    /// The session that it may be in, because the result of its join was lost. The connection
    /// departs from that session when it closes.
    unsure: Option<String>,
    /// Whether it has left its last session, or was closed.
    has_left: bool,
}

/// The session that a connection has joined, and its member id there.
#[derive(Debug, Clone)]
pub(crate) struct Joined {
    pub(crate) session_id: String,
    pub(crate) member: MemberId,
}

/// The name and picture of a connection, and its rate limits.
#[derive(Debug)]
struct Profile {
    username: Option<String>,
    avatar_url: Option<String>,
    edits: TokenBucket,
    queries: TokenBucket,
    joins: TokenBucket,
    lifecycle: TokenBucket,
}

impl SocketState {
    /// Whether a subscription to this session can be accepted or rejected now.
    fn decides(&self, session_id: &str) -> bool {
        match (&self.inside, &self.joining) {
            (Some(inside), _) if inside.session_id == session_id => true,
            (_, Some(joining)) if joining == session_id => false,
            (Some(_), _) => true,
            (None, _) => self.has_left,
        }
    }
}

impl PartySocket {
    pub(crate) fn new(
        rooms: Rooms,
        rates: PartyRates,
        account: Option<UserId>,
        socket: u64,
    ) -> Self {
        let bucket = TokenBucket::new(rooms.clock().now());
        let attachment = Attachment { node: rooms.node_id().clone(), socket };
        let own = random_uuid(rooms.random()).parse().expect("a UUID is a legal id");
        Self {
            rooms,
            rates,
            account,
            attachment,
            own,
            state: watch::Sender::new(SocketState::default()),
            turns: Semaphore::new(1),
            profile: Mutex::new(Profile {
                username: None,
                avatar_url: None,
                edits: bucket,
                queries: bucket,
                joins: bucket,
                lifecycle: bucket,
            }),
        }
    }

    /// The random source of this node.
    pub(crate) fn random(&self) -> Random {
        self.rooms.random()
    }

    /// The account, if it is signed in.
    pub fn account(&self) -> Option<&UserId> {
        self.account.as_ref()
    }

    /// The session that it is in.
    pub fn session_id(&self) -> Option<String> {
        self.inside().map(|inside| inside.session_id)
    }

    /// Its member id in the session that it has joined, or its own.
    pub fn member_id(&self) -> MemberId {
        self.inside().map_or_else(|| self.own.clone(), |inside| inside.member)
    }

    pub(crate) fn inside(&self) -> Option<Joined> {
        self.state.borrow().inside.clone()
    }

    /// The actor of this connection's operations.
    pub(crate) fn actor(&self) -> Actor {
        self.actor_as(self.member_id())
    }

    fn actor_as(&self, member: MemberId) -> Actor {
        Actor { member, account: self.account.clone(), attachment: self.attachment.clone() }
    }

    pub(crate) fn take_join(&self) -> Result<(), PartyError> {
        rate::take(&mut self.profile().joins, self.rates.joins, self.rooms.clock().now())
    }

    pub(crate) fn take_lifecycle(&self) -> Result<(), PartyError> {
        rate::take(&mut self.profile().lifecycle, self.rates.lifecycle, self.rooms.clock().now())
    }

    pub(crate) fn take_edit(&self) -> Result<(), PartyError> {
        rate::take(&mut self.profile().edits, self.rates.edits, self.rooms.clock().now())
    }

    /// Queries are counted apart: a client at its limit of edits may still catch up.
    pub(crate) fn take_query(&self) -> Result<(), PartyError> {
        rate::take(&mut self.profile().queries, self.rates.queries, self.rooms.clock().now())
    }

    /// Stop 6 of the life of a party edit: allowed. The session whose queue it may edit; counts one
    /// edit.
    pub(crate) fn begin_edit(&self) -> Result<Joined, PartyError> {
        tracing::trace!(target: "heartline::life", party_stop = 6, "allowed");
        let inside = self.inside().ok_or_else(PartyError::not_in_a_session)?;
        self.take_edit()?;
        Ok(inside)
    }

    pub(crate) async fn edit(
        &self,
        inside: Joined,
        edit: Edit,
        correlation_id: Option<String>,
    ) -> Result<Completed, PartyError> {
        let Joined { session_id, member } = inside;
        let actor = Some(self.actor_as(member));
        self.rooms.operate(&session_id, Operation::Edit(edit), actor, correlation_id).await
    }

    /// Joins a session, after leaving its present one if that is another.
    pub(crate) async fn join(
        self: &Arc<Self>,
        session_id: String,
        join: Join,
        correlation_id: Option<String>,
    ) -> Result<(MemberId, Completed), PartyError> {
        validate::session_id(&session_id)?;
        validate::board_path(&join.board_path)?;
        let socket = Arc::clone(self);
        let joining = async move {
            let _turn = socket.turn().await?;
            socket.state.send_modify(|state| state.joining = Some(session_id.clone()));
            let joined = socket.switch_to(&session_id, join, correlation_id).await;
            socket.state.send_modify(|state| {
                state.joining = None;
                match &joined {
                    Ok((member, _)) => {
                        let member = member.clone();
                        state.unsure.take_if(|unsure| *unsure == session_id);
                        state.inside = Some(Joined { session_id, member });
                        state.has_left = false;
                    }
                    Err(error) if error.code == ErrorCode::ServiceUnavailable => {
                        state.unsure = Some(session_id);
                    }
                    Err(_) => {}
                }
            });
            joined
        };
        self.rooms
            .tasks()
            .spawn("party join", joining)
            .await
            .unwrap_or_else(|_| Err(internal_error()))
    }

    async fn switch_to(
        &self,
        session_id: &str,
        mut join: Join,
        correlation_id: Option<String>,
    ) -> Result<(MemberId, Completed), PartyError> {
        let inside = self.inside();
        let is_elsewhere = inside.is_some_and(|inside| inside.session_id != session_id);
        if is_elsewhere {
            // The connection stays in its session if the other one has ended.
            if self.rooms.read(session_id).await?.status == Status::Ended {
                return Err(PartyError::session_has_ended());
            }
            self.leave_current(None).await?;
        }
        let names = self.fill_names(&mut join);
        let operation = Operation::Membership(Membership::Join(Box::new(join)));
        // If it is in this session already, the session knows it by its socket.
        let actor = self.actor_as(self.own.clone());
        let joined = self.rooms.operate(session_id, operation, Some(actor), correlation_id).await?;
        let Outcome::Joined { member, .. } = &joined.outcome else { return Err(internal_error()) };
        self.set_names(names);
        Ok((member.clone(), joined))
    }

    /// Completes a join with the known name and picture, and returns both.
    fn fill_names(&self, join: &mut Join) -> (Option<String>, Option<String>) {
        let profile = self.profile();
        let known = |text: Option<String>, known: &Option<String>| given(text).or(known.clone());
        join.username = known(join.username.take(), &profile.username);
        join.avatar_url = known(join.avatar_url.take(), &profile.avatar_url);
        (join.username.clone(), join.avatar_url.clone())
    }

    fn set_names(&self, (username, avatar_url): (Option<String>, Option<String>)) {
        let mut profile = self.profile();
        profile.username = username;
        profile.avatar_url = avatar_url;
    }

    /// Leaves its session; returns whether it was in one.
    pub(crate) async fn leave(
        self: &Arc<Self>,
        correlation_id: Option<String>,
    ) -> Result<bool, PartyError> {
        let socket = Arc::clone(self);
        let leaving = async move {
            let _turn = socket.turn().await?;
            socket.leave_current(correlation_id).await
        };
        self.rooms
            .tasks()
            .spawn("party leave", leaving)
            .await
            .unwrap_or_else(|_| Err(internal_error()))
    }

    async fn leave_current(&self, correlation_id: Option<String>) -> Result<bool, PartyError> {
        let Some(Joined { session_id, member }) = self.inside() else { return Ok(false) };
        let operation = Operation::Membership(Membership::Leave);
        let actor = Some(self.actor_as(member));
        let left = self.rooms.operate(&session_id, operation, actor, correlation_id).await?;
        self.state.send_modify(|state| {
            state.inside = None;
            state.has_left = true;
        });
        Ok(matches!(left.outcome, Outcome::Left { was_member: true }))
    }

    /// Changes its name and picture, in its present session and in later ones.
    pub(crate) async fn update_username(
        &self,
        username: String,
        avatar_url: Option<String>,
        correlation_id: Option<String>,
    ) -> Result<(), PartyError> {
        self.take_edit()?;
        validate_names(&username, avatar_url.as_deref())?;
        if let Some(Joined { session_id, member }) = self.inside() {
            let (username, avatar_url) = (username.clone(), avatar_url.clone());
            let change = Membership::UpdateUsername { username, avatar_url };
            let (operation, actor) = (Operation::Membership(change), self.actor_as(member));
            self.rooms.operate(&session_id, operation, Some(actor), correlation_id).await?;
        }
        let mut profile = self.profile();
        profile.username = Some(username);
        profile.avatar_url = given(avatar_url).or_else(|| profile.avatar_url.take());
        Ok(())
    }

    /// Its actor in a session, once it has joined. Clients subscribe at the same moment at which
    /// they join, so this waits for a join that is under way.
    pub(crate) async fn actor_in(&self, session_id: &str) -> Result<Actor, PartyError> {
        let mut state = self.state.subscribe();
        let decided = timeout(JOIN_WITHIN, state.wait_for(|state| state.decides(session_id))).await;
        let inside = match decided {
            Ok(Ok(state)) => state.inside.clone(),
            Ok(Err(_)) | Err(_) => None,
        };
        match inside {
            Some(inside) if inside.session_id == session_id => Ok(self.actor_as(inside.member)),
            Some(_) => Err(PartyError::session_mismatch()),
            None => Err(PartyError::not_in_any_session()),
        }
    }

    /// Closes the connection: shortly after, its member is removed, or marked as away if it may
    /// resume. The caller awaits this, so that the departure has an owner.
    pub async fn close(&self) {
        let Ok(turn) = self.turns.acquire().await else { return };
        self.turns.close();
        let SocketState { inside, unsure, .. } =
            self.state.send_replace(SocketState { has_left: true, ..SocketState::default() });
        drop(turn);
        let inside = inside.map(|inside| inside.session_id);
        let unsure = unsure.filter(|unsure| Some(unsure) != inside.as_ref());
        if inside.is_some() || unsure.is_some() {
            sleep(DEPART_AFTER).await;
        }
        for session_id in inside.into_iter().chain(unsure) {
            self.depart(&session_id).await;
        }
    }

    /// Stores the departure. After the last attempt it is left to the room, which removes members
    /// without a socket.
    async fn depart(&self, session_id: &str) {
        let attachment = self.attachment.clone();
        let operation = Operation::Membership(Membership::Depart { attachment });
        for attempt in 0..DEPART_TRIES {
            if attempt > 0 {
                sleep(Duration::from_secs(1 << (attempt - 1))).await;
            }
            match self.rooms.operate(session_id, operation.clone(), None, None).await {
                Ok(_) => return,
                Err(error) => warn!(%error, session_id, "storing a departure failed"),
            }
        }
    }

    async fn turn(&self) -> Result<SemaphorePermit<'_>, PartyError> {
        self.turns.acquire().await.map_err(|_| PartyError::not_in_a_session())
    }

    fn profile(&self) -> MutexGuard<'_, Profile> {
        self.profile.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Validates a name and the URL of a picture; an empty URL is none.
pub(crate) fn validate_names(username: &str, avatar_url: Option<&str>) -> Result<(), PartyError> {
    validate::username(username)?;
    avatar_url.filter(|url| !url.is_empty()).map_or(Ok(()), validate::avatar_url)
}

fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn internal_error() -> PartyError {
    PartyError::new(ErrorCode::InternalError, "Internal error. Try again.")
}
