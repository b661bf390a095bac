//! Members of party sessions.

pub mod crowd;
mod guest;
pub mod large;

pub use guest::{ADD, Guest, Heard, Join, Outcome, PROTOCOL, item, uuid};
