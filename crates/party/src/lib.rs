//! A shared session: a queue that everybody edits, its members and their leader.
//!
//! Everything here is a pure function of values: no IO, no runtime, no clock. An [`Operation`] is
//! applied to a [`Session`] and gives [`Fact`]s; folding them is all that changes one. Whoever
//! applies an operation commits its facts by comparing the session's version, and tries again on
//! the newer session if another commit came first. So edits, members, leader and the end of a
//! session are decided one after the other, by whichever node, and nothing is decided twice.
//!
//! The modules in reading order: what is shared ([`item`], [`queue`], [`roster`], [`session`]),
//! how it changes ([`operation`], [`fact`], [`entry`], [`log`]), how it is compared and stored
//! ([`hash`], [`fields`]), and the ports to where it is ([`store`], [`archive`]).

pub mod error;
pub mod limits;
pub mod canonical;
pub mod hash;
pub mod item;
pub mod validate;
pub mod queue;
pub mod roster;
pub mod session;
pub mod fact;
pub mod operation;
pub mod entry;
pub mod log;
pub mod fields;
pub mod store;
pub mod archive;
pub mod contract;
pub mod metrics;
pub mod listener;
pub mod rooms;
pub mod room;
mod restore;
mod archivist;
mod census;
pub mod rate;
pub mod party_socket;
pub mod schema;

pub use archive::{Archived, Circle, Discovered, PartyArchive, PartyArchiveError};
pub use entry::{Entry, Remembered};
pub use error::PartyError;
pub use fact::{Contents, Fact, QueueChange, QueueEvent, SessionChange, SessionEvent, Stamp};
pub use fields::{Changes, FieldError, Head, changes, from_fields, to_fields};
pub use hash::{ContentHash, OrderHash, StateHash};
pub use item::{Climb, Item, QueueItem, QueueItemUser};
pub use limits::Limits;
pub use listener::{Heard, Listener, SessionNews, SessionNewsChange, SessionUser, Topic};
pub use log::{EventLog, LogLimits, Replay};
pub use metrics::PartyMetrics;
pub use operation::{
    Actor, Applied, Context, Decided, Edit, Join, Lifecycle, Membership, NewSession, Operation,
    Outcome, apply, decide,
};
pub use party_socket::PartySocket;
pub use queue::{FoldError, QueueState};
pub use rate::PartyRates;
pub use room::{Answer, Replayed};
pub use rooms::{PartyConfig, Rooms};
pub use roster::{Attachment, Away, Heir, Member, MemberId, Resume, Roster, TokenDigest};
pub use schema::{Caller, GraphQlRequest, Party, Reply};
pub use session::{Details, Session, Status};
pub use store::{
    Commit, Committed, LOCK_LIFETIME, NOTICES_MAX, Notice, OFFER_LIFETIME, PartyStore,
    PartyStoreError, Revision, Stored,
};

#[cfg(test)]
mod tests;
