//! The port to where sessions are kept for good: what is restored when hot state is gone, and what
//! is found without knowing a session's id.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use heartline_protocol::UserId;

use crate::room::store::{Revision, Stored};
use crate::value::session::{Details, Session, Status};

/// A session as the archive keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct Archived {
    /// Its id.
    pub session_id: String,
    /// All of it.
    pub stored: Stored,
    /// Where it is in its life.
    pub status: Status,
    /// What is said about it.
    pub details: Details,
    /// When something last happened to it, in milliseconds since 1970.
    pub active_at_ms: u64,
    /// Members that it has.
    pub members: usize,
    /// Accounts that have been members of it, those who are not yet noted among them. An archive
    /// adds them to those that it has, and answers all.
    pub participants: Vec<UserId>,
}

impl Archived {
    /// A session as it is to be kept.
    pub fn of(session: &Session, active_at_ms: u64) -> Self {
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

/// A session that was found without knowing its id.
#[derive(Debug, Clone, PartialEq)]
pub struct Discovered {
    /// Its id.
    pub session_id: String,
    /// Where it is in its life.
    pub status: Status,
    /// What is said about it.
    pub details: Details,
    /// Members that it had when it was last archived.
    pub members: usize,
    /// How far away it is in metres, if that was asked for.
    pub distance_metres: Option<f64>,
}

/// A circle on the ground.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Circle {
    /// Its middle.
    pub latitude: f64,
    /// Its middle.
    pub longitude: f64,
    /// How far it reaches.
    pub radius_metres: f64,
}

/// Where sessions are kept for good. Every call has a deadline of the archive's own.
#[async_trait]
pub trait PartyArchive: fmt::Debug + Send + Sync {
    /// Keeps sessions. One that is there already at this revision or a newer one stays as it is,
    /// so that nothing goes back; only who has been a member of it is noted in any case.
    async fn put(&self, sessions: Vec<Archived>) -> Result<(), PartyArchiveError>;

    /// A session; none if it was never kept.
    async fn get(&self, session_id: &str) -> Result<Option<Archived>, PartyArchiveError>;

    /// Discoverable sessions in a circle that are not ended, the nearest first.
    async fn nearby(
        &self,
        circle: Circle,
        limit: usize,
    ) -> Result<Vec<Discovered>, PartyArchiveError>;

    /// Sessions that an account has created or been a member of and that are not ended, the last
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

/// A call to the archive failed, or was not answered in time. It may have been carried out.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the party archive failed: {0}")]
pub struct PartyArchiveError(#[source] Arc<dyn Error + Send + Sync>);

impl PartyArchiveError {
    /// A failure with this cause.
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Arc::from(cause.into()))
    }
}
