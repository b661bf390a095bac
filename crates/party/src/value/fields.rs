//! A session as named fields: a store is a versioned map from names to bytes.
//!
//! | field | content |
//! |---|---|
//! | `head` | id, incarnation, version, sequences, hashes, status, leader, epoch |
//! | `details` | name, board, creator, times, place and settings |
//! | `order` | the uuids of the items, in order |
//! | `current` | the uuid of the current item, or the whole item if the queue has another one |
//! | `item:<uuid>` | an item |
//! | `member:<id>` | a member |
//! | `abandoned` | the sockets that members replaced by newer ones; absent if there are none |
//!
//! An edit writes the head and the items that it changes, never the others.

use std::collections::{BTreeMap, VecDeque};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::value::hash::{OrderHash, StateHash};
use crate::value::item::Item;
use crate::value::queue::QueueState;
use crate::value::roster::{FormerLeader, Member, MemberId, Roster};
use crate::value::session::{Details, PartySession, Status};

const HEAD: &str = "head";
const DETAILS: &str = "details";
const ORDER: &str = "order";
const CURRENT: &str = "current";
const ITEM: &str = "item:";
const MEMBER: &str = "member:";
const ABANDONED: &str = "abandoned";

/// The short part that changes with every commit. This field alone shows whether a copy is current.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The session's id.
    pub id: String,
    /// The number of times that it was restored after a loss.
    pub incarnation: u64,
    /// The number of commits.
    pub version: u64,
    /// The queue's sequence.
    pub sequence: u64,
    /// The queue's state hash.
    pub state_hash: StateHash,
    /// The queue's order hash.
    pub order_hash: OrderHash,
    /// The status.
    pub status: Status,
    /// The number of session events.
    pub roster_sequence: u64,
    /// The leader.
    pub leader: Option<MemberId>,
    /// The number of elections.
    pub epoch: u64,
    /// The leader before the session was restored.
    #[serde(default, rename = "heir", skip_serializing_if = "Option::is_none")]
    pub former_leader: Option<FormerLeader>,
}

/// The current item, by its uuid if the queue holds the very same one.
#[derive(PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Current {
    None,
    Queued(String),
    Apart(Item),
}

/// The fields that a commit writes and removes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Fields to write.
    pub set: Vec<(String, Vec<u8>)>,
    /// Fields to remove.
    pub remove: Vec<String>,
}

impl Changes {
    /// All fields of a session, for a store that does not have it.
    pub fn all(session: &PartySession) -> Self {
        Self { set: to_fields(session), remove: Vec::new() }
    }
}

/// The reason for which stored fields are not a session. The stored data is damaged.
#[derive(Debug, thiserror::Error)]
pub enum FieldError {
    /// A field is missing.
    #[error("the field {0} is missing")]
    Missing(String),
    /// A field cannot be read.
    #[error("the field {field} cannot be read: {reason}")]
    Unreadable {
        /// The name of the field.
        field: String,
        /// The reason.
        reason: serde_json::Error,
    },
    /// The items have other hashes than the head.
    #[error("the items do not match the hashes in the head")]
    HashMismatch,
}

impl Head {
    /// The head of a session.
    pub fn of(session: &PartySession) -> Self {
        Self {
            id: session.id.clone(),
            incarnation: session.incarnation,
            version: session.version,
            sequence: session.queue.sequence,
            state_hash: session.queue.state_hash,
            order_hash: session.queue.order_hash,
            status: session.status,
            roster_sequence: session.roster_sequence,
            leader: session.roster.leader.clone(),
            epoch: session.roster.epoch,
            former_leader: session.roster.former_leader.clone(),
        }
    }

    /// Reads the field `head`.
    pub fn from_field(value: &[u8]) -> Result<Self, FieldError> {
        decode(HEAD, value)
    }
}

impl Current {
    fn of(state: &QueueState) -> Self {
        let Some(current) = &state.current else { return Self::None };
        let queued = state.position(current.uuid()).map(|position| &state.queue[position]);
        match queued == Some(current) {
            true => Self::Queued(current.uuid().to_owned()),
            false => Self::Apart(current.clone()),
        }
    }
}

/// All fields of a session.
pub fn to_fields(session: &PartySession) -> Vec<(String, Vec<u8>)> {
    let mut fields = vec![
        (HEAD.to_owned(), encode(&Head::of(session))),
        (DETAILS.to_owned(), encode(&session.details)),
        (ORDER.to_owned(), encode(&order(&session.queue))),
        (CURRENT.to_owned(), encode(&Current::of(&session.queue))),
    ];
    let items = session.queue.queue.iter();
    fields.extend(items.map(|item| (format!("{ITEM}{}", item.uuid()), encode(item))));
    let members = session.roster.members.values();
    fields.extend(members.map(|member| (format!("{MEMBER}{}", member.id), encode(member))));
    if !session.roster.abandoned.is_empty() {
        fields.push((ABANDONED.to_owned(), encode(&session.roster.abandoned)));
    }
    fields
}

