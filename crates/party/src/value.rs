//! A session as a value: no IO, no runtime, no clock, no randomness.
//!
//! An [`Operation`](operation::Operation) is applied to a [`PartySession`](session::PartySession)
//! and gives [`Fact`](fact::Fact)s; folding facts is the only way in which a session changes. The
//! room that applies an operation commits its facts by comparing the session's version, and applies
//! the operation again to the newer session if another commit came first. Edits, members, the
//! leader and the end of a session are therefore decided one after the other, whichever node
//! decides.
//!
//! The modules in reading order: the parts of a session ([`item`], [`queue`], [`roster`],
//! [`session`]), its changes ([`operation`], [`fact`], [`entry`], [`log`]), and the forms in which
//! it is compared and stored ([`hash`], [`fields`]).

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

#[cfg(test)]
pub(crate) mod tests;
