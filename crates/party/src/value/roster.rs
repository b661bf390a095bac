//! The members of a session and their leader.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use heartline_protocol::{NodeId, UserId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::value::error::PartyError;
use crate::value::limits::ABANDONED_SOCKETS_MAX;
use crate::value::validate;

/// The id of a member: the id of the connection that first joined. Clients see it as `clientId` and
/// as a user's `id`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemberId(Arc<str>);

impl MemberId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of a member that gave none: the end of the random part of its id, because ids of
    /// the same moment begin alike.
    pub fn default_username(&self) -> String {
        let parts = self.0.split(['-', '_']);
        let random = parts.max_by_key(|part| part.len()).unwrap_or_default();
        format!("User-{}", &random[random.len().saturating_sub(6)..])
    }
}

impl FromStr for MemberId {
    type Err = PartyError;

    fn from_str(text: &str) -> Result<Self, PartyError> {
        validate::key_part("connectionId", text)?;
        Ok(Self(Arc::from(text)))
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for MemberId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl Serialize for MemberId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for MemberId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The socket through which a member is present. A later socket has another number on its node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Attachment {
    /// The node that holds the socket.
    pub node: NodeId,
    /// The socket's number on that node.
    pub socket: u64,
}

/// The digest of a resume token; the token itself is known to its client alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenDigest(pub String);

/// The tokens with which a member may resume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// The token that was issued last.
    pub token: TokenDigest,
    /// Earlier tokens, the newest last, valid until the client is known to have received the last
    /// one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub previous: Vec<TokenDigest>,
}

/// The absence of a member without a socket that may still resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Away {
    /// The time at which the socket closed.
    pub since_ms: u64,
    /// The time at which the member is removed.
    pub deadline_ms: u64,
}

/// The leader before a loss, which leads again if it returns in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormerLeader {
    /// The member.
    pub member: MemberId,
    /// The deadline for its return.
    pub deadline_ms: u64,
}

/// One member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The id.
    pub id: MemberId,
    /// The account, if the member is signed in. An account in two tabs is two members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<UserId>,
    /// The name to show.
    pub username: String,
    /// The picture to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avatar_url: Option<String>,
    /// The time of joining, by the store's clock.
    pub joined_at_ms: u64,
    /// The present or last socket.
    pub attachment: Attachment,
    /// The tokens with which the member may resume, if it asked for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
    /// The absence, if the member has no socket. An absent member may lead until the deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away: Option<Away>,
}

/// All members, and their leader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roster {
    /// The members by id.
    pub members: BTreeMap<MemberId, Member>,
    /// The leader; none only if there are no members.
    pub leader: Option<MemberId>,
    /// The number of elections. An operation of a leader may name the epoch in which it led, and is
    /// rejected in another.
    pub epoch: u64,
    /// Sockets that members replaced by newer ones, the latest last. A node that missed the change
    /// may still hold such a socket, and must not add a member again that has left since.
    pub abandoned: VecDeque<Attachment>,
    /// The leader before the session was restored.
    pub former_leader: Option<FormerLeader>,
}

impl Roster {
    /// A member.
    pub fn get(&self, id: &MemberId) -> Option<&Member> {
        self.members.get(id)
    }

    /// The member whose present or last socket this is.
    pub fn by_attachment(&self, attachment: &Attachment) -> Option<&Member> {
        self.members.values().find(|member| member.attachment == *attachment)
    }

    /// Records that a member has replaced this socket.
    pub(crate) fn add_abandoned(&mut self, socket: Attachment) {
        self.abandoned.push_back(socket);
        let beyond = self.abandoned.len().saturating_sub(ABANDONED_SOCKETS_MAX);
        self.abandoned.drain(..beyond);
    }

    /// Records that a member uses this socket, also if it was replaced before: a replaced
    /// connection may join again.
    pub(crate) fn remove_abandoned(&mut self, socket: &Attachment) {
        self.abandoned.retain(|abandoned| abandoned != socket);
    }

    /// Whether a member has a newer socket than this one, or had one before it left.
    pub(crate) fn has_moved_on(&self, id: &MemberId, from: &Attachment) -> bool {
        let is_elsewhere = self.get(id).is_some_and(|member| member.attachment != *from);
        is_elsewhere || self.abandoned.contains(from)
    }

    /// The join time of a new member: after all present members, also if another node's clock is
    /// ahead or two join in the same millisecond.
    pub(crate) fn joins_at_ms(&self, now_ms: u64) -> u64 {
        let latest_ms = self.members.values().map(|member| member.joined_at_ms).max();
        latest_ms.map_or(now_ms, |latest_ms| now_ms.max(latest_ms + 1))
    }

    /// The members in the order in which they joined.
    pub fn by_seniority(&self) -> Vec<&Member> {
        let mut members: Vec<_> = self.members.values().collect();
        members.sort_by_key(|member| (member.joined_at_ms, &member.id));
        members
    }

    /// The winner of an election: the member that has been present longest.
    pub fn most_senior(&self) -> Option<&Member> {
        self.members.values().min_by_key(|member| (member.joined_at_ms, &member.id))
    }

    /// Whether this member is the leader.
    pub fn is_leader(&self, id: &MemberId) -> bool {
        self.leader.as_ref() == Some(id)
    }

    /// The member that may resume with this token and account.
    pub fn by_token(&self, token: &TokenDigest, account: Option<&UserId>) -> Option<&Member> {
        let fits = |resume: &Resume| resume.token == *token || resume.previous.contains(token);
        self.members.values().find(|member| {
            member.account.as_ref() == account && member.resume.as_ref().is_some_and(fits)
        })
    }

    /// The earliest deadline of an absent member.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        let deadlines = self.members.values().filter_map(|member| member.away);
        deadlines.map(|away| away.deadline_ms).min()
    }
}
