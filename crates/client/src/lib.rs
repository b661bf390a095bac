//! An asynchronous client that keeps one device connected.
//!
//! [`Client::start`] takes a [`ClientConfig`] and returns a handle and a stream of
//! [`ClientEvent`]s. From then on the client tries its URLs in turn, backs off as the protocol
//! requires, sends heartbeats, detects a dead server, answers challenges and Pings, and refreshes
//! the token before it expires. It keeps no state about chats.
//!
//! [`ChatClient::start`] adds chats: the client syncs after every connection, delivers every
//! message of every chat once and in order as a [`ChatEvent`], and retries sends until each is
//! stored or rejected. It also subscribes again on every connection to the presence of the users
//! that the application named; [`PresenceView`] decides which status is newest.
//!
//! The rules are pure and separate from the sockets: [`back_off`] and [`reconnect_policy`] decide
//! when to reconnect, `heartbeat` when the server counts as lost, `refresh` when a newer token is
//! due. `connection` runs one connection and `client` reconnects. [`chat`] is built on top in the
//! same way. [`raw`] is for tests and load generators that write frames as bytes.

pub mod back_off;
pub mod chat;
pub mod config;
pub mod event;
pub mod reconnect_policy;
pub mod presence_view;
pub mod raw;
pub mod token;

mod client;
#[cfg(test)]
mod clock;
mod connection;
mod dial;
mod endpoint;
mod heartbeat;
mod frame_socket;
mod refresh;
mod connection_state;
mod upgrade;

pub use back_off::{BackOff, BackOffConfig};
pub use chat::{
    Backlog, ChatClient, ChatConfig, ChatEvent, ChatSender, Draft, SendError, SubscribeError,
};
pub use client::{Client, ClientStopped, FrameSender};
pub use config::{Authentication, ClientConfig, ConfigError};
pub use dial::{Dialer, TcpDialer};
pub use event::{ClientEvent, Ending, Loss, Rejection, StopReason};
pub use presence_view::PresenceView;
pub use reconnect_policy::{NextStep, ReconnectPolicy};
pub use token::{TokenError, TokenNeed, TokenProvider, expiry_of};
