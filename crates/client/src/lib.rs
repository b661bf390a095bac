//! An asynchronous client that keeps one device connected.
//!
//! [`Client::start`] takes a [`ClientConfig`] and gives back a handle and a stream of
//! [`ClientEvent`]s. From then on the client does its duties by itself: it tries its URLs in turn,
//! pauses as the protocol asks, sends heartbeats, notices a dead server, answers challenges and
//! pings, and brings a newer token before the old one ends. What it does not do is remember chats.
//!
//! [`ChatClient::start`] adds that: it syncs after every connection, hands over every message of
//! every chat once and in order as a [`ChatEvent`], and sends messages again until each has a
//! definite answer. It also watches the presence of whom the application names, on every
//! connection anew; [`PresenceView`] is its rule of what counts.
//!
//! The rules are pure and stand apart from the sockets: [`back_off`] and [`policy`] say when to
//! come back, `heartbeat` when the server is dead, `refresh` when a newer token is due.
//! `connection` runs one socket and `client` runs one after the other. [`chat`] is built in the
//! same way on top of it. [`raw`] is for tests and load generators that want to write the bytes of
//! frames themselves.

pub mod back_off;
pub mod chat;
pub mod config;
pub mod event;
pub mod policy;
pub mod presence;
pub mod raw;
pub mod token;

mod client;
#[cfg(test)]
mod clock;
mod connection;
mod dial;
mod endpoint;
mod heartbeat;
mod link;
mod refresh;
mod session;
mod upgrade;

pub use back_off::{BackOff, BackOffConfig};
pub use chat::{
    Backlog, ChatClient, ChatConfig, ChatEvent, ChatSender, Draft, SendError, WatchError,
};
pub use client::{Client, ClientStopped, FrameSender};
pub use config::{Authentication, ClientConfig, ConfigError};
pub use dial::{Dialer, TcpDialer};
pub use event::{ClientEvent, Ending, Loss, Refusal, StopReason};
pub use policy::{Next, Policy};
pub use presence::PresenceView;
pub use token::{TokenError, TokenNeed, TokenProvider, expiry_of};
