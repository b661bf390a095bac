//! A session as the schema shows it, to its members and to others.

use std::sync::Arc;

use async_graphql::{ID, Object, SimpleObject};
use heartline_protocol::Timestamp;

use super::item::ItemView;
use crate::room::archive::Discovered;
use crate::room::listener::SessionUser;
use crate::value::queue::QueueState;
use crate::value::roster::MemberId;
use crate::value::session::{Details, Session, Status};

/// A shared session. Those who are not its members see its id, name and board, and how many are in
/// it.
#[derive(Debug, Clone)]
pub(super) struct SessionView {
    pub(super) session: Arc<Session>,
    /// Who looks, if it is a member.
    pub(super) viewer: Option<MemberId>,
    /// Whether it is shown to its creator, who need not be a member.
    pub(super) is_own: bool,
    pub(super) resume_token: Option<String>,
}

impl SessionView {
    /// What not everybody is shown.
    fn inner(&self) -> Option<&Details> {
        (self.is_own || self.viewer.is_some()).then_some(&self.session.details)
    }
}

/// A shared session. Those who are not its members see its id, name and board, and how many are in
/// it.
#[Object(name = "Session")]
impl SessionView {
    /// Its id.
    async fn id(&self) -> ID {
        self.session.id.as_str().into()
    }

    /// Its name.
    async fn name(&self) -> Option<&str> {
        self.session.details.name.as_deref()
    }

    /// The board, as a path of the site; that of whoever joined first.
    async fn board_path(&self) -> &str {
        self.session.details.board_path.as_deref().unwrap_or_default()
    }

    /// Its members, those first who have been here longest.
    async fn users(&self) -> Vec<SessionUserView> {
        let roster = &self.session.roster;
        let members = roster.by_seniority().into_iter().filter(|_| self.viewer.is_some());
        members.map(|member| SessionUser::of(member, roster).into()).collect()
    }

    /// How many members it has.
    async fn participant_count(&self) -> usize {
        self.session.roster.members.len()
    }

    /// The queue.
    async fn queue_state(&self) -> QueueStateView {
        match self.viewer {
            Some(_) => QueueStateView::Of(Arc::clone(&self.session)),
            None => QueueStateView::Hidden(Box::default()),
        }
    }

    /// Whether the caller leads.
    async fn is_leader(&self) -> bool {
        self.viewer.as_ref().is_some_and(|viewer| self.session.roster.is_leader(viewer))
    }

    /// Who the caller is in this session; empty if it is no member.
    async fn client_id(&self) -> ID {
        self.viewer.as_ref().map(MemberId::as_str).unwrap_or_default().into()
    }

    /// With what the caller may come back as the same member, if it asked for that.
    async fn resume_token(&self) -> Option<&str> {
        self.resume_token.as_deref()
    }

    /// What its members are up to.
    async fn goal(&self) -> Option<&str> {
        self.inner()?.goal.as_deref()
    }

    /// Whether others may see it.
    async fn is_public(&self) -> bool {
        self.session.details.is_public
    }

    /// When somebody first joined it.
    async fn started_at(&self) -> Option<String> {
        self.inner()?.started_at_ms.map(iso)
    }

    /// When it ended.
    async fn ended_at(&self) -> Option<String> {
        self.inner()?.ended_at_ms.map(iso)
    }

    /// Whether it is never ended for lack of use.
    async fn is_permanent(&self) -> bool {
        self.session.details.is_permanent
    }

    /// Its colour.
    async fn color(&self) -> Option<&str> {
        self.session.details.color.as_deref()
    }
}

/// A member as others see it.
#[derive(Debug, Clone, SimpleObject)]
#[graphql(name = "SessionUser")]
pub(super) struct SessionUserView {
    /// Who it is in this session, which is not its account.
    id: ID,
    /// The name to show.
    username: String,
    /// Whether it leads.
    is_leader: bool,
    /// The picture to show.
    avatar_url: Option<String>,
}

impl From<SessionUser> for SessionUserView {
    fn from(user: SessionUser) -> Self {
        let SessionUser { id, username, is_leader, avatar_url } = user;
        Self { id: id.as_str().into(), username, is_leader, avatar_url }
    }
}

/// The queue at one sequence.
#[derive(Debug, Clone)]
pub(super) enum QueueStateView {
    Of(Arc<Session>),
    /// What those see who may not see it.
    Hidden(Box<QueueState>),
}

impl QueueStateView {
    fn state(&self) -> &QueueState {
        match self {
            Self::Of(session) => &session.queue,
            Self::Hidden(state) => state,
        }
    }
}

/// The queue at one moment, with which a client compares its own.
#[Object(name = "QueueState")]
impl QueueStateView {
    /// The number of the event that led here.
    async fn sequence(&self) -> u64 {
        self.state().sequence
    }

    /// How often the session was restored after a loss: sequences of different ones do not compare.
    async fn incarnation(&self) -> u64 {
        match self {
            Self::Of(session) => session.incarnation,
            Self::Hidden(_) => 0,
        }
    }

    /// Which items are there and which is current, in eight hex digits.
    async fn state_hash(&self) -> String {
        self.state().state_hash.to_string()
    }

    /// Which items are there, in what order, with what content, in sixteen hex digits.
    async fn order_hash(&self) -> Option<String> {
        Some(self.state().order_hash.to_string())
    }

    /// The items.
    async fn queue(&self) -> Vec<ItemView> {
        self.state().queue.iter().cloned().map(ItemView).collect()
    }

    /// What is being climbed.
    async fn current_climb_queue_item(&self) -> Option<ItemView> {
        self.state().current.clone().map(ItemView)
    }
}

/// A session that is found without knowing its id.
#[derive(Debug, SimpleObject)]
pub(super) struct DiscoverableSession {
    /// Its id.
    id: ID,
    /// Its name.
    name: Option<String>,
    /// The board, as a path of the site.
    board_path: String,
    /// Where it is.
    latitude: f64,
    /// Where it is.
    longitude: f64,
    /// When it was created, in ISO 8601.
    created_at: String,
    /// The account that created it.
    created_by_user_id: Option<ID>,
    /// How many members it had when it was last archived.
    participant_count: usize,
    /// How far away it is in metres.
    distance: Option<f64>,
    /// Whether somebody is in it.
    is_active: bool,
    /// What its members are up to.
    goal: Option<String>,
    /// Whether others may see it.
    is_public: Option<bool>,
    /// Whether it is never ended for lack of use.
    is_permanent: Option<bool>,
    /// Its colour.
    color: Option<String>,
}

impl From<Discovered> for DiscoverableSession {
    fn from(found: Discovered) -> Self {
        let Discovered { session_id, status, details, members, distance_metres } = found;
        Self {
            id: session_id.into(),
            name: details.name,
            board_path: details.board_path.unwrap_or_default(),
            latitude: details.latitude.unwrap_or_default(),
            longitude: details.longitude.unwrap_or_default(),
            created_at: iso(details.created_at_ms.unwrap_or_default()),
            created_by_user_id: details.creator.map(|creator| creator.as_str().into()),
            participant_count: members,
            distance: distance_metres,
            is_active: status == Status::Active,
            goal: details.goal,
            is_public: Some(details.is_public),
            is_permanent: Some(details.is_permanent),
            color: details.color,
        }
    }
}

/// A time as the wire writes it.
pub(super) fn iso(unix_ms: u64) -> String {
    Timestamp { unix_ms }.to_string()
}
