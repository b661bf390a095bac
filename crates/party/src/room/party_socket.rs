//! What one connection is to the party: which session it is in, as whom, and how often it may ask.
//!
//! A connection is in one session at a time. Joining, leaving and closing happen one after the
//! other, each as a task of its own, so that a client that gives up waiting does not leave a member
//! behind of whom its connection knows nothing.

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
use crate::room::task::Answer;
use crate::room::uuid::random_uuid;
use crate::value::error::PartyError;
use crate::value::operation::{Actor, Edit, Join, Membership, Operation, Outcome};
use crate::value::roster::{Attachment, MemberId};
use crate::value::session::Status;
use crate::value::validate;

/// How long a subscription waits for its connection to join.
const JOIN_WITHIN: Duration = Duration::from_secs(6);

/// How long after a socket has closed its departure is processed, so that a client which comes back
/// at once, and those who listen at that moment, are not told too early.
const DEPART_AFTER: Duration = Duration::from_millis(100);

/// How often a departure is tried; the pauses between double from one second.
const DEPART_TRIES: u32 = 5;

/// One connection.
#[derive(Debug)]
pub struct PartySocket {
    rooms: Rooms,
    rates: PartyRates,
    account: Option<UserId>,
    attachment: Attachment,
    /// Who it is where it does not come back as somebody else.
    own: MemberId,
    place: watch::Sender<Place>,
    /// One permit: joining, leaving and closing take turns. It is closed with the socket.
    turns: Semaphore,
    manners: Mutex<Manners>,
}

/// Where a connection is.
#[derive(Debug, Clone, Default)]
struct Place {
    inside: Option<Inside>,
    /// The session that it is about to be in.
    joining: Option<String>,
    /// The session that it may be in, because nobody could say whether its join was stored. It
    /// departs from it when it closes.
    unsure: Option<String>,
    /// Whether it has left the last session that it was in, or was closed.
    has_left: bool,
}

/// The session that a connection is in, and as whom.
#[derive(Debug, Clone)]
pub(crate) struct Inside {
    pub(crate) session_id: String,
    pub(crate) member: MemberId,
}

/// How a connection presents itself, and what it may still ask for.
#[derive(Debug)]
struct Manners {
    username: Option<String>,
    avatar_url: Option<String>,
    edits: TokenBucket,
    questions: TokenBucket,
    joins: TokenBucket,
    lifecycle: TokenBucket,
}

