//! Who is in the session, and who leads it.

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

/// A member: the id of the connection that first joined as it. Clients know it as `clientId` and as
/// a user's `id`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemberId(Arc<str>);

impl MemberId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What a member is called who gave no name: the end of its id's random part, because ids that
    /// were made in the same moment begin alike.
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

/// With which tokens a member may come back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// The one that was given out last.
    pub token: TokenDigest,
    /// Those before, newest last, good while it is not known that the client got the last one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub previous: Vec<TokenDigest>,
}

/// A member without a socket, who may still come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Away {
    /// When the socket went.
    pub since_ms: u64,
    /// When the member is out.
    pub deadline_ms: u64,
}

/// Who led before a loss, and leads again if it is back in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heir {
    /// Who.
    pub member: MemberId,
    /// Until when.
    pub deadline_ms: u64,
}

/// One member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Who it is in this session.
    pub id: MemberId,
    /// The account, of those who are signed in. An account in two tabs is two members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<UserId>,
    /// The name to show.
    pub username: String,
    /// The picture to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avatar_url: Option<String>,
    /// When it joined, by the store's clock.
    pub joined_at_ms: u64,
    /// The socket through which it is present, or was.
    pub attachment: Attachment,
    /// With which tokens it may come back, if it asked for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
    /// Since when it has no socket. It is a member, and may lead, until its deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away: Option<Away>,
}

/// All members, and their leader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roster {
    /// The members by id.
    pub members: BTreeMap<MemberId, Member>,
    /// Who leads; nobody only while nobody is here.
    pub leader: Option<MemberId>,
    /// How often a leader was elected. An operation on behalf of a leader may name the epoch in
    /// which it led, and is refused in another.
    pub epoch: u64,
    /// Sockets that members gave up for newer ones, the latest last. A node that slept through it
    /// still holds such a socket, and must not bring back through it a member who has left since.
    pub abandoned: VecDeque<Attachment>,
    /// Who led before the session was restored.
    pub heir: Option<Heir>,
}

impl Roster {
    /// A member.
    pub fn get(&self, id: &MemberId) -> Option<&Member> {
        self.members.get(id)
    }

    /// The member who is present through this socket, or was last.
    pub fn by_attachment(&self, attachment: &Attachment) -> Option<&Member> {
        self.members.values().find(|member| member.attachment == *attachment)
    }

    /// Takes note that a member has a newer socket than this one.
    pub(crate) fn abandon(&mut self, socket: Attachment) {
        self.abandoned.push_back(socket);
        let beyond = self.abandoned.len().saturating_sub(ABANDONED_SOCKETS_MAX);
        self.abandoned.drain(..beyond);
    }

    /// Takes note that a member is here through this socket, also where it had been given up: a
    /// connection that was replaced may join again.
    pub(crate) fn take_up(&mut self, socket: &Attachment) {
        self.abandoned.retain(|abandoned| abandoned != socket);
    }

    /// Whether a member has a newer socket than this one, or had one before it left.
    pub(crate) fn has_moved_on(&self, id: &MemberId, from: &Attachment) -> bool {
        let is_elsewhere = self.get(id).is_some_and(|member| member.attachment != *from);
        is_elsewhere || self.abandoned.contains(from)
    }

    /// When somebody who comes in now has joined: after everybody who is here, also where another
    /// node's clock is a little ahead or two come in the same millisecond.
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

    /// Who leads if there is an election now: who has been here longest.
    pub fn most_senior(&self) -> Option<&Member> {
        self.members.values().min_by_key(|member| (member.joined_at_ms, &member.id))
    }

    /// Whether this member leads.
    pub fn is_leader(&self, id: &MemberId) -> bool {
        self.leader.as_ref() == Some(id)
    }

    /// The member who may come back with this token, if the account is the same as well.
    pub fn by_token(&self, token: &TokenDigest, account: Option<&UserId>) -> Option<&Member> {
        let fits = |resume: &Resume| resume.token == *token || resume.previous.contains(token);
        self.members.values().find(|member| {
            member.account.as_ref() == account && member.resume.as_ref().is_some_and(fits)
        })
    }

    /// The first deadline of a member who is away.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        let deadlines = self.members.values().filter_map(|member| member.away);
        deadlines.map(|away| away.deadline_ms).min()
    }
}