/// The session of these fields. Unknown fields are ignored.
pub fn from_fields(
    fields: impl IntoIterator<Item = (String, Vec<u8>)>,
) -> Result<PartySession, FieldError> {
    let fields: BTreeMap<String, Vec<u8>> = fields.into_iter().collect();
    let head: Head = read(&fields, HEAD)?;
    let details: Details = read(&fields, DETAILS)?;
    let order: Vec<String> = read(&fields, ORDER)?;
    let items = order.iter().map(|uuid| read::<Item>(&fields, &format!("{ITEM}{uuid}")));
    let queue = items.collect::<Result<Vec<Item>, _>>()?;
    let current = match read(&fields, CURRENT)? {
        Current::None => None,
        Current::Apart(item) => Some(item),
        Current::Queued(uuid) => {
            let queued = queue.iter().find(|item| item.uuid() == uuid).cloned();
            Some(queued.ok_or_else(|| FieldError::Missing(format!("{ITEM}{uuid}")))?)
        }
    };
    let queue = QueueState::new(head.sequence, queue, current);
    if (queue.state_hash, queue.order_hash) != (head.state_hash, head.order_hash) {
        return Err(FieldError::HashMismatch);
    }
    let mut members = BTreeMap::new();
    for (name, value) in fields.iter().filter(|(name, _)| name.starts_with(MEMBER)) {
        let member: Member = decode(name, value)?;
        members.insert(member.id.clone(), member);
    }
    let abandoned = match fields.get(ABANDONED) {
        Some(value) => decode(ABANDONED, value)?,
        None => VecDeque::new(),
    };
    Ok(PartySession {
        id: head.id,
        incarnation: head.incarnation,
        version: head.version,
        queue,
        roster: Roster {
            members,
            leader: head.leader,
            epoch: head.epoch,
            abandoned,
            former_leader: head.former_leader,
        },
        details,
        status: head.status,
        roster_sequence: head.roster_sequence,
    })
}

/// The changes from `before` to `after`.
pub fn changes(before: &PartySession, after: &PartySession) -> Changes {
    let mut changes = Changes::default();
    if Head::of(before) != Head::of(after) {
        changes.set.push((HEAD.to_owned(), encode(&Head::of(after))));
    }
    if before.details != after.details {
        changes.set.push((DETAILS.to_owned(), encode(&after.details)));
    }
    queue_changes(&mut changes, &before.queue, &after.queue);
    let (former, present) = (&before.roster.members, &after.roster.members);
    for (id, member) in present.iter().filter(|(id, member)| former.get(id) != Some(member)) {
        changes.set.push((format!("{MEMBER}{id}"), encode(member)));
    }
    let gone = former.keys().filter(|id| !present.contains_key(id));
    changes.remove.extend(gone.map(|id| format!("{MEMBER}{id}")));
    if before.roster.abandoned != after.roster.abandoned {
        changes.set.push((ABANDONED.to_owned(), encode(&after.roster.abandoned)));
    }
    changes
}

fn queue_changes(changes: &mut Changes, before: &QueueState, after: &QueueState) {
    if order(before) != order(after) {
        changes.set.push((ORDER.to_owned(), encode(&order(after))));
    }
    let current = Current::of(after);
    if Current::of(before) != current {
        changes.set.push((CURRENT.to_owned(), encode(&current)));
    }
    let (former, present) = (by_uuid(before), by_uuid(after));
    for item in after.queue.iter().filter(|item| former.get(item.uuid()) != Some(item)) {
        changes.set.push((format!("{ITEM}{}", item.uuid()), encode(item)));
    }
    let gone = before.queue.iter().filter(|item| !present.contains_key(item.uuid()));
    changes.remove.extend(gone.map(|item| format!("{ITEM}{}", item.uuid())));
}

fn order(state: &QueueState) -> Vec<&str> {
    state.queue.iter().map(Item::uuid).collect()
}

fn by_uuid(state: &QueueState) -> BTreeMap<&str, &Item> {
    state.queue.iter().map(|item| (item.uuid(), item)).collect()
}

fn encode(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("a session has no key that is not text")
}

fn read<T: DeserializeOwned>(
    fields: &BTreeMap<String, Vec<u8>>,
    name: &str,
) -> Result<T, FieldError> {
    let value = fields.get(name).ok_or_else(|| FieldError::Missing(name.to_owned()))?;
    decode(name, value)
}

fn decode<T: DeserializeOwned>(name: &str, value: &[u8]) -> Result<T, FieldError> {
    let unreadable = |reason| FieldError::Unreadable { field: name.to_owned(), reason };
    serde_json::from_slice(value).map_err(unreadable)
}