impl Place {
    /// Whether it is settled what becomes of a subscription to this session.
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
            place: watch::Sender::new(Place::default()),
            turns: Semaphore::new(1),
            manners: Mutex::new(Manners {
                username: None,
                avatar_url: None,
                edits: bucket,
                questions: bucket,
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

    /// Who it is: the member that it came back as, or itself.
    pub fn member_id(&self) -> MemberId {
        self.inside().map_or_else(|| self.own.clone(), |inside| inside.member)
    }

    pub(crate) fn inside(&self) -> Option<Inside> {
        self.place.borrow().inside.clone()
    }

    /// Who acts when this connection does.
    pub(crate) fn actor(&self) -> Actor {
        self.actor_as(self.member_id())
    }

    fn actor_as(&self, member: MemberId) -> Actor {
        Actor { member, account: self.account.clone(), attachment: self.attachment.clone() }
    }

    pub(crate) fn take_join(&self) -> Result<(), PartyError> {
        rate::take(&mut self.manners().joins, self.rates.joins, self.rooms.clock().now())
    }

    pub(crate) fn take_lifecycle(&self) -> Result<(), PartyError> {
        rate::take(&mut self.manners().lifecycle, self.rates.lifecycle, self.rooms.clock().now())
    }

    pub(crate) fn take_edit(&self) -> Result<(), PartyError> {
        rate::take(&mut self.manners().edits, self.rates.edits, self.rooms.clock().now())
    }

    /// Questions are counted apart: whoever edits much may still catch up.
    pub(crate) fn take_question(&self) -> Result<(), PartyError> {
        rate::take(&mut self.manners().questions, self.rates.questions, self.rooms.clock().now())
    }

    /// The session whose queue it may edit, once more.
    pub(crate) fn begin_edit(&self) -> Result<Inside, PartyError> {
        let inside = self.inside().ok_or_else(PartyError::not_in_a_session)?;
        self.take_edit()?;
        Ok(inside)
    }

    pub(crate) async fn edit(
        &self,
        inside: Inside,
        edit: Edit,
        correlation_id: Option<String>,
    ) -> Result<Answer, PartyError> {
        let Inside { session_id, member } = inside;
        let actor = Some(self.actor_as(member));
        self.rooms.operate(&session_id, Operation::Edit(edit), actor, correlation_id).await
    }

    /// Joins a session, after leaving the one that it is in if that is another.
    pub(crate) async fn join(
        self: &Arc<Self>,
        session_id: String,
        join: Join,
        correlation_id: Option<String>,
    ) -> Result<(MemberId, Answer), PartyError> {
        validate::session_id(&session_id)?;
        validate::board_path(&join.board_path)?;
        let socket = Arc::clone(self);
        let joining = async move {
            let _turn = socket.turn().await?;
            socket.place.send_modify(|place| place.joining = Some(session_id.clone()));
            let joined = socket.go(&session_id, join, correlation_id).await;
            socket.place.send_modify(|place| {
                place.joining = None;
                match &joined {
                    Ok((member, _)) => {
                        let member = member.clone();
                        place.unsure.take_if(|unsure| *unsure == session_id);
                        place.inside = Some(Inside { session_id, member });
                        place.has_left = false;
                    }
                    Err(error) if error.code == ErrorCode::ServiceUnavailable => {
                        place.unsure = Some(session_id);
                    }
                    Err(_) => {}
                }
            });
            joined
        };
        self.rooms.tasks().spawn("party join", joining).await.unwrap_or_else(|_| Err(fault()))
    }

    async fn go(
        &self,
        session_id: &str,
        mut join: Join,
        correlation_id: Option<String>,
    ) -> Result<(MemberId, Answer), PartyError> {
        let inside = self.inside();
        let is_elsewhere = inside.is_some_and(|inside| inside.session_id != session_id);
        if is_elsewhere {
            // Nobody leaves a session for one that is over.
            if self.rooms.look(session_id).await?.status == Status::Ended {
                return Err(PartyError::session_has_ended());
            }
            self.go_out(None).await?;
        }
        let names = self.introduce(&mut join);
        let operation = Operation::Membership(Membership::Join(Box::new(join)));
        // Whoever is in this session already is known there by its socket.
        let actor = self.actor_as(self.own.clone());
        let answer = self.rooms.operate(session_id, operation, Some(actor), correlation_id).await?;
        let Outcome::Joined { member, .. } = &answer.outcome else { return Err(fault()) };
        self.remember(names);
        Ok((member.clone(), answer))
    }

    /// Fills in how the connection called itself before, and answers how it calls itself now.
    fn introduce(&self, join: &mut Join) -> (Option<String>, Option<String>) {
        let manners = self.manners();
        let known = |text: Option<String>, known: &Option<String>| given(text).or(known.clone());
        join.username = known(join.username.take(), &manners.username);
        join.avatar_url = known(join.avatar_url.take(), &manners.avatar_url);
        (join.username.clone(), join.avatar_url.clone())
    }

    fn remember(&self, (username, avatar_url): (Option<String>, Option<String>)) {
        let mut manners = self.manners();
        manners.username = username;
        manners.avatar_url = avatar_url;
    }

    /// Leaves the session that it is in; answers whether it was in one.
    pub(crate) async fn leave(
        self: &Arc<Self>,
        correlation_id: Option<String>,
    ) -> Result<bool, PartyError> {
        let socket = Arc::clone(self);
        let leaving = async move {
            let _turn = socket.turn().await?;
            socket.go_out(correlation_id).await
        };
        self.rooms.tasks().spawn("party leave", leaving).await.unwrap_or_else(|_| Err(fault()))
    }

    async fn go_out(&self, correlation_id: Option<String>) -> Result<bool, PartyError> {
        let Some(Inside { session_id, member }) = self.inside() else { return Ok(false) };
        let operation = Operation::Membership(Membership::Leave);
        let actor = Some(self.actor_as(member));
        let answer = self.rooms.operate(&session_id, operation, actor, correlation_id).await?;
        self.place.send_modify(|place| {
            place.inside = None;
            place.has_left = true;
        });
        Ok(matches!(answer.outcome, Outcome::Left { was_member: true }))
    }

    /// Is called something else from now on, in the session that it is in and in later ones.
    pub(crate) async fn update_username(
        &self,
        username: String,
        avatar_url: Option<String>,
        correlation_id: Option<String>,
    ) -> Result<(), PartyError> {
        self.take_edit()?;
        validate_names(&username, avatar_url.as_deref())?;
        if let Some(Inside { session_id, member }) = self.inside() {
            let (username, avatar_url) = (username.clone(), avatar_url.clone());
            let change = Membership::UpdateUsername { username, avatar_url };
            let (operation, actor) = (Operation::Membership(change), self.actor_as(member));
            self.rooms.operate(&session_id, operation, Some(actor), correlation_id).await?;
        }
        let mut manners = self.manners();
        manners.username = Some(username);
        manners.avatar_url = given(avatar_url).or_else(|| manners.avatar_url.take());
        Ok(())
    }

    /// Who it is in a session, once it has joined: clients subscribe again at the same moment in
    /// which they join again.
    pub(crate) async fn actor_in(&self, session_id: &str) -> Result<Actor, PartyError> {
        let mut place = self.place.subscribe();
        let decided = timeout(JOIN_WITHIN, place.wait_for(|place| place.decides(session_id))).await;
        let inside = match decided {
            Ok(Ok(place)) => place.inside.clone(),
            Ok(Err(_)) | Err(_) => None,
        };
        match inside {
            Some(inside) if inside.session_id == session_id => Ok(self.actor_as(inside.member)),
            Some(_) => Err(PartyError::session_mismatch()),
            None => Err(PartyError::not_in_any_session()),
        }
    }

    /// Says that the socket has closed. Its member is out a moment later, or away if it may come
    /// back. Whoever calls this awaits it, so that the departure has an owner.
    pub async fn close(&self) {
        let Ok(turn) = self.turns.acquire().await else { return };
        self.turns.close();
        let Place { inside, unsure, .. } =
            self.place.send_replace(Place { has_left: true, ..Place::default() });
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

    /// Departs as soon as that can be stored. After the last try it is left to the room, which knows
    /// that the socket is gone.
    async fn depart(&self, session_id: &str) {
        let attachment = self.attachment.clone();
        let operation = Operation::Membership(Membership::Depart { attachment });
        for attempt in 0..DEPART_TRIES {
            if attempt > 0 {
                sleep(Duration::from_secs(1 << (attempt - 1))).await;
            }
            match self.rooms.operate(session_id, operation.clone(), None, None).await {
                Ok(_) => return,
                Err(error) => warn!(%error, session_id, "a departure was not recorded"),
            }
        }
    }

    async fn turn(&self) -> Result<SemaphorePermit<'_>, PartyError> {
        self.turns.acquire().await.map_err(|_| PartyError::not_in_a_session())
    }

    fn manners(&self) -> MutexGuard<'_, Manners> {
        self.manners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The form of a name and of a picture; empty text is no picture.
pub(crate) fn validate_names(username: &str, avatar_url: Option<&str>) -> Result<(), PartyError> {
    validate::username(username)?;
    avatar_url.filter(|url| !url.is_empty()).map_or(Ok(()), validate::avatar_url)
}

fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn fault() -> PartyError {
    PartyError::new(ErrorCode::InternalError, "Something went wrong. Try again.")
}
