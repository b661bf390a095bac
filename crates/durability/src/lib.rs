//! Stored messages, chats and users: numbered once, stored, then published.
//!
//! The ports define the behaviour of a store and a bus; `contract` checks every implementation.
//! The rest is the plane that uses them, in the order in which a message passes it: [`ingest`]
//! collects sends and stores them, [`bus`] publishes them, [`relay`] publishes those that were not
//! published in time, and [`catch_up`] reads them back.

pub mod message;
pub mod repair;
pub mod store;
pub mod log;
pub mod announcements;
pub mod upkeep;
pub mod chats;
pub mod chat_rules;
pub mod changes;
pub mod chat_changes;
pub mod people;
pub mod contacts;
pub mod privacy;
pub mod event;
pub mod bus;
#[cfg(any(test, feature = "contract"))]
pub mod contract;
pub mod breaker;
pub mod send_error;
pub mod ingest;
pub mod ranges;
pub mod publications;
pub mod relay;
pub mod catch_up;
pub mod lazy_writes;
pub mod retention;
pub mod availability;
pub mod metrics;

pub use announcements::{Announcements, Published, Unpublished};
pub use availability::Availability;
pub use breaker::{Breaker, BreakerConfig};
pub use bus::{
    Attempt, BusError, EventBus, EventPosition, EventSource, InProcessBus, Received, Report,
};
pub use catch_up::{CatchUp, ReadRefusal};
pub use changes::{ChangeError, Changes};
pub use chat_changes::ChatChanges;
pub use chats::{
    Actor, ChatEdit, ChatSummary, Chats, Created, EditError, Edited, Idempotency, NewChat,
    Watermark,
};
pub use contacts::{Contacts, ContactsFull};
pub use event::{Event, Stored};
pub use ingest::{Ingest, IngestLimits, Submission};
pub use lazy_writes::{LazyStore, LazyWrites};
pub use log::{AppendError, AppendRefusal, Appended, ChatLog, LogPage, LogRead, Position};
pub use message::{NewMessage, Receipt};
pub use metrics::Metrics;
pub use people::{People, Profile};
pub use privacy::{Privacy, Relation, Sight};
pub use publications::Publications;
pub use ranges::Ranges;
pub use repair::Repair;
pub use send_error::SendError;
pub use store::{Chain, StoreError};
pub use upkeep::Upkeep;
