//! What is kept: messages, chats and people; numbered once, stored, then announced.
//!
//! The ports say what a store and a bus must do; [`contract`] proves it of any of them. The rest
//! is the plane that uses them, in the order in which a message meets it: [`ingest`] gathers sends
//! and has them stored, [`bus`] announces them, [`relay`] announces what stayed behind, and
//! [`catch_up`] reads them back.

pub mod message;
pub mod repair;
pub mod store;
pub mod log;
pub mod members;
pub mod profiles;
pub mod bus;
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

pub use availability::Availability;
pub use breaker::{Breaker, BreakerConfig};
pub use bus::{BusError, Event, EventBus, InProcessBus, Stored};
pub use catch_up::{CatchUp, ReadRefusal};
pub use ingest::{Ingest, IngestLimits, Submission};
pub use lazy_writes::LazyWrites;
pub use log::{AppendError, Appended, ChatLog, LogPage, LogRead, Position, Published, Unpublished};
pub use members::{
    Actor, Audience, ChatEdit, ChatSummary, Created, EditError, Edited, Idempotency, Members,
    NewChat, Watermark,
};
pub use message::{NewMessage, Receipt};
pub use metrics::Metrics;
pub use profiles::{ContactsFull, Profile, Profiles, Relation, Sight};
pub use publications::Publications;
pub use ranges::Ranges;
pub use repair::Repair;
pub use send_error::SendError;
pub use store::StoreError;
