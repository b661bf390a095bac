//! Members of party sessions.

pub mod crowd;
mod client;
pub mod large;

pub use client::{ADD, Join, Outcome, PROTOCOL, PartyClient, Received, item, uuid};
