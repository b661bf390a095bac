//! An asynchronous client that keeps one device connected.
//!
//! [`Client::start`] takes a [`ClientConfig`] and gives back a handle and a stream of
//! [`ClientEvent`]s. From then on the client does its duties by itself: it tries its URLs in turn,
//! pauses as the protocol asks, sends heartbeats, notices a dead server, answers challenges and
//! pings, and brings a newer token before the old one ends. What it does not do is remember chats:
//! after every [`ClientEvent::Connected`] the application syncs.
//!
//! The rules are pure and stand apart from the sockets: [`back_off`] and [`policy`] say when to
//! come back, `heartbeat` when the server is dead, `refresh` when a newer token is due.
//! `connection` runs one socket and `client` runs one after the other. [`raw`] is for tests and
//! load generators that want to write the bytes of frames themselves.

pub mod back_off;
pub mod config;
pub mod event;
pub mod policy;
pub mod raw;
pub mod token;

mod client;
mod clock;
mod connection;
mod dial;
mod endpoint;
mod heartbeat;
mod refresh;
mod session;
mod upgrade;

pub use back_off::{BackOff, BackOffConfig};
pub use client::{Client, ClientStopped, FrameSender};
pub use config::{Authentication, ClientConfig, ConfigError};
pub use event::{ClientEvent, Ending, Loss, Refusal, StopReason};
pub use policy::{Next, Policy};
pub use token::{TokenError, TokenNeed, TokenProvider, expiry_of};
