//! The port to the archive: all sessions, for restoring them after a loss and for searches.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use heartline_protocol::UserId;

use crate::room::store::{Revision, Stored};
use crate::value::session::{Details, PartySession, Status};

/// A session as the archive keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct Archived {
    /// The id of the session.
    pub session_id: String,
    /// The fields and the revision.
    pub stored: Stored,
    /// The status.
    pub status: Status,
    /// The details.
    pub details: Details,
    /// The time of the last change, in milliseconds since 1970.
    pub active_at_ms: u64,
    /// The number of members.
    pub members: usize,
    /// Accounts that are or have been members. An archive adds them to those that it has, and
    /// returns all of them.
    pub participants: Vec<UserId>,
}

impl Archived {
    /// The archived form of a session.
    pub fn of(session: &PartySession, active_at_ms: u64) -> Self {
        let members = session.roster.members.values();
        Self {
            session_id: session.id.clone(),
            stored: Stored {
                revision: Revision::of(session),
                fields: crate::value::fields::to_fields(session),
            },
            status: session.status,
            details: session.details.clone(),
            active_at_ms,
            members: session.roster.members.len(),
            participants: members.filter_map(|member| member.account.clone()).collect(),
        }
    }
}

/// A session in the result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Discovered {
    /// The id of the session.
    pub session_id: String,
    /// The status.
    pub status: Status,
    /// The details.
    pub details: Details,
    /// The number of members when the session was last archived.
    pub members: usize,
    /// The distance in metres, in a search by place.
    pub distance_metres: Option<f64>,
}

/// A circle on the ground.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchArea {
    /// The latitude of the centre, in degrees.
    pub latitude: f64,
    /// The longitude of the centre, in degrees.
    pub longitude: f64,
    /// The radius.
    pub radius_metres: f64,
}

/// The archive of all sessions. Every call has a deadline of the archive's own.
#[async_trait]
pub trait PartyArchive: fmt::Debug + Send + Sync {
    /// Writes sessions. A session that is archived at this revision or a newer one stays unchanged;
    /// only its participants are added in any case.
    async fn put(&self, sessions: Vec<Archived>) -> Result<(), PartyArchiveError>;

    /// Reads a session; none if it was never archived.
    async fn get(&self, session_id: &str) -> Result<Option<Archived>, PartyArchiveError>;

    /// Discoverable sessions in an area that have not ended, the nearest first.
    async fn nearby(
        &self,
        area: SearchArea,
        limit: usize,
    ) -> Result<Vec<Discovered>, PartyArchiveError>;

    /// Sessions that an account has created or been a member of and that have not ended, the last
    /// active first.
    async fn of_account(
        &self,
        account: &UserId,
        limit: usize,
    ) -> Result<Vec<Discovered>, PartyArchiveError>;

    /// Ids of sessions without members that are neither ended nor permanent and to which nothing
    /// has happened since a time, the oldest first.
    async fn idle(&self, before_ms: u64, limit: usize) -> Result<Vec<String>, PartyArchiveError>;
}

/// A call to the archive failed or timed out. The archive may have performed it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the party archive failed: {0}")]
pub struct PartyArchiveError(#[source] Arc<dyn Error + Send + Sync>);

impl PartyArchiveError {
    /// A failure with this cause.
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Arc::from(cause.into()))
    }
}
