//! Connections: upgrade, authentication, session, outbox, drain.
//!
//! The modules are listed in the order in which a connection uses them.

pub mod config;
pub mod refusal;
pub mod websocket;
pub mod origin;
pub mod addresses;
pub mod gateway;
pub mod ports;
mod accept;
pub mod session;
mod sliding_window;
pub mod pressure;
pub mod outbox;
pub mod transport;
mod requests;
mod connection;
mod serve;
mod closing;
pub mod graphql;
pub mod handle;
pub mod hub;
pub mod inbox;
mod cursor;
pub mod presence;
pub mod drain;
pub mod budget;
pub mod metrics;
mod sync;
pub mod typing;

pub use accept::Accepted;
pub use config::{Config, Limits, SessionPolicy};
pub use gateway::{Gateway, Parts};
pub use graphql::{GraphQl, GraphQlCaller, GraphQlConfig, GraphQlRequest, Reply};
pub use hub::Hub;
pub use metrics::Metrics;
pub use ports::DurabilityPorts;
pub use presence::{PresenceReader, PresenceTask};
pub use refusal::Refusal;
pub use transport::Transport;
pub use typing::TypingNotices;
