//! A session as a value. Only [`PartySession::fold`] changes one.

use heartline_protocol::UserId;
use serde::{Deserialize, Serialize};

use crate::value::entry::Entry;
use crate::value::fact::{Contents, Fact, QueueEvent, SessionChange, SessionEvent, Stamp};
use crate::value::queue::{FoldError, QueueState};
use crate::value::roster::{Attachment, Member, MemberId, Resume, Roster};

/// The status of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The session has members.
    Active,
    /// The session has no members, and may be joined.
    Inactive,
    /// The session has ended, which is final.
    Ended,
}

/// The details of a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Details {
    /// The name, given by the creator.
    pub name: Option<String>,
    /// The board, as a path of the site; set once.
    pub board_path: Option<String>,
    /// The account that created the session, by creating or by joining first.
    pub creator: Option<UserId>,
    /// The time of its first commit.
    pub created_at_ms: Option<u64>,
    /// The time of the first join.
    pub started_at_ms: Option<u64>,
    /// The time of its end.
    pub ended_at_ms: Option<u64>,
    /// Whether a search by place finds the session.
    pub discoverable: bool,
    /// The latitude in degrees.
    pub latitude: Option<f64>,
    /// The longitude in degrees.
    pub longitude: Option<f64>,
    /// The goal of the members.
    pub goal: Option<String>,
    /// The colour, as `#` and six hex digits.
    pub color: Option<String>,
    /// Whether the session is exempt from being ended when unused.
    pub is_permanent: bool,
    /// Whether others may see the session.
    pub is_public: bool,
    /// Whether a member has joined, so that seeds are no longer accepted.
    pub seeded: bool,
}

/// A party session. A commit compares its incarnation and its version, because versions may repeat
/// after a loss.
#[derive(Debug, Clone, PartialEq)]
pub struct PartySession {
    /// The id, which a client may choose.
    pub id: String,
    /// The number of times that the session was restored after a loss. Sequences of different
    /// incarnations do not compare.
    pub incarnation: u64,
    /// The number of commits.
    pub version: u64,
    /// The queue.
    pub queue: QueueState,
    /// The members.
    pub roster: Roster,
    /// The details.
    pub details: Details,
    /// The status.
    pub status: Status,
    /// The number of session events.
    pub roster_sequence: u64,
}

impl PartySession {
    /// A session that has not been created or joined.
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            incarnation: 0,
            version: 0,
            queue: QueueState::default(),
            roster: Roster::default(),
            details: Details::default(),
            status: Status::Inactive,
            roster_sequence: 0,
        }
    }

    /// Whether the session has been created or joined.
    pub fn exists(&self) -> bool {
        self.details.created_at_ms.is_some()
    }

    /// The member that is present on this socket. A member that resumed on a newer socket is no
    /// longer present on the older one.
    pub fn present(&self, id: &MemberId, attachment: &Attachment) -> Option<&Member> {
        self.roster.get(id).filter(|member| member.attachment == *attachment)
    }

    /// Folds one commit.
    pub fn fold_entry(&mut self, entry: &Entry) -> Result<(), FoldError> {
        *self = self.after(entry)?;
        Ok(())
    }

    /// The session after one commit.
    pub fn after(&self, entry: &Entry) -> Result<Self, FoldError> {
        if entry.version != self.version + 1 {
            return Err(FoldError::OutOfOrder);
        }
        let mut next = self.clone();
        for fact in &entry.facts {
            next.fold(fact)?;
        }
        next.version = entry.version;
        Ok(next)
    }

    /// Folds one fact. A fact of another state is rejected and changes nothing.
    pub fn fold(&mut self, fact: &Fact) -> Result<(), FoldError> {
        match fact {
            Fact::Queue(event) => self.fold_queue(event)?,
            Fact::Session(event) => self.fold_session(event)?,
            Fact::Seeded { stamp, contents } => self.fold_seed(stamp, contents.as_ref())?,
            Fact::MemberAway { member, away } => self.member(member)?.away = Some(*away),
            Fact::MemberAttached { member, attachment, resume } => {
                self.fold_attachment(member, attachment, resume.as_ref())?;
            }
            Fact::ResumeConfirmed { member } => {
                if let Some(resume) = &mut self.member(member)?.resume {
                    resume.previous.clear();
                }
            }
            Fact::StatusChanged { status } => self.status = *status,
            Fact::DetailsChanged { details } => self.details = details.clone(),
            Fact::Restored { incarnation, sequence, roster_sequence, epoch, former_leader } => {
                self.roster.former_leader.clone_from(former_leader);
                self.incarnation = *incarnation;
                self.queue.sequence = *sequence;
                self.roster_sequence = *roster_sequence;
                self.roster.epoch = *epoch;
                self.leave_all();
            }
        }
        Ok(())
    }

    fn fold_queue(&mut self, event: &QueueEvent) -> Result<(), FoldError> {
        if event.stamp.sequence != self.queue.sequence + 1 {
            return Err(FoldError::OutOfOrder);
        }
        let next = self.queue.after(&event.change)?;
        next.check_stamp(&event.stamp)?;
        self.queue = next;
        Ok(())
    }

    fn fold_seed(&mut self, stamp: &Stamp, contents: Option<&Contents>) -> Result<(), FoldError> {
        let Contents { queue, current } = contents.cloned().ok_or(FoldError::Marker)?;
        let next = QueueState::new(self.queue.sequence + 1, queue, current);
        next.check_stamp(stamp)?;
        self.queue = next;
        Ok(())
    }

    fn fold_attachment(
        &mut self,
        id: &MemberId,
        attachment: &Attachment,
        resume: Option<&Resume>,
    ) -> Result<(), FoldError> {
        let member = self.member(id)?;
        let former = std::mem::replace(&mut member.attachment, attachment.clone());
        member.resume = resume.cloned();
        member.away = None;
        if former != *attachment {
            self.roster.remove_abandoned(attachment);
            self.roster.add_abandoned(former);
        }
        Ok(())
    }

    fn fold_session(&mut self, event: &SessionEvent) -> Result<(), FoldError> {
        if event.sequence != self.roster_sequence + 1 {
            return Err(FoldError::OutOfOrder);
        }
        match &event.change {
            SessionChange::MemberJoined { member } => {
                self.roster.remove_abandoned(&member.attachment);
                self.roster.members.insert(member.id.clone(), member.clone());
            }
            SessionChange::MemberUpdated { member, username, avatar_url } => {
                let member = self.member(member)?;
                member.username.clone_from(username);
                member.avatar_url.clone_from(avatar_url);
            }
            SessionChange::MemberLeft { member } => {
                self.roster.members.remove(member).ok_or(FoldError::Absent)?;
                self.roster.leader = self.roster.leader.take().filter(|leader| leader != member);
            }
            SessionChange::LeaderElected { member, epoch } => {
                self.member(member)?;
                self.roster.leader = Some(member.clone());
                self.roster.epoch = *epoch;
            }
            SessionChange::Ended { ended_at_ms, .. } => {
                self.leave_all();
                self.status = Status::Ended;
                self.details.ended_at_ms = Some(*ended_at_ms);
            }
        }
        self.roster_sequence = event.sequence;
        Ok(())
    }

    fn leave_all(&mut self) {
        self.roster.members.clear();
        self.roster.leader = None;
    }

    fn member(&mut self, id: &MemberId) -> Result<&mut Member, FoldError> {
        self.roster.members.get_mut(id).ok_or(FoldError::Absent)
    }
}
