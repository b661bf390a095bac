//! A session as the schema shows it, to members and to other callers.

use std::sync::Arc;

use async_graphql::{ID, Object, SimpleObject};
use heartline_protocol::Timestamp;

use super::item::ItemView;
use crate::room::archive::Discovered;
use crate::room::listener::SessionUser;
use crate::value::queue::QueueState;
use crate::value::roster::MemberId;
use crate::value::session::{Details, PartySession, Status};

/// A party session. Callers that are not members see neither its members nor its queue, goal and
/// times.
#[derive(Debug, Clone)]
pub(super) struct SessionView {
    pub(super) session: Arc<PartySession>,
    /// The caller, if it is a member.
    pub(super) viewer: Option<MemberId>,
    /// Whether the caller has just created it, and may see its details without being a member.
    pub(super) is_own: bool,
    pub(super) resume_token: Option<String>,
}

impl SessionView {
    /// The details that only members and the creator see.
    fn private_details(&self) -> Option<&Details> {
        (self.is_own || self.viewer.is_some()).then_some(&self.session.details)
    }
}

/// A party session. Callers that are not members see neither its members nor its queue, goal and
/// times.
#[Object(name = "Session")]
impl SessionView {
    /// The id.
    async fn id(&self) -> ID {
        self.session.id.as_str().into()
    }

    /// The name.
    async fn name(&self) -> Option<&str> {
        self.session.details.name.as_deref()
    }

    /// The board, as a path of the site; set by the first join.
    async fn board_path(&self) -> &str {
        self.session.details.board_path.as_deref().unwrap_or_default()
    }

    /// The members, in the order in which they joined.
    async fn users(&self) -> Vec<SessionUserView> {
        let roster = &self.session.roster;
        let members = roster.by_seniority().into_iter().filter(|_| self.viewer.is_some());
        members.map(|member| SessionUser::of(member, roster).into()).collect()
    }

    /// The number of members.
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

    /// Whether the caller is the leader.
    async fn is_leader(&self) -> bool {
        self.viewer.as_ref().is_some_and(|viewer| self.session.roster.is_leader(viewer))
    }

    /// The caller's member id; empty if the caller is not a member.
    async fn client_id(&self) -> ID {
        self.viewer.as_ref().map(MemberId::as_str).unwrap_or_default().into()
    }

    /// The token with which the caller can resume as the same member, if it asked for one.
    async fn resume_token(&self) -> Option<&str> {
        self.resume_token.as_deref()
    }

    /// The goal of the members.
    async fn goal(&self) -> Option<&str> {
        self.private_details()?.goal.as_deref()
    }

    /// Whether others may see the session.
    async fn is_public(&self) -> bool {
        self.session.details.is_public
    }

    /// When the first member joined, in ISO 8601.
    async fn started_at(&self) -> Option<String> {
        self.private_details()?.started_at_ms.map(iso)
    }

    /// When the session ended, in ISO 8601.
    async fn ended_at(&self) -> Option<String> {
        self.private_details()?.ended_at_ms.map(iso)
    }

    /// Whether the session is exempt from being ended when unused.
    async fn is_permanent(&self) -> bool {
        self.session.details.is_permanent
    }

    /// The colour, as `#` and six hex digits.
    async fn color(&self) -> Option<&str> {
        self.session.details.color.as_deref()
    }
}

/// A member as others see it.
#[derive(Debug, Clone, SimpleObject)]
#[graphql(name = "SessionUser")]
pub(super) struct SessionUserView {
    /// The member id, which is not the account.
    id: ID,
    /// The name to show.
    username: String,
    /// Whether the member is the leader.
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

/// The queue of a session, or an empty queue for callers that may not see it.
#[derive(Debug, Clone)]
pub(super) enum QueueStateView {
    Of(Arc<PartySession>),
    /// An empty queue.
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

/// The queue at one sequence, with hashes that a client compares with those of its own copy.
#[Object(name = "QueueState")]
impl QueueStateView {
    /// The number of the last event.
    async fn sequence(&self) -> u64 {
        self.state().sequence
    }

    /// The number of times that the session was restored after a loss. Sequences of different
    /// incarnations are not comparable.
    async fn incarnation(&self) -> u64 {
        match self {
            Self::Of(session) => session.incarnation,
            Self::Hidden(_) => 0,
        }
    }

    /// The hash of the set of items and of the current one: eight hex digits.
    async fn state_hash(&self) -> String {
        self.state().state_hash.to_string()
    }

    /// The hash of the items in order, with their content: sixteen hex digits.
    async fn order_hash(&self) -> Option<String> {
        Some(self.state().order_hash.to_string())
    }

    /// The items.
    async fn queue(&self) -> Vec<ItemView> {
        self.state().queue.iter().cloned().map(ItemView).collect()
    }

    /// The current climb.
    async fn current_climb_queue_item(&self) -> Option<ItemView> {
        self.state().current.clone().map(ItemView)
    }
}

/// A session in a list.
#[derive(Debug, SimpleObject)]
pub(super) struct DiscoverableSession {
    /// The id.
    id: ID,
    /// The name.
    name: Option<String>,
    /// The board, as a path of the site.
    board_path: String,
    /// The latitude in degrees.
    latitude: f64,
    /// The longitude in degrees.
    longitude: f64,
    /// When the session was created, in ISO 8601.
    created_at: String,
    /// The account that created the session.
    created_by_user_id: Option<ID>,
    /// The number of members when the session was last archived.
    participant_count: usize,
    /// The distance in metres; null in `mySessions`.
    distance: Option<f64>,
    /// Whether the session had members when it was last archived.
    is_active: bool,
    /// The goal of the members.
    goal: Option<String>,
    /// Whether others may see the session.
    is_public: Option<bool>,
    /// Whether the session is exempt from being ended when unused.
    is_permanent: Option<bool>,
    /// The colour, as `#` and six hex digits.
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

/// A time in ISO 8601.
pub(super) fn iso(unix_ms: u64) -> String {
    Timestamp { unix_ms }.to_string()
}
